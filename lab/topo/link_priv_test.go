package topo

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
)

// pair makes two hosts joined by an emulated link, 2001:db8:1::1 and ::2.
func pair(t testing.TB, p linkem.Params) (a, b *Host, k *linkem.Link) {
	t.Helper()
	testutil.Need(t, "/dev/net/tun")
	l := newLab(t)
	a, b = newHostT(t, l, "a"), newHostT(t, l, "b")
	k, err := l.Link(a, "eth0", b, "eth0", p)
	must(t, err,
		a.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::1/64")),
		b.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::2/64")))
	return a, b, k
}

func TestLinkPing(t *testing.T) {
	testutil.Need(t, "ping")
	a, _, k := pair(t, linkem.Params{Delay: 10 * time.Millisecond})
	output(t, a.Command(t.Context(), "ping", "-c3", "-i0.1", "-W5", "2001:db8:1::2"))
	for _, d := range []linkem.Direction{linkem.AB, linkem.BA} {
		if c := k.Counters(d); c.Delivered < 3 {
			t.Errorf("direction %d delivered %d frames", d, c.Delivered)
		}
	}
}

// A link that goes down takes the carrier of both ends and what is on the
// wire, and comes back as it was.
func TestLinkDownAndUp(t *testing.T) {
	testutil.Need(t, "ping")
	a, b, k := pair(t, linkem.Params{Delay: time.Minute}) // what hosts say unasked does not cross either
	var seen atomic.Uint64                                // bytes of frames that were delivered
	k.WatchDelivered(linkem.AB, func(frame []byte) { seen.Add(uint64(len(frame))) })
	carrier := func(want bool) func() bool {
		return func() bool {
			onA, errA := a.Carrier("eth0")
			onB, errB := b.Carrier("eth0")
			return errA == nil && errB == nil && onA == want && onB == want
		}
	}
	testutil.Eventually(t, 5*time.Second, carrier(true), "carrier at first")

	ping := a.Command(t.Context(), "ping", "-c1", "-W1", "2001:db8:1::2")
	must(t, ping.Start())
	flying := 0
	testutil.Eventually(t, 5*time.Second, func() bool { flying = k.Counters(linkem.AB).FlightNow; return flying > 0 },
		"a frame on the wire")
	must(t, k.Down())
	testutil.Eventually(t, 5*time.Second, carrier(false), "no carrier")
	if ping.Wait() == nil {
		t.Error("an answer came over a link that was down")
	}
	if c := k.Counters(linkem.AB); c.Delivered != 0 || c.DropDown < uint64(flying) || c.FlightNow != 0 {
		t.Errorf("of %d frames on the wire %d were dropped and %d delivered, %d are left", flying, c.DropDown,
			c.Delivered, c.FlightNow)
	}
	must(t, k.SetBoth(linkem.Params{}), k.Up())
	testutil.Eventually(t, 5*time.Second, carrier(true), "carrier again")
	output(t, a.Command(t.Context(), "ping", "-c1", "-W5", "2001:db8:1::2"))
	testutil.Eventually(t, 5*time.Second, func() bool { return seen.Load() == k.Counters(linkem.AB).DeliveredBytes },
		"the watch has seen what was delivered")
	if seen.Load() == 0 {
		t.Error("the watch saw nothing")
	}
}

// A silent cut of one direction leaves the carrier and the other direction.
func TestLinkCutOneWay(t *testing.T) {
	testutil.Need(t, "ping")
	a, b, k := pair(t, linkem.Params{})
	output(t, a.Command(t.Context(), "ping", "-c1", "-W5", "2001:db8:1::2"))
	p := k.Params(linkem.BA)
	p.Cut = true
	must(t, k.Set(linkem.BA, p))
	before := k.Counters(linkem.AB)
	if a.Command(t.Context(), "ping", "-c1", "-W1", "2001:db8:1::2").Run() == nil {
		t.Error("an answer came through the cut direction")
	}
	if c := k.Counters(linkem.AB); c.Delivered == before.Delivered {
		t.Error("nothing passed in the direction that is not cut")
	}
	if on, err := b.Carrier("eth0"); err != nil || !on {
		t.Errorf("carrier: %v, %v", on, err)
	}
}

// GSO frames cross whole where nothing counts packets, and as packets where
// something does; both can be changed under traffic.
func TestLinkGSO(t *testing.T) {
	testutil.Need(t, "iperf3")
	a, b, k := pair(t, linkem.Params{})
	size := func(p linkem.Params) uint64 {
		must(t, k.SetBoth(p))
		before := k.Counters(linkem.AB)
		iperf(t, a, b, "-n", "4M")
		after := k.Counters(linkem.AB)
		return (after.Bytes - before.Bytes) / (after.Frames - before.Frames)
	}
	const packet = 1514
	if got := size(linkem.Params{}); got <= 2*packet {
		t.Errorf("perfect wire: %d bytes per frame", got)
	}
	if got := size(linkem.Params{Delay: time.Millisecond}); got <= 2*packet {
		t.Errorf("delay: %d bytes per frame", got)
	}
	if got := size(linkem.Params{Rate: 200e6}); got > packet {
		t.Errorf("rate: %d bytes per frame", got)
	}
	if got := size(linkem.Params{Loss: 0.001}); got > packet {
		t.Errorf("loss: %d bytes per frame", got)
	}
}

// TCP gets the rate of a slow link, minus headers.
func TestLinkRateForTCP(t *testing.T) {
	testutil.Need(t, "iperf3")
	a, b, _ := pair(t, linkem.Params{Rate: 20e6, Delay: 5 * time.Millisecond, QueuePackets: 50})
	if got := iperf(t, a, b, "-t", "2", "-O", "1"); got < 14e6 || got > 20e6 {
		t.Errorf("%.1f Mb/s over a link of 20", got/1e6)
	}
	s, err := a.Stats("eth0")
	if err != nil || s.TxDropped != 0 || s.TxBytes < 2e6 {
		t.Errorf("statistics %+v, %v", s, err)
	}
}

// The emulator makes this process a real-time one, and what runs on hosts must
// not be: it would compete with the emulator that shapes its traffic.
func TestCommandsAreOrdinaryProcesses(t *testing.T) {
	a, _, _ := pair(t, linkem.Params{Delay: time.Millisecond})
	for _, c := range []*Cmd{a.Command(t.Context(), "cat", "/proc/self/stat"),
		a.AppCommand(t.Context(), "cat", "/proc/self/stat")} {
		// Fields 19, nice, and 41, policy (0: ordinary), of proc_pid_stat(5).
		f := strings.Fields(output(t, c))
		if f[18] != "0" || f[40] != "0" {
			t.Errorf("nice %s, policy %s", f[18], f[40])
		}
	}
}

// BenchmarkLinkTCP reports what one TCP connection carries over a link
// without delay, where GSO frames cross whole.
func BenchmarkLinkTCP(b *testing.B) { benchmarkTCP(b, linkem.Params{}) }

// BenchmarkLinkTCPDelay is the same with a wire of 10 ms each way.
func BenchmarkLinkTCPDelay(b *testing.B) {
	benchmarkTCP(b, linkem.Params{Delay: 10 * time.Millisecond})
}

func benchmarkTCP(b *testing.B, p linkem.Params) {
	testutil.Need(b, "iperf3")
	client, server, k := pair(b, p)
	for b.Loop() {
		before := k.Counters(linkem.AB)
		bits := iperf(b, client, server, "-t", "4", "-O", "1", "-C", "cubic")
		after := k.Counters(linkem.AB)
		b.ReportMetric(bits/1e9, "Gb/s")
		b.ReportMetric(float64(after.Bytes-before.Bytes)/float64(after.Frames-before.Frames), "nbytes/frame")
	}
}

// iperf runs a TCP transfer and returns what arrived, in bits per second.
func iperf(t testing.TB, client, server *Host, args ...string) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var says watcher
	srv := server.Command(ctx, "iperf3", "-s", "-1", "--forceflush")
	srv.Stdout = &says
	must(t, srv.Start())
	testutil.Eventually(t, 5*time.Second, func() bool { return says.has("Server listening") }, "iperf3 listens")
	argv := append([]string{"iperf3", "-J", "-c", "2001:db8:1::2"}, args...)
	out := output(t, client.Command(ctx, argv...))
	_ = srv.Wait()
	var r struct {
		End struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	must(t, json.Unmarshal([]byte(out), &r))
	return r.End.Received.Bits
}
