package acceptance

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
)

// forwarded returns how many packets a router has forwarded.
func forwarded(t *testing.T, router *topo.Host) (n int) {
	t.Helper()
	out, err := router.Command(t.Context(), "cat", "/proc/net/snmp6").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "Ip6OutForwDatagrams" {
			if n, err = strconv.Atoi(f[1]); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the kernel does not count forwarded packets")
	return 0
}

// TestSameLink has two hosts on one link exchange packets: they send them to each other, and none to
// their router, which would send it back by the same link.
func TestSameLink(t *testing.T) {
	needs(t, "ping", "ip")
	lab, err := topo.New("samelink")
	t.Cleanup(func() { lab.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	router, err := lab.Host("router")
	must(err)
	must(router.Forward())
	run := func(format string, args ...any) {
		t.Helper()
		line := strings.Fields(fmt.Sprintf(format, args...))
		if out, err := router.Command(t.Context(), line...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
	}
	run("ip link add lan type bridge")
	var hosts []*topo.Host
	for i, name := range []string{"first", "second"} {
		h, err := lab.Host(name)
		must(err)
		must(lab.Veth(h, "net1", router, fmt.Sprint("port", i)))
		run("ip link set port%d master lan", i)
		hosts = append(hosts, h)
	}
	run("ip link set lan up")
	prefix := netip.MustParsePrefix("2001:db8:1::/64")
	must(router.AddAddr("lan", netip.PrefixFrom(prefix.Addr().Next(), 64)))
	const often, seldom = 300 * time.Millisecond, time.Second
	_, err = router.Router(topo.Advert{Interface: "lan", Prefix: prefix, MinInterval: often, MaxInterval: seldom})
	must(err)
	nids := []roam.NID{site.InsideNID, site.OutsideNID}
	known := fmt.Sprintf("nid=%s l64=%s,10 first\nnid=%s l64=%s,10 second\n", nids[0], prefix, nids[1], prefix)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, h := range hosts {
		_, err := h.WaitAddr(ctx, "net1", prefix)
		must(err)
		n, err := node.New(h, binaries, node.Options{NID: nids[i], Mode: "soft", Hosts: known})
		must(err)
		must(n.Start(t.Context()))
		must(n.WaitActive(ctx, "net1"))
	}
	ping := func(n int) {
		t.Helper()
		to := site.Session(nids[1]).String()
		cmd := hosts[0].AppCommand(ctx, "ping", "-n", "-q", "-i", "0.02", "-c", fmt.Sprint(n), to)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), " 0% packet loss") {
			t.Fatalf("ping: %v\n%s", err, out)
		}
	}
	ping(5)
	before := forwarded(t, router)
	ping(50)
	if n := forwarded(t, router) - before; n > 0 {
		t.Errorf("of 100 packets and the hosts' own the router forwarded %d", n)
	}
}
