package naming

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"roam/nidkey"
)

// seeded is a source of randomness that repeats itself.
type seeded struct{ *rand.Rand }

func (s seeded) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return len(b), nil
}

func keyOf(t testing.TB, seed uint64) nidkey.Key {
	t.Helper()
	k, err := nidkey.New(seeded{rand.New(rand.NewPCG(seed, 1))})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestPairingWithKey: a line has the key, bound by its hash or by the line alone.
func TestPairingWithKey(t *testing.T) {
	k := keyOf(t, 1)
	hashed := Record{
		NID: k.NID, Locators: []Locator{{0x2001_0db8_0001_0001, DefaultPreference}}, Names: []string{"alpha"},
		Key: nidkey.Claim{Public: k.Public, Modifier: k.Modifier, Hashed: true},
	}
	bound := hashed
	bound.NID, bound.Key = 0x0011_22ff_0000_0001, nidkey.Claim{Public: k.Public}
	for name, r := range map[string]Record{"hashed": hashed, "bound": bound} {
		line, err := FormatPairing(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParsePairing(line)
		if err != nil || got.Key != r.Key || got.NID != r.NID || !strings.HasPrefix(line, "roam2:") {
			t.Errorf("%s: %s reads as %+v, %v", name, line, got, err)
		}
		host, err := ParseHostsLine(got.HostsLine())
		if err != nil || host.Key != r.Key {
			t.Errorf("%s: %s reads as %+v, %v", name, got.HostsLine(), host, err)
		}
	}
	unkeyed := hashed
	unkeyed.Key = nidkey.Claim{}
	if line, err := FormatPairing(unkeyed); err != nil || !strings.HasPrefix(line, "roam1:") {
		t.Errorf("without a key: %s, %v", line, err)
	}
}

// seal puts the right checksum behind a line.
func seal(body string) string { return body + ":" + sum(body) }

func TestPairingKeyFaults(t *testing.T) {
	k := keyOf(t, 1)
	const rest = ":2001+db8+1+1:alpha:"
	key := k.Public.String()
	for name, c := range map[string]struct{ line, want string }{
		"another node's hash": {seal("roam2:11-22ff-0-1" + rest + key + "." + k.Modifier.String()), "is the hash of its key"},
		"key too short":       {seal("roam2:11-22ff-0-1" + rest + key[:40]), "wrong length"},
		"no key":              {seal("roam2:11-22ff-0-1" + rest), "wrong length"},
		"low order":           {seal("roam2:11-22ff-0-1" + rest + strings.Repeat("A", 43)), "low order"},
		"field missing":       {seal("roam2:11-22ff-0-1:2001+db8+1+1:alpha"), "want 6"},
		"key on an old line":  {seal("roam1:11-22ff-0-1" + rest + key), "want 5"},
		"version 3":           {seal("roam3:11-22ff-0-1" + rest + key), "newer Roam"},
		"changed":             {"roam2:11-22ff-0-1" + rest + key + ":00000000", "copy it again"},
	} {
		if _, err := ParsePairing(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestTwoKeys: one node has one key, on one line, in one file, and in all.
func TestTwoKeys(t *testing.T) {
	a, b := keyOf(t, 1).Public.String(), keyOf(t, 2).Public.String()
	for name, files := range map[string][]File{
		"line":  {{"h", "nid=1:2:3:4 key=" + a + " key=" + b + " x"}},
		"file":  {{"h", "nid=1:2:3:4 key=" + a + " x\nnid=1:2:3:4 key=" + b + " x"}},
		"files": {{"h", "nid=1:2:3:4 key=" + a + " x"}, {"p", "nid=1:2:3:4 key=" + b + " x"}},
	} {
		if h := ReadHosts(files...); len(h.Faults) != 1 {
			t.Errorf("%s: faults %v, want one", name, h.Faults)
		}
	}
	h := ReadHosts(File{"h", "nid=1:2:3:4 key=" + a + " x"}, File{"p", "nid=1:2:3:4 l64=2001:db8:1:1 x"})
	if len(h.Faults) > 0 || len(h.Records) != 1 || h.Records[0].Key.Public.String() != a {
		t.Errorf("a line without a key: %+v", h)
	}
}

// TestGuarded: a key forbids plain IPv6, unless the record allows it.
func TestGuarded(t *testing.T) {
	key := keyOf(t, 1).Public.String()
	for line, want := range map[string]bool{
		"nid=1:2:3:4 x":                                   false,
		"nid=1:2:3:4 key=" + key + " x":                   true,
		"nid=1:2:3:4 plain=no key=" + key + " x":          true,
		"nid=1:2:3:4 plain=yes key=" + key + " x":         false,
		"nid=1:2:3:4 key=" + key + " key=optional x":      true,
		"nid=1:2:3:4 key=optional key=" + key + " x":      true,
		"nid=1:2:3:4 plain=no key=optional anywhere=no x": false,
	} {
		r, err := ParseHostsLine(line)
		if err != nil || r.Guarded() != want || r.Optional != strings.Contains(line, "optional") {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
		if again, err := ParseHostsLine(r.HostsLine()); err != nil || again.Plain != r.Plain || again.Optional != r.Optional {
			t.Errorf("%s: written again %+v, %v", r.HostsLine(), again, err)
		}
	}
	if _, err := ParseHosts("h", "nid=1:2:3:4 plain=no x\nnid=1:2:3:4 plain=yes x"); err == nil {
		t.Error("a contradiction is accepted")
	}
	if r, _ := ParseHostsLine("nid=1:2:3:4 key=" + key + " x"); r.With(Record{Plain: PlainYes, Optional: true}).Guarded() {
		t.Error("a later file does not allow it")
	}
}

// TestVouchedLine: the MAC covers the whole line before it, and the line cannot be cut back to one
// without it unnoticed.
func TestVouchedLine(t *testing.T) {
	k := keyOf(t, 1)
	r := Record{
		NID: k.NID, Locators: []Locator{{0x2001_0db8_0001_0001, DefaultPreference}}, Names: []string{"alpha"},
		Key: nidkey.Claim{Public: k.Public, Modifier: k.Modifier, Hashed: true},
	}
	v := nidkey.Vouch{Old: 0x0011_22ff_0000_0001, Until: time.Unix(2_000_000_000, 0).UTC()}
	var covered string
	line, err := FormatVouched(r, v, func(body string) [nidkey.VouchLen]byte {
		covered = body
		return [nidkey.VouchLen]byte{1, 2, 3}
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParsePairing(line)
	if err != nil || got.Vouch.Old != v.Old || got.Vouch.Body != covered || got.Vouch.MAC[2] != 3 || got.NID != k.NID {
		t.Fatalf("%s reads as %+v, %v", line, got, err)
	}
	if !strings.HasPrefix(line, covered+".") || !strings.HasSuffix(covered, ":11-22ff-0-1.2000000000") {
		t.Errorf("the MAC covers %q of %q", covered, line)
	}
	plain, err := FormatPairing(r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParsePairing(plain); err != nil || again.Vouch.Present() {
		t.Errorf("an ordinary line: %+v, %v", again.Vouch, err)
	}
	nameless := r
	nameless.Names = nil
	for name, r := range map[string]Record{"a key": {NID: 1, Names: []string{"a"}}, "a name": nameless} {
		line, err := FormatVouched(r, v, func(string) [nidkey.VouchLen]byte { return [nidkey.VouchLen]byte{} })
		if err == nil {
			t.Errorf("a line without %s is vouched for: %s", name, line)
		}
	}
	body := line[:strings.LastIndexByte(line, ':')]
	for n := range body {
		got, err := ParsePairing(seal(body[:n]))
		if within := strings.Count(body[:n], ":") == 5; err == nil && (within || got.Vouch.Present()) {
			t.Errorf("cut to %d bytes, within the vouch %t: %+v", n, within, got)
		}
	}
}
