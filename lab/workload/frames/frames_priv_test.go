package frames

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/topo"
)

const (
	patience = 10 * time.Second
	port     = 9
)

// world is a sender and a receiver on one link.
type world struct {
	tx, rx *topo.Host
	stream Stream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "ethtool")
	lab, err := topo.New("frames")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{}
	for name, h := range map[string]**topo.Host{"tx": &w.tx, "rx": &w.rx} {
		if *h, err = lab.Host(name); err != nil {
			t.Fatal(err)
		}
	}
	must(t, lab.Veth(w.tx, "out", w.rx, "in"))
	must(t, w.tx.AddAddr("out", netip.MustParsePrefix("2001:db8:a::1/64")))
	must(t, w.rx.AddAddr("in", netip.MustParsePrefix("2001:db8:a::2/64")))
	if out, err := w.rx.Command(t.Context(), "ethtool", "-K", "in", "gro", "on").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.stream = Stream{
		From: netip.MustParseAddr("2001:db8:a::100"), To: netip.MustParseAddr("2001:db8:a::2"),
		Port: port, Size: 64, Flows: 1,
		FromMAC: macOf(t, w.tx, "out"), ToMAC: macOf(t, w.rx, "in"),
	}
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	testutil.NeedKernel(t, "test runs with live frames, and tcx", !errors.Is(err, ErrUnsupported))
	if err != nil {
		t.Fatal(err)
	}
}

func macOf(t *testing.T, h *topo.Host, ifname string) (mac net.HardwareAddr) {
	t.Helper()
	must(t, h.Do(func() error {
		dev, err := net.InterfaceByName(ifname)
		if err == nil {
			mac = dev.HardwareAddr
		}
		return err
	}))
	return mac
}

// Every frame arrives and is counted, of one flow or many, short or long; what is not the
// generator's passes the sink.
func TestExactCount(t *testing.T) {
	w := newWorld(t)
	sink, err := Receive(w.rx, "in", port)
	must(t, err)
	defer sink.Close()
	for _, c := range []struct {
		size, flows, n int
		byTo, random   bool
		nonce          uint32
	}{
		{64, 1, 20_000, false, false, 0}, {1500, 1, 5_000, false, false, 0}, {64, 1000, 20_000, false, false, 0},
		{64, 1 << 20, 20_000, true, true, 0}, {72, 1000, 20_000, true, false, 0x01020304},
	} {
		t.Run(fmt.Sprintf("%d bytes, %d flows, nonce %x", c.size, c.flows, c.nonce), func(t *testing.T) {
			before, err := sink.Received()
			must(t, err)
			s := w.stream
			s.Size, s.Flows, s.ByTo, s.Random, s.Nonce = c.size, c.flows, c.byTo, c.random, c.nonce
			g, err := New(w.tx, "out", s)
			must(t, err)
			defer g.Close()
			sent, err := g.Send(c.n, 0)
			must(t, err)
			if sent.Frames < uint64(c.n) || sent.Thread <= 0 || sent.Wall < sent.Thread/2 {
				t.Errorf("sent %+v of %d", sent, c.n)
			}
			want, got := sent.Frames+1, uint64(0) // one was sent by New
			testutil.Eventually(t, patience, func() bool {
				now, err := sink.Received()
				got = now - before
				return err == nil && got >= want
			}, "the sink has counted every frame")
			if got != want {
				t.Errorf("counted %d of %d", got, want)
			}
		})
	}
	out, err := w.tx.AppCommand(t.Context(), "ping", "-n", "-q", "-c", "1", "-W", "5", "2001:db8:a::2").CombinedOutput()
	if err != nil {
		t.Errorf("the sink holds back what is not the generator's: %v\n%s", err, out)
	}
}

// The frames of many flows are valid datagrams of different sources or to different
// destinations, also when the kernel hands pages out a second time.
func TestFrames(t *testing.T) {
	testutil.Need(t, "tcpdump")
	w := newWorld(t)
	for _, byTo := range []bool{false, true} {
		s := w.stream
		s.Flows, s.ByTo = 100, byTo
		if byTo { // beyond 16 bits
			s.To = netip.MustParseAddr("2001:db8:a::ffd0")
		}
		t.Run(fmt.Sprint("by destination ", byTo), func(t *testing.T) { distinct(t, w, s) })
	}
}

// distinct wants a hundred valid frames of a stream to have as many addresses.
func distinct(t *testing.T, w *world, stream Stream) {
	g, err := New(w.tx, "out", stream)
	must(t, err)
	defer g.Close()
	if _, err := g.Send(2000, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The first hundred that come, and a filter that none of them would pass if the stack's
	// changes of an earlier use were still in the page.
	cmd := w.rx.Command(ctx, "tcpdump", "-n", "-vv", "-c", "100", "-i", "in", "udp", "port", fmt.Sprint(port))
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	must(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	testutil.Eventually(t, patience, func() bool {
		if _, err := g.Send(200, 0); err != nil {
			t.Error(err)
			return true
		}
		select {
		case err := <-done:
			return err == nil || t.Failed()
		default:
			return false
		}
	}, "a hundred frames are captured")
	lines := strings.Split(text.String(), "\n")
	pairs := map[string]bool{}
	for _, l := range lines {
		if i := strings.Index(l, "2001:db8:a::"); i >= 0 && strings.Contains(l, "[udp sum ok]") {
			pair, _, _ := strings.Cut(l[i:], ": ") // source > destination
			pairs[pair] = true
		}
	}
	if len(pairs) != 100 {
		t.Errorf("%d pairs of addresses with a valid checksum, of 100:\n%.1500s", len(pairs), text.String())
	}
}

// A stream that no frame can hold is refused.
func TestRefused(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	good := Stream{
		From: netip.MustParseAddr("fd00::1"), To: netip.MustParseAddr("fd00::2"), FromMAC: mac, ToMAC: mac,
		Size: 64, Flows: 1,
	}
	if b, err := good.frame(); err != nil || len(b) != 78 {
		t.Fatal(len(b), err)
	}
	for name, spoil := range map[string]func(*Stream){
		"too short": func(s *Stream) { s.Size = LeastSize - 1 },
		"no flow":   func(s *Stream) { s.Flows = 0 },
		"sources beyond the last four bytes": func(s *Stream) {
			s.From, s.Flows = netip.MustParseAddr("fd00::ffff:ffff"), 2
		},
		"destinations beyond the last four bytes": func(s *Stream) {
			s.To, s.Flows, s.ByTo = netip.MustParseAddr("fd00::ffff:ffff"), 2, true
		},
		"too short for a nonce": func(s *Stream) { s.Nonce = 1 },
		"no hardware address":   func(s *Stream) { s.ToMAC = nil },
	} {
		s := good
		spoil(&s)
		if _, err := s.frame(); err == nil {
			t.Error(name, "is taken")
		}
	}
}
