package ilnp

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"roam"
)

func siteAnswer() SiteNotice {
	return SiteNotice{Kind: SiteAnswer, Sequence: 1 << 40, Asker: [32]byte{1, 2}, Entries: []SiteEntry{
		{Internal: 0xfd00_0000_0001_0000, Site: 0x2001_0db8_000a_0000},
		{Internal: 0xfd00_0000_0001_0000, Site: 0x2001_0db8_000b_0000},
		{Internal: 0xfd00_0000_0002_0000, Site: 0x2001_0db8_000a_0000},
	}}
}

func TestSiteNotice(t *testing.T) {
	n, secret := siteAnswer(), []byte("secret")
	n.Seal(secret)
	b, err := n.AppendTo([]byte{7})
	if err != nil || len(b) != 1+48+3*16+MACLen {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, err := ParseSiteNotice(b[1:])
	if err != nil || got.Kind != n.Kind || got.Sequence != n.Sequence || got.Asker != n.Asker ||
		!slices.Equal(got.Entries, n.Entries) || !got.Verify(secret) || got.Verify([]byte("another")) {
		t.Errorf("%+v, %v", got, err)
	}
	both := []roam.L64{n.Entries[0].Site, n.Entries[1].Site}
	if m := got.Sites(); len(m) != 2 || !slices.Equal(m[n.Entries[0].Internal], both) {
		t.Errorf("sites %v", m)
	}
	// No byte can be changed unseen.
	for i := 1; i < len(b); i++ {
		c := bytes.Clone(b[1:])
		c[i-1] ^= 1
		if got, err := ParseSiteNotice(c); err == nil && got.Verify(secret) {
			t.Errorf("byte %d is not covered", i-1)
		}
	}
}

func TestSiteNoticeRefused(t *testing.T) {
	whole, _ := siteAnswer().AppendTo(nil)
	for n := range len(whole) {
		if _, err := ParseSiteNotice(whole[:n]); !errors.Is(err, ErrSiteNotice) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, n := range map[string]SiteNotice{
		"kind 0": {}, "kind 4": {Kind: 4}, "too many": {Kind: SiteAnswer, Entries: make([]SiteEntry, MaxSiteEntries+1)},
	} {
		if _, err := n.AppendTo(nil); !errors.Is(err, ErrSiteNotice) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSiteNotice(f *testing.F) {
	b, _ := siteAnswer().AppendTo(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ParseSiteNotice(b)
		if err != nil {
			return
		}
		if again, err := n.AppendTo(nil); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x, %v", again, err)
		}
	})
}
