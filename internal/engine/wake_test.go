package engine

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"roam/internal/dataplane"
	ilnpwire "roam/wire/ilnp"
)

// What TCP looks for in the quoted segment is where it looks.
func TestQuote(t *testing.T) {
	s := dataplane.Connection{
		Local: netip.MustParseAddrPort("[fd69::1]:22"), Remote: netip.MustParseAddrPort("[fd69::2]:4000"), Unacked: 0xfeed_beef, Backoff: 3,
	}
	q, err := ilnpwire.ParseQuoted(quote(s))
	if err != nil {
		t.Fatal(err)
	}
	if q.Src.Addr() != s.Local.Addr() || q.Dst.Addr() != s.Remote.Addr() {
		t.Errorf("from %v to %v", q.Src, q.Dst)
	}
	b := quote(s)[40:]
	if binary.BigEndian.Uint16(b) != 22 || binary.BigEndian.Uint16(b[2:]) != 4000 || binary.BigEndian.Uint32(b[4:]) != s.Unacked {
		t.Errorf("segment % x", b)
	}
}
