package ilnphost

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
	"roam/internal/keyfile"
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
	keys, err := drawnKeys()
	if err != nil {
		t.Fatal(err)
	}
	r.own, r.old, r.next = keys[0], keys[1], keys[2]
	r.h.nid, r.h.key = r.own.NID, &r.own
	return r
}

// drawnKeys draws three keys, which takes long, once.
var drawnKeys = sync.OnceValues(func() (keys [3]nidkey.Key, err error) {
	for i := range keys {
		if keys[i], err = nidkey.New(rand.Reader); err != nil {
			return keys, err
		}
	}
	return keys, nil
})

func claimOf(k nidkey.Key) nidkey.Claim {
	return nidkey.Claim{Public: k.Public, Modifier: k.Modifier, Hashed: true}
}

// line returns the pairing line of the new key, for a reader, as `by` makes it.
func (r *rotation) line(t *testing.T, by nidkey.Key, reader nidkey.Key) naming.Record {
	t.Helper()
	return r.lineOf(t, r.next.NID, claimOf(r.next), by, reader)
}

// lineOf is line with another identifier and key than those of the rotation.
func (r *rotation) lineOf(t *testing.T, nid roam.NID, key nidkey.Claim, by, reader nidkey.Key) naming.Record {
	t.Helper()
	secret, err := by.Shared(reader.Public)
	if err != nil {
		t.Fatal(err)
	}
	record := naming.Record{
		NID: nid, Names: []string{"other"}, Key: key,
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

// written returns a book with these lines of hosts and added peers.
func written(hosts []naming.Record, peers []naming.Record) book {
	lines := func(list []naming.Record) (text string) {
		for _, r := range list {
			text += r.HostsLine() + "\n"
		}
		return text
	}
	return bookOf(lines(hosts), lines(peers))
}

// TestTakenOver: the line of a peer that has replaced its key takes the place of the record that vouches for it, once,
// and of none that the user has written in the hosts file.
func TestTakenOver(t *testing.T) {
	r := newRotation(t)
	old := naming.Record{NID: r.old.NID, Key: claimOf(r.old), Names: []string{"peer"}}
	line := r.line(t, r.old, r.own)
	taken := naming.Record{NID: line.NID, Key: line.Key, Names: old.Names, Locators: line.Locators}
	other := naming.Record{NID: line.NID, Key: claimOf(r.own), Names: []string{"somebody"}}
	bystander := naming.Record{NID: 7, Names: []string{"bystander"}}
	twice := naming.Record{NID: line.NID, Key: line.Key, Names: []string{"new"}}
	for name, c := range map[string]struct {
		b        book
		replaced roam.NID
		says     string // of an error
	}{
		"known":                   {written(nil, []naming.Record{old}), old.NID, ""},
		"known beside another":    {written(nil, []naming.Record{bystander, old}), old.NID, ""},
		"added before":            {written(nil, []naming.Record{taken}), 0, ""},
		"both are written":        {written(nil, []naming.Record{old, {NID: line.NID, Names: []string{"new"}}}), old.NID, ""},
		"both are, with that key": {written(nil, []naming.Record{old, twice}), old.NID, ""},
		"in the hosts file":       {written([]naming.Record{old}, nil), 0, "does not edit"},
		"not known":               {written(nil, nil), 0, "not known here with a key"},
		"another key is known":    {written(nil, []naming.Record{other}), 0, "not known here with a key"},
	} {
		next, replaced, err := takenOver(c.b, &r.own, r.own.NID, line)
		if replaced != c.replaced || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: replaced %v, %v", name, replaced, err)
		}
		stay := len(c.b.record(bystander.NID).Names)
		got, want := next.record(line.NID).HostsLine(), taken.HostsLine()
		if c.says == "" && (got != want || len(next.Records) != 1+stay || len(next.record(bystander.NID).Names) != stay) {
			t.Errorf("%s: records %+v, want %s", name, next.Records, want)
		}
		if c.says != "" && next.peers != c.b.peers {
			t.Errorf("%s: %q is to be written", name, next.peers.Text)
		}
	}
}

// TestTakesNobodysPlace: a peer whose key is known may not vouch for the identifier of somebody else.
func TestTakesNobodysPlace(t *testing.T) {
	r := newRotation(t)
	liar := naming.Record{NID: r.old.NID, Key: claimOf(r.old), Names: []string{"liar"}}
	victim := naming.Record{NID: r.own.NID + 1, Key: nidkey.Claim{Public: r.own.Public}, Names: []string{"victim"}}
	hashed := naming.Record{NID: r.next.NID, Key: nidkey.Claim{Public: r.own.Public}, Names: []string{"victim"}}
	next := r.line(t, r.old, r.own)
	others := r.lineOf(t, victim.NID, nidkey.Claim{Public: r.next.Public}, r.old, r.own)
	for name, c := range map[string]struct {
		b    book
		line naming.Record
		says string
	}{
		"known with its key":       {written(nil, []naming.Record{liar, victim}), others, "not its hash"},
		"not known":                {written(nil, []naming.Record{liar}), others, "not its hash"},
		"a hash, with another key": {written(nil, []naming.Record{liar, hashed}), next, "with another key"},
	} {
		next, replaced, err := takenOver(c.b, &r.own, r.own.NID, c.line)
		if err == nil || !strings.Contains(err.Error(), c.says) || replaced != 0 || next.peers != c.b.peers {
			t.Errorf("%s: replaced %v, %v, want %q; records %+v", name, replaced, err, c.says, next.Records)
		}
	}
}

// TestSucceeded: a key that vouches on the wire changes the record that Roam has written, if it is still that
// of the old key, and no other.
func TestSucceeded(t *testing.T) {
	r := newRotation(t)
	old := naming.Record{NID: r.old.NID, Key: claimOf(r.old), Names: []string{"peer"}, Optional: true,
		Locators: []naming.Locator{{L64: 0x2001_0db8_0001_0001, Preference: 10}}}
	next := naming.Record{NID: r.next.NID, Key: claimOf(r.next)}
	unkeyed, known := old, next
	unkeyed.Key, known.Names = nidkey.Claim{}, []string{"new"}
	for name, c := range map[string]struct {
		b    book
		says string
	}{
		"known":                     {written(nil, []naming.Record{old}), ""},
		"not known":                 {written(nil, nil), "not known any more"},
		"without its key":           {written(nil, []naming.Record{unkeyed}), "not known any more"},
		"the new one is known":      {written(nil, []naming.Record{old, known}), "known already"},
		"in the hosts file":         {written([]naming.Record{old}, nil), "put this line there"},
		"in the hosts file as well": {written([]naming.Record{old}, []naming.Record{old}), "put this line there"},
	} {
		got, err := succeeded(c.b, old.NID, next)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err != nil {
			if got.peers != c.b.peers {
				t.Errorf("%s: %q is to be written", name, got.peers.Text)
			}
			continue
		}
		want := old
		want.NID, want.Key = next.NID, next.Key
		if len(got.Records) != 1 || got.record(next.NID).HostsLine() != want.HostsLine() || got.retired != old.NID {
			t.Errorf("%s: records %+v, retired %v", name, got.Records, got.retired)
		}
	}
}

// TestOldKeyOf: the replaced key vouches for the one of another identifier only.
func TestOldKeyOf(t *testing.T) {
	cfg := newKeeper(t, "", "").cfg
	now := time.Now()
	if _, err := keyfile.New(cfg); err != nil {
		t.Fatal(err)
	}
	if k, err := oldKey(cfg, 7, now); k != nil || err != nil {
		t.Errorf("before a rotation: %v, %v", k, err)
	}
	next, old, err := keyfile.Rotate(cfg, now, time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	k, err := oldKey(cfg, next.NID, now)
	if err != nil || k.NID != old.NID || k.Key != old.Key || !k.Until.Equal(old.Until) {
		t.Errorf("under the new identifier: %+v, %v", k, err)
	}
	if k, err := oldKey(cfg, old.NID, now); k != nil || err != nil {
		t.Errorf("under the old one: %v, %v", k, err)
	}
	if k, err := oldKey(cfg, next.NID, now.Add(time.Hour)); k != nil || err != nil {
		t.Errorf("when its time is over: %v, %v", k, err)
	}
	if err := os.WriteFile(keyfile.OldPath(cfg), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err := oldKey(cfg, next.NID, now); k != nil || !errors.Is(err, nidkey.ErrFile) {
		t.Errorf("damaged: %v, %v", k, err)
	}
}

// TestSameKey: a line with another key than the known one of its node is refused, unless the user says --replace.
func TestSameKey(t *testing.T) {
	r := newRotation(t)
	is := func(k nidkey.Key) naming.Record {
		return naming.Record{NID: 7, Key: nidkey.Claim{Public: k.Public}, Names: []string{"a"}}
	}
	none := naming.Record{NID: 7, Names: []string{"a"}}
	for name, c := range map[string]struct {
		known, line naming.Record
		replace, ok bool
	}{
		"the same":             {is(r.old), is(r.old), false, true},
		"another":              {is(r.old), is(r.next), false, false},
		"another, to replace":  {is(r.old), is(r.next), true, true},
		"none was known":       {none, is(r.next), false, true},
		"none is on the line":  {is(r.old), none, false, true},
		"the node was unknown": {naming.Record{NID: 8, Key: is(r.old).Key, Names: []string{"b"}}, is(r.next), false, true},
	} {
		err := written(nil, []naming.Record{c.known}).sameKey(c.line, c.replace)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAddThatVouches: a line for which an old key vouches is judged by that alone: without an engine that says which
// key this host has, nothing is written.
func TestAddThatVouches(t *testing.T) {
	r := newRotation(t)
	h, _ := newForgetful(t)
	h.nid = r.own.NID
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	record := r.line(t, r.old, r.own)
	text, err := naming.FormatVouched(record, record.Vouch,
		func(string) [nidkey.VouchLen]byte { return [nidkey.VouchLen]byte{1} })
	if err != nil {
		t.Fatal(err)
	}
	for line, says := range map[string]string{
		text: "ask the engine", "what": "read line",
		roam.ILV{NID: h.nid, L64: 0x2001_0db8_0001_0001}.String() + " self": "is this host itself",
		"nid=1:2:3:4 key=" + claimOf(r.next).String() + " x":                "is the hash of its key",
	} {
		if p, err := h.AddPeer(ctx, control.AddRequest{Line: line}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: added %+v, %v; want %q", line, p, err, says)
		}
	}
	if b, err := openBook(h.cfg); err != nil || len(b.Records) > 0 {
		t.Errorf("records %+v, %v", b.Records, err)
	}
}

// TestAddKeeps: a line for which nothing vouches is written, under the name that the user gives, unless another key is
// known of its node or another node has the name.
func TestAddKeeps(t *testing.T) {
	r := newRotation(t)
	h, _ := newForgetful(t)
	h.nid = r.own.NID
	h.names.Store(&naming.Table{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	keyed := func(k nidkey.Key) string { return " key=" + nidkey.Claim{Public: k.Public}.String() + " x" }
	for _, c := range []struct{ line, as, says, has string }{
		{"nid=1:2:3:4" + keyed(r.old), "", "ask the engine", "nid=0001:0002:0003:0004" + keyed(r.old)},
		{"nid=1:2:3:4" + keyed(r.old), "two words", "is not allowed", keyed(r.old)},
		{"nid=1:2:3:4" + keyed(r.next), "", "a node has one key", keyed(r.old)},
		{"nid=1:2:3:5 z", "x", "nothing was changed", keyed(r.old)},
		{"nid=1:2:3:5 x", "z", "ask the engine", "nid=0001:0002:0003:0005 z"},
	} {
		p, err := h.AddPeer(ctx, control.AddRequest{Line: c.line, As: c.as})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s as %q: added %+v, %v; want %q", c.line, c.as, p, err, c.says)
		}
		b, err := openBook(h.cfg)
		if err != nil || !strings.Contains(b.peers.Text, c.has+"\n") {
			t.Errorf("%s as %q: written %q, %v; want %q", c.line, c.as, b.peers.Text, err, c.has)
		}
	}
}
