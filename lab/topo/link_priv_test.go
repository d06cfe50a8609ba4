package topo

import (
	"context"
	"encoding/json"
	"net/netip"
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
		b.ReportMetric(float64(after.Bytes-before.Bytes)/float64(after.Frames-before.Frames), "octets/frame")
	}
}

// iperf runs a TCP transfer and returns what arrived, in bits per second.
func iperf(t testing.TB, client, server *Host, args ...string) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	srv := server.Command(ctx, "iperf3", "-s", "-1")
	must(t, srv.Start())
	testutil.Eventually(t, 5*time.Second, func() bool {
		return server.Command(ctx, "sh", "-c", "ss -ltn | grep -q :5201").Run() == nil
	}, "iperf3 listens")
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
