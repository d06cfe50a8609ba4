package border

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/wire/ilnp"
)

func (n *network) nft(text string) {
	n.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.Fatalf("nft %s: %v\n%s", text, err, out)
	}
}

// Packets of a flow go to the inside node by the hardware address that the kernel knows, one
// every 100 ms excepted. Rules at the ingress of the link, a neighbour that is not known, and a
// setting without it leave them to the stack.
func TestDirect(t *testing.T) {
	testutil.Need(t, "nft")
	n := newNetwork(t, false)
	site := roam.ILV{L64: siteA, NID: insideNID}
	n.confirmOver(site)
	seq := uint16(100)
	// direct returns how many of ten packets in a row did not pass the stack.
	direct := func() uint64 {
		t.Helper()
		// Past the time for which the kernel's answer holds.
		testutil.Wait(150*time.Millisecond, func() bool { return false })
		before, began := n.counter("rx_direct"), time.Now()
		for range 10 {
			seq++
			packet := n.echo(theirs, site, inward, true, seq, 56)
			n.send("wan0", packet)
			mac, in := n.came("lan", theirs, mine)
			if _, err := ilnp.ParsePacket(in); err != nil || in[7] != packet[7]-1 || mac[0] != 2 || mac[5] != 2 {
				t.Errorf("to %x, hop limit %d, %v", mac, in[7], err)
			}
		}
		got := n.counter("rx_direct") - before
		if most := 9 - int(time.Since(began)/(100*time.Millisecond)); got > 9 || got > 0 && int(got)+2 < most {
			t.Errorf("%d of 10 packets did not pass the stack", got)
		}
		return got
	}
	if got := direct(); got != 0 {
		t.Errorf("not wanted: %d", got)
	}
	n.configure(Settings{Direct: true})
	if got := direct(); got == 0 {
		t.Error("all packets pass the stack")
	}
	delivered := n.counter("rx_delivered")
	if direct(); n.counter("rx_delivered") != delivered+10 {
		t.Errorf("%d of 10 delivered", n.counter("rx_delivered")-delivered)
	}
	n.nft("table netdev t { chain c { type filter hook ingress device wan0 priority 0; }\n}")
	if got := direct(); got != 0 {
		t.Errorf("in spite of rules at the ingress: %d", got)
	}
	n.nft("delete table netdev t")
	n.configure(Settings{Direct: true})
	if got := direct(); got == 0 {
		t.Error("without these rules all packets pass the stack")
	}
	// A packet at its last hop, and one that does not fit, are the stack's to answer.
	for what, packet := range map[string][]byte{
		"last hop": n.echo(theirs, site, inward, true, 7, 56), "too long": n.echo(theirs, site, inward, true, 7, 1400),
	} {
		direct()
		before := n.counter("rx_direct")
		if what == "last hop" {
			packet[7] = 1
		} else {
			n.ip("link set lan mtu 1300")
			direct() // the kernel's answer has the new MTU
			before = n.counter("rx_direct")
		}
		flow := n.counter("rx_flow")
		n.send("wan0", packet)
		testutil.Eventually(t, 5*time.Second, func() bool { return n.counter("rx_flow") > flow }, what+" is rewritten")
		if n.counter("rx_direct") != before {
			t.Errorf("%s: did not pass the stack", what)
		}
	}
}

// Whatever would see a forwarded packet keeps packets in the stack.
func TestForwardsUnseen(t *testing.T) {
	testutil.Need(t, "nft")
	n := newNetwork(t, false)
	unseen := func() bool {
		t.Helper()
		ok, err := n.ForwardsUnseen()
		n.must(err)
		return ok
	}
	if !unseen() {
		t.Fatal("a namespace without rules sees packets")
	}
	for _, hook := range []string{"prerouting", "forward", "postrouting"} {
		n.nft("table ip6 t { chain c { type filter hook " + hook + " priority 0; }\n}")
		if unseen() {
			t.Errorf("a chain at %s does not see them", hook)
		}
		n.nft("delete table ip6 t")
	}
	// A rule of routing counts from the first one on, as in the kernel.
	n.ip("xfrm policy add src ::/0 dst ::/0 dir fwd")
	if unseen() {
		t.Error("an IPsec policy does not see them")
	}
	n.ip("xfrm policy flush")
	if !unseen() {
		t.Error("what has gone is seen")
	}
	const bySource = "unreachable 2001:db8:8::/48 from 2001:db8:9::/48"
	n.ip("-6 route add " + bySource)
	if unseen() {
		t.Error("a route by source does not see them")
	}
	n.ip("-6 route del " + bySource)
	if !unseen() {
		t.Error("a route that has gone is seen")
	}
	n.ip("-6 rule add from 2001:db8:9::/48 lookup 7")
	if unseen() {
		t.Error("a rule of routing does not see them")
	}
}
