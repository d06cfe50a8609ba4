package bench

import (
	"context"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
)

const (
	restartRate = 10_000 // datagrams per second each way
	outage      = 30 * time.Second
	tcpEvery    = 5 * time.Millisecond
	lives       = 20 // restarts and upgrades
	loadFor     = time.Minute
	outages     = 10 // and reboots
)

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// flowing waits until data comes out of all sessions that was not there before.
func flowing(b *testing.B, all ...workload.Session) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	var was []uint64
	for _, s := range all {
		was = append(was, s.State().Progress)
	}
	must(b, topo.Wait(ctx, "data from every session", func() bool {
		for i, s := range all {
			if s.State().Progress <= was[i] {
				return false
			}
		}
		return true
	}))
}

// BenchmarkRestart kills the daemon under load with kill -9, starts it again,
// and counts what was lost of 10,000 datagrams per second each way.
func BenchmarkRestart(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{})
	w.startRoam(b, "soft", "net1")
	w.ping(b, "cn", 1)
	u, err := workload.StartUDP(b.Context(), w.cn, w.mn, b.TempDir(), workload.UDPOptions{
		Name: "restart", Target: "cn", Port: 5401, Up: restartRate, Down: restartRate, Size: 64,
	})
	must(b, err)
	flowing(b, u)
	underLoad(b, func(int) {
		must(b, w.mnNode.Signal(b.Context(), syscall.SIGKILL))
		flowing(b, u) // without a daemon
		must(b, w.mnNode.Start(b.Context()))
		must(b, w.mnNode.WaitActive(b.Context(), "net1"))
		flowing(b, u)
	})
	reportLoss(b, u, "Restart", "20 times kill -9 and restart in 60 s, 10,000 datagrams a second each way: lost")
}

// underLoad does something as often as it is judged, spread over the time for that.
func underLoad(b *testing.B, do func(n int)) {
	b.Helper()
	began := time.Now()
	for n := range lives {
		do(n)
		pause(b, time.Until(began.Add(time.Duration(n+1)*loadFor/lives)))
	}
}

// reportLoss ends a flow and reports what it lost: what the receiver's own buffer refused
// makes it unknown.
func reportLoss(b *testing.B, u *workload.UDP, name, says string) {
	b.Helper()
	up, down, err := u.Stop(b.Context(), 200*time.Millisecond)
	must(b, err)
	out, in := up.Count(time.Time{}, time.Now()), down.Count(time.Time{}, time.Now())
	b.ReportMetric(0, "ns/op")
	f := testutil.Figure{
		Name: name, Says: says, Unit: "datagrams", Op: "<=", Value: float64(out.Lost + in.Lost), Rounds: lives,
		Details: map[string]float64{"sent": float64(out.Written + in.Written), "refused by buffers": float64(u.BufferErrors())},
	}
	if u.BufferErrors() > 0 {
		f.Half = f.Value
	}
	testutil.Report(b, f)
}

// BenchmarkOutage takes down the only link for 30 s and measures the time from the first Router
// Advertisement on the link that is back to data of both directions, at the receiver. A connection
// that was idle meanwhile must carry data again, too.
func BenchmarkOutage(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{Delay: 10 * time.Millisecond})
	w.startRoam(b, "soft", "net1")
	w.ping(b, "cn", 5) // one answer is enough
	tcp := func(name string, port int, down bool, every time.Duration) *workload.TCP {
		c, err := workload.StartTCP(b.Context(), w.cn, w.mn, b.TempDir(), workload.TCPOptions{
			Name: name, Target: "cn", Port: port, Size: 200, Every: every, Down: down, CC: "cubic",
		})
		must(b, err)
		return c
	}
	out, in := tcp("out", 5402, false, tcpEvery), tcp("in", 5403, true, tcpEvery)
	idle := tcp("idle", 5404, false, outage/2)
	must(b, w.mnNode.Monitor(b.Context(), nil))
	seen := w.capture(b, "net1")
	flowing(b, out, in)
	var o interrupted
	for range outages {
		must(b, w.link.Down())
		pause(b, outage)
		o.back = append(o.back, time.Now())
		must(b, w.link.Up())
		flowing(b, out, in, idle)
	}
	o.wire = seen(func(list []packets.Packet) bool {
		_, ok := packets.FirstAdvert(list, o.back[outages-1])
		return ok
	})
	o.events = w.mnNode.Events()
	reads := map[*workload.TCP]tcpflow.Stream{}
	for _, c := range []*workload.TCP{out, in, idle} {
		var err error
		reads[c], err = c.Stop(b.Context())
		must(b, err)
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range []struct {
		name  string
		bound float64 // ms: a second and the way there
		flow  *workload.TCP
	}{{"host", 1020, out}, {"correspondent", 1040, in}} {
		f, err := o.figure(c.name, c.bound, reads[c.flow])
		must(b, err)
		testutil.Report(b, f)
	}
}

// pause lets a given time pass: the outage itself.
func pause(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	case <-time.After(d):
	}
}

// BenchmarkReboot takes all state from one end, as a reboot does, and measures
// a new TCP connection by name from either end once that end is ready.
func BenchmarkReboot(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{Delay: 10 * time.Millisecond})
	w.startRoam(b, "soft", "net1")
	var took [2][]time.Duration
	port := 5500
	connect := func(from, to *topo.Host, name string) time.Duration {
		port++
		ctx, cancel := context.WithTimeout(b.Context(), within)
		defer cancel()
		began := time.Now()
		c, err := workload.StartTCP(ctx, to, from, b.TempDir(), workload.TCPOptions{
			Name:   "new",
			Target: name,
			Port:   port,
			Size:   100,
			Every:  tcpEvery,
		})
		must(b, err)
		flowing(b, c)
		took := time.Since(began)
		_, err = c.Stop(ctx)
		must(b, err)
		return took
	}
	for range outages {
		for i, to := range []struct {
			from, to *topo.Host
			name     string
		}{{w.mn, w.cn, "cn"}, {w.cn, w.mn, "mn"}} {
			connect(w.mn, w.cn, "cn") // there is a session
			must(b, w.cnNode.Stop(b.Context()))
			must(b, w.cnNode.Forget())
			must(b, w.cnNode.Start(b.Context()))
			must(b, w.cnNode.WaitActive(b.Context(), "net"))
			took[i] = append(took[i], connect(to.from, to.to, to.name))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"to", "from"} {
		testutil.Report(b, testutil.Figure{
			Name: "Reboot/" + name, Says: "a new TCP connection by name " + name + " an end that lost its state, longest",
			Unit: "ms", Op: "<=", Bound: 2000, Value: milli(quantile(took[i], 1)), Rounds: len(took[i]),
			Raw:     map[string][]float64{"ms": millis(took[i])},
			Details: map[string]float64{"ms median": milli(quantile(took[i], 0.5))},
		})
	}
}
