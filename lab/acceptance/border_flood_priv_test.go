package acceptance

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/wire/ilnp"
)

// askedFor is the number that a variable of the environment asks for, or else another one.
func askedFor(t *testing.T, env string, otherwise int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q; want a number", env, text)
	}
	return n
}

// nowhere is a prefix whose packets the providers drop.
var nowhere = netip.MustParsePrefix("2001:db8:ee::/64")

// nonceFlood sends n echoes from a link of one host to its other end, each of another node, with another
// nonce. They pass no program and no queue of the sending host.
func nonceFlood(t *testing.T, from *topo.Host, ifname string, to *topo.Host, there string, src, dst roam.ILV, n int) {
	t.Helper()
	frame, err := ilnp.BuildEcho(src, dst, ilnp.Nonce{Len: 4}, true, 1, 1, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	device := func(h *topo.Host, ifname string) (dev *net.Interface) {
		err := h.Do(func() (err error) { dev, err = net.InterfaceByName(ifname); return err })
		if err != nil {
			t.Fatal(err)
		}
		return dev
	}
	near, far := device(from, ifname), device(to, there)
	frame = append(append(append(append([]byte{}, far.HardwareAddr...), near.HardwareAddr...), 0x86, 0xdd), frame...)
	const ipAt, nonceAt = 14, 14 + 40 + 2 + 2 // behind the head of the destination options and of the nonce
	err = from.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return err
		}
		for i := range n {
			binary.BigEndian.PutUint64(frame[ipAt+16:], uint64(src.NID)+uint64(i))
			binary.BigEndian.PutUint32(frame[nonceAt:], uint32(i)*2654435761)
			if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: near.Index, Protocol: 0xdd86}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// borderCounters returns the counters of a border.
func borderCounters(t *testing.T, s *site.Site) map[string]uint64 {
	t.Helper()
	var list []struct {
		Name  string `json:"name"`
		Value uint64 `json:"value"`
	}
	if err := s.Border.AskFor(t.Context(), &list, "counter", "show"); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]uint64)
	for _, c := range list {
		out[c.Name] = c.Value
	}
	return out
}

// TestBorderFlood sends a border nonces of many nodes from inside and from outside, while
// unmodified programs exchange datagrams: none of these is lost, no flow comes or goes, and the
// counters have the flood.
func TestBorderFlood(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	for _, p := range s.Provider {
		add := p.Command(t.Context(), "ip", "-6", "route", "add", "blackhole", nowhere.String())
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	outer := roam.ILV{L64: roam.ILVFromAddr(nowhere.Addr()).L64, NID: 0x2002_0000_0000_0000}
	inner := roam.ILV{L64: roam.ILVFromAddr(site.Internals[0].Addr()).L64, NID: 0x3003_0000_0000_0000}
	absent := roam.ILV{L64: roam.ILVFromAddr(site.Providers[0][0].Addr()).L64, NID: 0x3003_ffff_0000_0000}
	n := askedFor(t, "ROAM_FLOOD", 100_000) // packets from each side
	for _, c := range []struct {
		name, counter string
		send          func()
	}{
		{"from inside", "border_tx_fallback", func() {
			nonceFlood(t, s.InsideHost, "net1", s.Router, "lan", inner, outer, n)
		}},
		{"from outside", "border_rx_fallback", func() {
			nonceFlood(t, s.Provider[0], "site", s.Router, "wan0", outer, absent, n)
		}},
	} {
		before := borderCounters(t, s)
		var took time.Duration
		// Long enough for the flood on a machine that sends 50,000 packets a second.
		length := max(2*time.Second, time.Duration(n/50)*time.Millisecond)
		sent, lost := between(t, s, 500, length, func() {
			began := time.Now()
			c.send()
			took = time.Since(began)
		})
		t.Logf("%s: %d packets in %v; %d of %d datagrams lost", c.name, n, took, lost, sent)
		if lost > 0 || sent < 500 {
			t.Errorf("%s: %d of %d datagrams lost", c.name, lost, sent)
		}
		var after map[string]uint64
		testutil.Eventually(t, patience, func() bool {
			after = borderCounters(t, s)
			return after[c.counter] >= before[c.counter]+uint64(n)
		}, "the counters have the whole flood")
		for _, name := range []string{"border_flow_confirmed", "border_flow_table_full"} {
			if after[name] != before[name] {
				t.Errorf("%s: %s was %d, is %d", c.name, name, before[name], after[name])
			}
		}
		r, err := site.Report(t.Context(), s.Border)
		if err != nil || len(r.Flows) != 1 || r.Flows[0].Outside != site.OutsideNID || len(r.Flows[0].Announced) != 2 {
			t.Errorf("%s: flows %+v, %v", c.name, r.Flows, err)
		}
	}
	ping(t, s, "-c", "200", "-i", "0.002")
	t.Run("updates", func(t *testing.T) { storm(t, s) })
}
