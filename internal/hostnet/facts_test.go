package hostnet

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The own addresses are those of all links, temporary ones too, each once; not those of another node, and none that
// is not global. Links are without the loopback, and without temporary addresses.
func TestFacts(t *testing.T) {
	h := &Host{table: oneUplink()}
	clear(h.table.addrs)
	h.table.links[1] = link{name: "lo", flags: upFlags}
	h.table.addrs[key(1, "2001:db8:a::1")] = address{}
	h.table.addrs[key(1, "::1")] = address{scope: unix.RT_SCOPE_HOST}
	h.table.addrs[key(2, "2001:db8:a:1::5")] = address{}
	h.table.addrs[key(2, "2001:db8:a::1")] = address{}
	h.table.addrs[key(2, "2001:db8:a:1::6")] = address{flags: unix.IFA_F_TEMPORARY}
	h.table.addrs[key(2, "2001:db8:a:1::7")] = address{flags: unix.IFA_F_DADFAILED}
	h.table.addrs[key(2, "fe80::5")] = address{scope: unix.RT_SCOPE_LINK}
	f := h.allFacts()
	var want []netip.Addr
	for _, s := range []string{"2001:db8:a::1", "2001:db8:a:1::5", "2001:db8:a:1::6"} {
		want = append(want, netip.MustParseAddr(s))
	}
	if !slices.Equal(f.Own, want) {
		t.Errorf("own addresses %v, want %v", f.Own, want)
	}
	if len(f.Links) != 1 || len(f.Links[0].Addrs) != 2 {
		t.Errorf("links %+v", f.Links)
	}
	delete(h.table.addrs, key(1, "2001:db8:a::1"))
	delete(h.table.addrs, key(2, "2001:db8:a::1"))
	if f := h.allFacts(); !slices.Equal(f.Own, want[1:]) {
		t.Errorf("after a removal %v, want %v", f.Own, want[1:])
	}
}
