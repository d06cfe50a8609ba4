package nidkey

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"roam"
)

// seeded is a source of randomness that repeats itself.
type seeded struct{ *rand.Rand }

func (s seeded) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return len(b), nil
}

func drawn(t testing.TB, seed uint64) Key {
	t.Helper()
	k, err := New(seeded{rand.New(rand.NewPCG(seed, 1))})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestHashGolden fixes the format: the bytes come from another implementation of it (Python's
// hashlib).
func TestHashGolden(t *testing.T) {
	var p Public
	var m Modifier
	for i := range p {
		p[i] = byte(i)
	}
	for i := range m {
		m[i] = byte(0xf0 + i)
	}
	if nid := Hash(p, m); nid != goldenNID {
		t.Errorf("NID %#x, want %#x", uint64(nid), uint64(goldenNID))
	}
}

// TestIdentifierBits: identifiers are of local scope and name one node (RFC 6741 §2.3, RFC 4291 §2.5.1), whatever
// the hash, all other bits are the hash's, and those that RFC 5453 reserves are not used.
func TestIdentifierBits(t *testing.T) {
	for first := range 256 {
		got := identifier([32]byte{0: byte(first), 1: 0xa5, 7: 0x5a, 8: 0xff})
		if want := roam.NID(first&0xfc)<<56 | 0x00a5_0000_0000_005a; got != want {
			t.Errorf("first byte %#x: %v, want %v", first, got, want)
		}
	}
	for nid, want := range map[roam.NID]bool{0: false, 1<<32 - 1: false, 1 << 32: true, 0xfc << 56: true} {
		if Usable(nid) != want {
			t.Errorf("%v: usable %t", nid, !want)
		}
	}
}

func TestNew(t *testing.T) {
	k := drawn(t, 1)
	if b := uint64(k.NID) >> 56; b&3 != 0 {
		t.Errorf("NID %v: group or universal/local bit is set", k.NID)
	}
	if err := (Claim{k.Public, k.Modifier, true}).Check(k.NID); err != nil {
		t.Errorf("its own claim: %v", err)
	}
	if err := (Claim{k.Public, k.Modifier, true}).Check(k.NID ^ 1<<8); err == nil {
		t.Error("the claim of another NID is believed")
	}
	if err := (Claim{Public: k.Public}).Check(k.NID ^ 1<<8); err != nil {
		t.Errorf("a key that is bound by its line alone: %v", err)
	}
	for _, n := range []int{KeyLen - 1, KeyLen + 5} {
		k, err := New(strings.NewReader(strings.Repeat("x", n)))
		if !errors.Is(err, io.ErrUnexpectedEOF) || k != (Key{}) {
			t.Errorf("with %d random bytes: %v, %v", n, k, err)
		}
	}
	if s, err := (Ready{}).Shared(k.Public); err == nil || s.Present() {
		t.Error("no key has a secret")
	}
}

func TestShared(t *testing.T) {
	a, b := drawn(t, 1), drawn(t, 2)
	ab, err := a.Shared(b.Public)
	if err != nil {
		t.Fatal(err)
	}
	if ba, err := b.Shared(a.Public); err != nil || ab != ba || !ab.Present() {
		t.Errorf("secrets differ: %v", err)
	}
	if aa, _ := a.Shared(drawn(t, 3).Public); aa == ab {
		t.Error("one secret with two nodes")
	}
	e, err := ReadyEphemeral([KeyLen]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	ea, err := e.Shared(a.Public)
	if err != nil {
		t.Fatal(err)
	}
	if ae, err := a.Shared(e.Public); err != nil || ae != ea || ea == ab {
		t.Errorf("the secrets with an ephemeral key differ: %v", err)
	}
}

// lowOrder are the points of low order on Curve25519, without those that are not canonical.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func TestLowOrder(t *testing.T) {
	for _, text := range lowOrder {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		p := Public(b)
		if _, err := ParseClaim(p.String()); !errors.Is(err, ErrLowOrder) || !strings.Contains(err.Error(), p.String()) {
			t.Errorf("%s: %v, want %v", text, err, ErrLowOrder)
		}
		if _, err := drawn(t, 1).Shared(p); !errors.Is(err, ErrLowOrder) {
			t.Errorf("%s: a secret of it: %v", text, err)
		}
	}
}

func TestClaim(t *testing.T) {
	k := drawn(t, 1)
	for _, c := range []Claim{{Public: k.Public}, {k.Public, k.Modifier, true}} {
		if got, err := ParseClaim(c.String()); err != nil || got != c || !got.Present() {
			t.Errorf("%s reads as %+v, %v", c, got, err)
		}
	}
	if (Claim{}).Present() {
		t.Error("a line without a key has one")
	}
	key, modifier := k.Public.String(), k.Modifier.String()
	base64url := errors.New("no base64url")
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty": {"", ErrLength}, "short": {key[:40], ErrLength},
		"long": {key + "AA", base64url}, "cut": {key[:41], base64url},
		"short modifier": {key + "." + modifier[:20], ErrLength}, "empty modifier": {key + ".", ErrLength},
		"no base64": {strings.Repeat("*", 43), base64url}, "padding": {key + "=", base64url},
		"a line end":                 {key[:20] + "\n" + key[20:], errors.New("a line ends")},
		"a line end in the modifier": {key + "." + modifier[:9] + "\r" + modifier[9:], errors.New("a line ends")},
		"three parts":                {key + "." + modifier + "." + modifier, base64url},
		"31 bytes":                   {base64.RawURLEncoding.EncodeToString(k.Public[:31]), ErrLength},
		"33 bytes":                   {base64.RawURLEncoding.EncodeToString(append(k.Public[:], 1)), ErrLength},
	} {
		if got, err := ParseClaim(c.text); err == nil || !strings.Contains(err.Error(), c.want.Error()) {
			t.Errorf("%s: %q reads as %+v, %v; want %v", name, c.text, got, err, c.want)
		}
	}
}

func TestFile(t *testing.T) {
	k := drawn(t, 1)
	file := k.File()
	if got, err := ParseFile(file); err != nil || got != k {
		t.Fatalf("reads as %v, %v", got, err)
	}
	for n := range file {
		if _, err := ParseFile(file[:n]); !errors.Is(err, ErrFile) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(file), err)
		} else if strings.Contains(err.Error(), private(k)) {
			t.Errorf("cut to %d bytes: the error quotes the private key", n)
		}
	}
	for name, c := range map[string]struct {
		text string
		want error
		says string
	}{
		"empty":              {"", ErrFile, "it is empty"},
		"another file":       {"nid 1-2-3-4\n", ErrFile, "begin"},
		"another version":    {strings.Replace(string(file), " 1\n", " 2\n", 1), ErrVersion, `"2"`},
		"more behind":        {string(file) + "x\n", ErrFile, "lines"},
		"an empty line":      {string(file) + "\n", ErrFile, "lines"},
		"no end behind":      {string(file) + "x", ErrFile, "lines"},
		"lines swapped":      {strings.Replace(string(file), "modifier", "nid", 1), ErrFile, "line 3"},
		"key too short":      {strings.Replace(string(file), private(k), private(k)[:40], 1), ErrFile, "line 2"},
		"modifier too short": {strings.Replace(string(file), k.Modifier.String(), "AAAA", 1), ErrFile, "line 3"},
		"no identifier":      {strings.Replace(string(file), k.NID.String(), "1-2-3", 1), ErrFile, "line 4"},
	} {
		if _, err := ParseFile([]byte(c.text)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, c.want, c.says)
		}
	}
}

func private(k Key) string { return base64.RawURLEncoding.EncodeToString(k.private[:]) }

// TestNothingPrints writes keys and secrets with every verb, alone and within others.
func TestNothingPrints(t *testing.T) {
	k := drawn(t, 1)
	s, err := k.Shared(drawn(t, 2).Public)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q", "%T"} {
		for _, v := range []any{k, &k, s, &s, struct{ K Key }{k}, []Key{k}, map[int]Secret{1: s}} {
			text := fmt.Sprintf(verb, v)
			for _, secret := range [][]byte{k.private[:], s.b[:]} {
				for _, form := range []string{"%x", "%X", "%v", "%d", "%s"} {
					part := strings.Trim(fmt.Sprintf(form, secret[:8]), "[]")
					if strings.Contains(text, part) {
						t.Errorf("%s of %T writes the secret", verb, v)
					}
				}
			}
		}
	}
}

// TestWithoutX25519: where X25519 is forbidden (GODEBUG=fips140=only) each use of a key is an error, and no key or
// secret of zeros.
func TestWithoutX25519(t *testing.T) {
	const only = "fips140=only"
	if os.Getenv("GODEBUG") != only {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutX25519$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG="+only)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "\n--- PASS: TestWithoutX25519") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	given := Key{private: [KeyLen]byte{1}}
	for name, use := range map[string]func() error{
		"ephemeral":       func() error { _, err := ReadyEphemeral([KeyLen]byte{1}); return err },
		"own":             func() error { _, err := given.Ready(); return err },
		"of a file":       func() error { _, err := ParseFile(given.File()); return err },
		"drawn":           func() error { _, err := New(seeded{rand.New(rand.NewPCG(1, 1))}); return err },
		"with another's":  func() error { _, err := given.Shared(Public{9}); return err },
		"a claim of it":   func() error { _, err := ParseClaim(Public{9}.String()); return err },
		"ephemeral, kept": func() error { _, err := Ephemeral([KeyLen]byte{1}); return err },
	} {
		if err := use(); err == nil || !strings.Contains(err.Error(), "FIPS") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add(drawn(f, 1).File())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseFile(b)
		if err != nil {
			return
		}
		if again, err := ParseFile(k.File()); err != nil || again != k {
			t.Fatalf("written again it reads as %v, %v", again, err)
		}
	})
}

func FuzzParseClaim(f *testing.F) {
	k := drawn(f, 1)
	f.Add(k.Public.String())
	f.Add(Claim{k.Public, k.Modifier, true}.String())
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseClaim(s)
		if err == nil && c.String() != s {
			t.Fatalf("%q is read as %q", s, c)
		}
	})
}

const goldenNID roam.NID = 0xe04436b4c85a8514
