package border

import (
	"os/exec"
	"testing"
	"time"

	"roam"
	"roam/internal/hostnet"
	"roam/internal/testutil"
	"roam/wire/ip6"
)

// The drivers of links forward packets of a flow in both directions. The other end of a veth has to
// poll: a link whose end does not says so, and packets for it take the programs at tc.
func TestXDPLinks(t *testing.T) {
	testutil.Need(t, "ethtool")
	n := newNetwork(t, false)
	n.configure(Settings{Direct: true})
	site := roam.ILV{L64: siteA, NID: insideNID}
	n.confirmOver(site)
	n.must(n.Announce(theKey, n.table, []roam.L64{siteA}))
	lan, wan := roam.LinkID(n.device("lan").Index), roam.LinkID(n.device("wan0").Index)
	n.must(n.AttachXDP(lan, true))
	n.must(n.AttachXDP(wan, false))
	does, err := hostnet.XDPOf(wan)
	testutil.NeedKernel(t, "what drivers do with XDP", err == nil)
	if !does.Redirects || does.Sends {
		t.Errorf("a veth whose other end does not poll: %+v", does)
	}
	outside, in := transport(t, ip6.UDP, 1, 2), moved(t, transport(t, ip6.UDP, 1, 2), theirs, site)
	// pass sends ten packets in each direction, and returns how many XDP forwarded.
	pass := func() (tx, rx uint64) {
		t.Helper()
		tx, rx = n.counter("tx_xdp"), n.counter("rx_xdp")
		for range 10 {
			n.send("lan", outside)
			if mac, out := n.came("wan0", site, theirs); mac[0] != 2 || out[7] != outside[7]-1 || !valid(out) {
				t.Errorf("outside: to %x, %x", mac, out)
			}
			n.send("wan0", in)
			if mac, out := n.came("lan", theirs, mine); mac[5] != 2 || out[7] != in[7]-1 || !valid(out) {
				t.Errorf("inside: to %x, %x", mac, out)
			}
		}
		return n.counter("tx_xdp") - tx, n.counter("rx_xdp") - rx
	}
	if tx, rx := pass(); tx != 0 || rx != 0 {
		t.Errorf("XDP forwarded %d and %d packets by links that it may not use", tx, rx)
	}
	for _, far := range []string{"lanx", "wan0x"} {
		if out, err := exec.Command("ethtool", "-K", far, "gro", "on").CombinedOutput(); err != nil {
			t.Fatalf("ethtool: %v: %s", err, out)
		}
	}
	if does, err := hostnet.XDPOf(wan); err != nil || !does.Sends {
		t.Fatalf("the other end polls: %+v, %v", does, err)
	}
	n.must(n.SendXDP(map[roam.LinkID]bool{lan: true, wan: true}))
	if tx, rx := pass(); tx < 5 || rx < 5 {
		t.Errorf("XDP forwarded %d and %d of 10 packets", tx, rx)
	}
	// What an earlier process has attached stays, and is replaced in place.
	n.must(n.Close())
	n.open(false)
	n.configure(Settings{Direct: true})
	if !n.AttachedXDP(lan) {
		t.Error("the program of an earlier process is gone")
	}
	n.must(n.AttachXDP(lan, true))
	if tx, _ := pass(); tx < 5 {
		t.Errorf("after a restart XDP forwarded %d of 10 packets", tx)
	}
	n.must(n.Detach(lan))
	attached := func() bool { return n.AttachInside(lan) == nil } // the kernel detaches a moment later
	testutil.Eventually(t, 5*time.Second, attached, "the programs are attached again")
	if tx, _ := pass(); tx != 0 {
		t.Errorf("XDP forwarded %d packets of a link that it was taken off", tx)
	}
}

// valid reports whether the checksum of a packet is right.
func valid(b []byte) bool {
	c, err := ip6.Walk(b)
	return err == nil && ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, b[c.UpperOffset:c.End]) == 0
}
