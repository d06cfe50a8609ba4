package ilnphost

import (
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/testutil"
	"roam/naming"
	"roam/nidkey"
)

// rotation is a peer that has replaced its key, and a host that knows the old one.
type rotation struct {
	h              *Host
	own, old, next nidkey.Key
	until          time.Time
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{h: newKeeper(t, "", ""), until: time.Now().Add(time.Hour).Truncate(time.Second)}
	for _, k := range []*nidkey.Key{&r.own, &r.old, &r.next} {
		var err error
		if *k, err = nidkey.New(rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	r.h.nid, r.h.key = r.own.NID, &r.own
	return r
}

func claimOf(k nidkey.Key) nidkey.Claim {
	return nidkey.Claim{Public: k.Public, Modifier: k.Modifier, Hashed: true}
}

// line returns the pairing line of the new key, for a reader, as `by` makes it.
func (r *rotation) line(t *testing.T, by nidkey.Key, reader nidkey.Key) naming.Record {
	t.Helper()
	secret, err := by.Shared(reader.Public)
	if err != nil {
		t.Fatal(err)
	}
	record := naming.Record{
		NID: r.next.NID, Names: []string{"other"}, Key: claimOf(r.next),
		Locators: []naming.Locator{{L64: 0x2001_0db8_0009_0001, Preference: 10}},
	}
	text, err := naming.FormatVouched(record, nidkey.Vouch{Old: r.old.NID, Until: r.until},
		func(body string) [nidkey.VouchLen]byte { return secret.Vouches(r.old.NID, reader.NID, body) })
	if err != nil {
		t.Fatal(err)
	}
	got, err := naming.ParsePairing(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTakeOver: only a line that the known key made for this host, in its time, takes its place.
func TestTakeOver(t *testing.T) {
	r := newRotation(t)
	known := naming.Record{NID: r.old.NID, Key: claimOf(r.old), Names: []string{"peer"}}
	judge := func(own *nidkey.Key, known, line naming.Record) error {
		return vouched(own, r.h.nid, known, line.Vouch)
	}
	good := r.line(t, r.old, r.own)
	if err := judge(&r.own, known, good); err != nil {
		t.Errorf("the right line: %v", err)
	}
	late := r.line(t, r.old, r.own)
	late.Vouch.Until = time.Now().Add(-time.Second)
	r.until = r.until.Add(time.Hour)
	longer := r.line(t, r.old, r.own)
	longer.Vouch.MAC = good.Vouch.MAC
	unkeyed := known
	unkeyed.Key = nidkey.Claim{}
	other := known
	other.Key = claimOf(r.next)
	for name, c := range map[string]struct {
		own         *nidkey.Key
		known, line naming.Record
		want        string
	}{
		"made by another key":          {&r.own, known, r.line(t, r.next, r.own), "was not made for this host"},
		"made for another host":        {&r.own, known, r.line(t, r.old, r.next), "was not made for this host"},
		"its time changed":             {&r.own, known, longer, "was not made for this host"},
		"its time is over":             {&r.own, known, late, "vouched until"},
		"no key known":                 {&r.own, unkeyed, good, "not known here with a key"},
		"another key known":            {&r.own, other, good, "was not made for this host"},
		"this host has no key":         {nil, known, good, "this host has no key"},
		"this host has another by now": {&r.next, known, good, "was not made for this host"},
	} {
		if err := judge(c.own, c.known, c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestSuccession: the new record has the names and options of the old one, which is gone.
func TestSuccession(t *testing.T) {
	r := newRotation(t)
	old := naming.Record{NID: r.old.NID, Key: claimOf(r.old), Names: []string{"peer", "alias"}, Plain: naming.PlainYes,
		Locators: []naming.Locator{{L64: 0x2001_0db8_0001_0001, Preference: 10}}}
	r.h.keeping.Lock()
	defer r.h.keeping.Unlock()
	if _, err := r.h.writeBook(func(b book) (book, error) { return b.add(old, false) }); err != nil {
		t.Fatal(err)
	}
	line := r.line(t, r.old, r.own)
	next, err := r.h.writeBook(func(b book) (book, error) {
		return b.succeed(old.NID, succession(b.record(old.NID), line))
	})
	if err != nil {
		t.Fatal(err)
	}
	got := next.record(line.NID)
	if len(next.Records) != 1 || !slices.Equal(got.Names, old.Names) || got.Plain != naming.PlainYes ||
		got.Key != line.Key || got.Locators[0].L64 != roam.L64(0x2001_0db8_0009_0001) {
		t.Errorf("records %+v", next.Records)
	}
}

// said is a log that a test waits for.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) has(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), what)
}

// TestSuccessionOfAnotherIdentifier: a key vouches for one whose hash is not the identifier that comes with it.
// The record stays, and the log says why.
func TestSuccessionOfAnotherIdentifier(t *testing.T) {
	for name, change := range map[string]func(s *ilnp.Succession){
		"another identifier": func(s *ilnp.Succession) { s.NID++ },
		"another modifier":   func(s *ilnp.Succession) { s.Claim.Modifier[0]++ },
		"another key":        func(s *ilnp.Succession) { s.Claim.Public[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRotation(t)
			var log said
			r.h.log = slog.New(slog.NewTextHandler(&log, nil))
			r.h.keeping.Lock()
			_, err := r.h.writeBook(func(b book) (book, error) {
				return b.add(naming.Record{NID: r.old.NID, Key: claimOf(r.old), Names: []string{"peer"}}, false)
			})
			r.h.keeping.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			s := ilnp.Succession{Old: r.old.NID, NID: r.next.NID, Claim: claimOf(r.next)}
			change(&s)
			follow(r.h, s)
			testutil.Eventually(t, 10*time.Second, func() bool { return log.has("is not taken over") }, "the log says so")
			if !log.has("is the hash of its key, which is") {
				t.Errorf("the log does not say why: %s", log.text.String())
			}
			b, err := openBook(r.h.cfg)
			if err != nil || b.record(r.old.NID).Key != claimOf(r.old) || len(b.Records) != 1 {
				t.Errorf("records %+v, %v", b.Records, err)
			}
		})
	}
}
