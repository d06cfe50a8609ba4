package bench

import (
	"context"
	"syscall"
	"testing"
	"time"

	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
)

const (
	restartRate = 10_000 // datagrams per second each way
	outage      = 30 * time.Second
	tcpEvery    = 5 * time.Millisecond
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
	began := time.Now()
	for b.Loop() {
		must(b, w.mnNode.Signal(b.Context(), syscall.SIGKILL))
		flowing(b, u) // without a daemon
		must(b, w.mnNode.Start(b.Context()))
		must(b, w.mnNode.WaitActive(b.Context(), "net1"))
		flowing(b, u)
	}
	reportLoss(b, u)
	b.ReportMetric(float64(b.N), "restarts")
	b.ReportMetric(time.Since(began).Seconds(), "s")
}

// reportLoss ends a flow and reports what it lost.
func reportLoss(b *testing.B, u *workload.UDP) {
	b.Helper()
	up, down, err := u.Stop(b.Context(), 200*time.Millisecond)
	must(b, err)
	out, in := up.Count(time.Time{}, time.Now()), down.Count(time.Time{}, time.Now())
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(out.Lost+in.Lost), "lost")
	b.ReportMetric(float64(out.Written+in.Written), "datagrams")
	b.ReportMetric(float64(u.BufferErrors()), "rcvbuf-errors")
}

// BenchmarkOutage takes down the only link for 30 s and measures the time from the
// locator's return to data of both directions, at the receiver. A connection that was idle
// meanwhile must carry data again, too.
func BenchmarkOutage(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{Delay: 10 * time.Millisecond})
	w.startRoam(b, "soft", "net1")
	w.ping(b, "cn", 1)
	tcp := func(name string, port int, down bool, every time.Duration) *workload.TCP {
		c, err := workload.StartTCP(b.Context(), w.cn, w.mn, b.TempDir(), workload.TCPOptions{
			Name: name, Target: "cn", Port: port, Size: 200, Every: every, Down: down, CC: "cubic",
		})
		must(b, err)
		return c
	}
	out, in := tcp("out", 5402, false, tcpEvery), tcp("in", 5403, true, tcpEvery)
	idle := tcp("idle", 5404, false, outage/2)
	back := make(chan time.Time, 64)
	must(b, w.mnNode.Monitor(b.Context(), func(e node.Event) {
		if e.Kind == "locator-added" {
			back <- e.Time
		}
	}))
	flowing(b, out, in)
	var usable time.Time
	for b.Loop() {
		must(b, w.link.Down())
		pause(b, outage)
		for len(back) > 0 {
			<-back
		}
		must(b, w.link.Up())
		select {
		case usable = <-back:
		case <-time.After(within):
			b.Fatal("no locator after the outage")
		}
		flowing(b, out, in, idle)
	}
	o, err := out.Stop(b.Context())
	must(b, err)
	i, err := in.Stop(b.Context())
	must(b, err)
	_, err = idle.Stop(b.Context())
	must(b, err)
	b.ReportMetric(0, "ns/op")
	for name, s := range map[string]interface {
		FirstAfter(time.Time) (time.Time, bool)
	}{"host-ms": o, "correspondent-ms": i} {
		at, ok := s.FirstAfter(usable)
		if !ok {
			b.Fatalf("%s: nothing came after the outage", name)
		}
		b.ReportMetric(at.Sub(usable).Seconds()*1000, name)
	}
	b.ReportMetric(outage.Seconds(), "s-away")
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
	var worst [2]time.Duration
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
	for b.Loop() {
		for i, to := range []struct {
			from, to *topo.Host
			name     string
		}{{w.mn, w.cn, "cn"}, {w.cn, w.mn, "mn"}} {
			connect(w.mn, w.cn, "cn") // there is a session
			must(b, w.cnNode.Stop(b.Context()))
			must(b, w.cnNode.Forget())
			must(b, w.cnNode.Start(b.Context()))
			must(b, w.cnNode.WaitActive(b.Context(), "net"))
			worst[i] = max(worst[i], connect(to.from, to.to, to.name))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(worst[0].Seconds(), "s-to-rebooted")
	b.ReportMetric(worst[1].Seconds(), "s-from-rebooted")
}
