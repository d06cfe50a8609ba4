package topo

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
)

func TestRouterGivesAddresses(t *testing.T) {
	testutil.Need(t, "radvd")
	testutil.Need(t, "/dev/net/tun")
	l := newLab(t)
	h, r := newHostT(t, l, "h"), newHostT(t, l, "r")
	must(t, r.Forward())
	_, err := l.Link(h, "wlan0", r, "lan0", linkem.Params{})
	must(t, err)
	p1, p2 := netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("2001:db8:2::/64")
	router, err := r.Router(Advert{Interface: "lan0", Prefix: p1})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	begin := time.Now()
	_, err = h.WaitAddr(ctx, "wlan0", p1)
	must(t, err)
	t.Logf("address after %v", time.Since(begin).Round(time.Millisecond))

	must(t, router.Set(Advert{Interface: "lan0", Prefix: p2}))
	_, err = h.WaitAddr(ctx, "wlan0", p2)
	must(t, err)

	must(t, router.Stop(), router.Start(), router.Kill(), router.Kill(), router.Start())
}

func TestRouterRefuses(t *testing.T) {
	testutil.Need(t, "radvd")
	l := newLab(t)
	r := newHostT(t, l, "r")
	if _, err := r.Router(Advert{Interface: "lan0", Prefix: netip.MustParsePrefix("2001:db8::/48")}); err == nil {
		t.Error("a prefix that is no /64 was accepted")
	}
}

func TestCapture(t *testing.T) {
	testutil.Need(t, "tcpdump")
	testutil.Need(t, "ping")
	a, b, _ := pair(t, linkem.Params{})
	file := filepath.Join(t.TempDir(), "ping.pcap")
	c, err := b.Capture(t.Context(), "eth0", file, 0, "icmp6[0] = 128")
	must(t, err)
	output(t, a.Command(t.Context(), "ping", "-c3", "-i0.05", "-W5", "2001:db8:1::2"))
	dropped, err := c.Stop()
	if err != nil || dropped != 0 {
		t.Fatalf("dropped %d, %v", dropped, err)
	}
	st, err := os.Stat(file)
	must(t, err)
	// pcap: a header of 24 bytes, 16 more per packet of 118.
	if want := int64(24 + 3*(16+118)); st.Size() != want {
		t.Errorf("file of %d bytes, want %d for three echo requests", st.Size(), want)
	}
	if _, err := b.Capture(t.Context(), "none0", file, 0); err == nil {
		t.Error("captured on an interface that is not there")
	}
}
