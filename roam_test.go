package roam_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"roam"
)

const (
	nid roam.NID = 0x1c4f_00a9_7be1_0003
	l64 roam.L64 = 0x2001_0db8_0001_000a
)

func TestText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{nid.String(), "1c4f:00a9:7be1:0003"},
		{l64.String(), "2001:0db8:0001:000a"},
		{roam.ILV{NID: nid, L64: l64}.String(), "1c4f-a9-7be1-3.2001+db8+1+a"},
		{roam.ILV{}.String(), "0-0-0-0.0+0+0+0"},
		{l64.Prefix().String(), "2001:db8:1:a::/64"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestParseNID(t *testing.T) {
	for _, s := range []string{"1c4f:00a9:7be1:0003", "1c4f:a9:7be1:3", "1c4f-a9-7be1-3", "1C4F-00A9-7BE1-0003"} {
		if got, err := roam.ParseNID(s); err != nil || got != nid {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestParseL64(t *testing.T) {
	for _, s := range []string{"2001:0db8:0001:000a", "2001:db8:1:a", "2001+db8+1+a", "2001+DB8+1+A"} {
		if got, err := roam.ParseL64(s); err != nil || got != l64 {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestParseILV(t *testing.T) {
	v, err := roam.ParseILV("1c4f-a9-7be1-3.2001+db8+1+a")
	if err != nil || v != (roam.ILV{NID: nid, L64: l64}) {
		t.Errorf("%v, %v", v, err)
	}
}

// bad are the halves that no Parse function takes.
var bad = []string{"", "1", "1SEP2SEP3", "1SEP2SEP3SEP4SEP5", "SEP2SEP3SEP4", "1SEP2SEP3SEP", "1SEPSEP3SEP4",
	"12345SEP2SEP3SEP4", "gSEP2SEP3SEP4", "+1SEP2SEP3SEP4", "-1SEP2SEP3SEP4", " 1SEP2SEP3SEP4", "1SEP2SEP3SEP4 ",
	"0x1SEP2SEP3SEP4", "1_0SEP2SEP3SEP4", "1:2-3+4", "1.2.3.4"}

func TestParseRefusals(t *testing.T) {
	for _, pattern := range bad {
		for _, sep := range []string{":", "-", "+"} {
			s := strings.ReplaceAll(pattern, "SEP", sep)
			if n, err := roam.ParseNID(s); !errors.Is(err, roam.ErrSyntax) {
				t.Errorf("node identifier %q: %v, %v", s, n, err)
			}
			if l, err := roam.ParseL64(s); !errors.Is(err, roam.ErrSyntax) {
				t.Errorf("locator %q: %v, %v", s, l, err)
			}
		}
	}
	for _, s := range []string{"", ".", "1-2-3-4", "1-2-3-4.", ".1+2+3+4", "1:2:3:4.1+2+3+4", "1-2-3-4.1:2:3:4",
		"1+2+3+4.1-2-3-4", "1-2-3-4.1+2+3+4.5", "1-2-3.1+2+3+4", "1-2-3-4.1+2+3+zz"} {
		if v, err := roam.ParseILV(s); !errors.Is(err, roam.ErrSyntax) {
			t.Errorf("identifier-locator vector %q: %v, %v", s, v, err)
		}
	}
	// The separator of the other half is none here.
	if _, err := roam.ParseNID("1+2+3+4"); err == nil {
		t.Error("node identifier with plus signs passes")
	}
	if _, err := roam.ParseL64("1-2-3-4"); err == nil {
		t.Error("locator with dashes passes")
	}
}

func TestAddr(t *testing.T) {
	v := roam.ILV{NID: nid, L64: l64}
	want := netip.MustParseAddr("2001:db8:1:a:1c4f:a9:7be1:3")
	if v.Addr() != want {
		t.Errorf("address %v, want %v", v.Addr(), want)
	}
	if got := roam.ILVFromAddr(want); got != v {
		t.Errorf("vector %v, want %v", got, v)
	}
}

func TestUsable(t *testing.T) {
	for s, want := range map[string]bool{
		"2001:db8:1:a": true, "fd69:6c6e:7000:2627": true, "fec0:0:0:1": true, "fe7f:0:0:1": true,
		"0:0:0:0": false, "fe80:0:0:0": false, "febf:ffff:0:0": false, "ff02:0:0:0": false, "ff0e:1:2:3": false,
	} {
		l, err := roam.ParseL64(s)
		if err != nil {
			t.Fatal(err)
		}
		if l.Usable() != want {
			t.Errorf("%s: usable %v", s, l.Usable())
		}
	}
	mapped := roam.ILVFromAddr(netip.MustParseAddr("::ffff:192.0.2.1"))
	if mapped.L64.Usable() {
		t.Error("the prefix of IPv4-mapped addresses is usable")
	}
}

// The default session prefix is worth nothing in one's-complement arithmetic.
func TestDefaultSessionPrefix(t *testing.T) {
	p := uint64(roam.DefaultSessionPrefix)
	if sum := p>>48 + p>>32&0xffff + p>>16&0xffff + p&0xffff; sum%0xffff != 0 {
		t.Errorf("words sum to %#x", sum)
	}
}

func TestJSON(t *testing.T) {
	type both struct {
		NID roam.NID
		L64 roam.L64
	}
	b, err := json.Marshal(both{nid, l64})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"NID":"1c4f:00a9:7be1:0003","L64":"2001:0db8:0001:000a"}`; string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
	var got both
	if err := json.Unmarshal(b, &got); err != nil || got != (both{nid, l64}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"NID":"1:2:3"}`), &got); !errors.Is(err, roam.ErrSyntax) {
		t.Errorf("three groups: %v", err)
	}
}

func FuzzParseText(f *testing.F) {
	f.Add("1c4f-a9-7be1-3.2001+db8+1+a")
	f.Add("1c4f:00a9:7be1:0003")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := roam.ParseNID(s); err == nil {
			if again, err := roam.ParseNID(n.String()); err != nil || again != n {
				t.Errorf("node identifier %q: %v, %v", s, again, err)
			}
		}
		if l, err := roam.ParseL64(s); err == nil {
			if again, err := roam.ParseL64(l.String()); err != nil || again != l {
				t.Errorf("locator %q: %v, %v", s, again, err)
			}
		}
		if v, err := roam.ParseILV(s); err == nil {
			if again, err := roam.ParseILV(v.String()); err != nil || again != v {
				t.Errorf("vector %q: %v, %v", s, again, err)
			}
		}
	})
}
