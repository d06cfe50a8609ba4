package cc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/topo"
	"roam/lab/workload"
)

// TestMain plays the process that dies with a congestion control registered.
func TestMain(m *testing.M) {
	if os.Getenv("CC_VICTIM") != "" {
		c, err := register("veno", false)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(c.Algorithm)
		select {}
	}
	os.Exit(m.Run())
}

// Real connections of the kernel, over a link that delays, queues and loses,
// and the model from the paper's formulas beside them: every threshold after a
// loss, and the growth of the window in each stretch between changes that are
// the kernel's, must be the same.
func TestKernelAgreesWithModel(t *testing.T) {
	for name := range programs {
		for path, p := range map[string]linkem.Params{
			"losses by chance": {Delay: 40 * time.Millisecond, Loss: 0.001, Rate: 30e6, QueuePackets: 2000},
			"short queue":      {Delay: 20 * time.Millisecond, Rate: 20e6, QueuePackets: 100},
		} {
			t.Run(name+"/"+path, func(t *testing.T) {
				p.Seed = 7
				c := compare(t, Models[name], record(t, name, p))
				t.Logf("%d calls: %d acks that may grow, %d in slow start, %d with backlog, %d losses, %d stretches, worst "+
					"stretch %.2f packets of %.0f",
					c.calls, c.acks, c.slow, c.backlog, c.losses, c.stretches, c.worst, c.worstOf)
				if c.acks < 100 || c.slow < 5 || c.losses < 1 || c.stretches < 2 {
					t.Error("the traffic did not try enough")
				}
			})
		}
	}
}

// record runs one connection for some seconds and returns what the kernel asked
// of its congestion control.
func record(t *testing.T, name string, p linkem.Params) []hyblaCcEvent {
	t.Helper()
	testutil.Need(t, "iperf3")
	testutil.Need(t, "/dev/net/tun")
	control, err := register(name, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	r, err := ringbuf.NewReader(control.ours.Collection.Maps["cc_calls"])
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan []hyblaCcEvent)
	go func() {
		var all []hyblaCcEvent
		for {
			rec, err := r.Read()
			if err != nil {
				done <- all
				return
			}
			var e hyblaCcEvent
			if err := binary.Read(bytes.NewReader(rec.RawSample), binary.LittleEndian, &e); err == nil {
				all = append(all, e)
			}
		}
	}()
	transfer(t, control.Algorithm, p)
	if err := errors.Join(r.Flush(), control.Close()); err != nil {
		t.Error(err)
	}
	_ = r.Close()
	return <-done
}

// transfer runs iperf3 with a congestion control through an emulated link.
func transfer(t *testing.T, algorithm string, p linkem.Params) {
	t.Helper()
	l, err := topo.New("cc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	a, errA := l.Host("a")
	b, errB := l.Host("b")
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	_, err = l.Link(a, "eth0", b, "eth0", p)
	err = errors.Join(err, a.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::1/64")),
		b.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::2/64")))
	if err != nil {
		t.Fatal(err)
	}
	run, err := workload.StartIperf(t.Context(), b, a, workload.IperfOptions{
		Name:    "cc",
		Target:  "2001:db8:1::2",
		Port:    5201,
		Seconds: 4,
		CC:      algorithm,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// comparison is the result of compare.
type comparison struct {
	calls, acks, slow, backlog, losses, stretches int
	worst, worstOf                                float64 // deviation of the worst stretch, and what it grew by
}

// compare runs the model along the recorded calls. The kernel itself changes
// the window while it recovers from a loss, so the model takes over the
// kernel's window with every call, and only growth and thresholds are its own.
func compare(t *testing.T, m Model, events []hyblaCcEvent) (c comparison) {
	t.Helper()
	var s State
	var grown, want float64 // within the stretch
	end := func() {
		if grown > 0 || want > 0 {
			c.stretches++
		}
		// A part of a packet at either end, and 0.5 % for the parabola.
		off := math.Abs(grown - want)
		if off > 1.5+0.005*want {
			t.Errorf("stretch %d: the kernel's window grew by %.0f, the model's by %.2f", c.stretches, grown, want)
		}
		if off > c.worst {
			c.worst, c.worstOf = off, want
		}
		grown, want = 0, 0
	}
	for _, e := range events {
		c.calls++
		s.Window, s.Threshold = float64(e.Window), float64(e.Threshold)
		s.RTT = time.Duration(e.SrttUs8) * time.Microsecond / 8
		switch e.Call {
		case hyblaCcCallCC_SAMPLE:
			if rtt := time.Duration(e.RttUs) * time.Microsecond; rtt > 0 && (s.Base == 0 || rtt < s.Base) {
				s.Base = rtt
			}
		case hyblaCcCallCC_LOSS:
			c.losses++
			if w := math.Floor(m.Loss(s)); float64(e.Result) != w {
				t.Errorf("loss at %v: threshold %d, the model says %v (N = %.3f)", s.Window, e.Result, w, Backlog(s))
			}
			s.Base = 0
			end()
		case hyblaCcCallCC_ACKED:
			grown += float64(e.Result) - s.Window
			if e.Limited == 0 {
				continue
			}
			c.acks++
			if s.Window < s.Threshold {
				c.slow++
			}
			if Backlog(s) >= beta {
				c.backlog++
			}
			// All packets of one acknowledgement meet the same window.
			gain := m.Gain(s) * float64(e.Acked)
			if s.Window < s.Threshold {
				gain = min(gain, s.Threshold-s.Window)
			}
			want += min(gain, float64(e.Clamp)-s.Window, 65535-s.Window)
		}
	}
	end()
	return c
}

func TestOpenAndClose(t *testing.T) {
	testutil.NeedRoot(t)
	c, err := Open("cubic")
	if err != nil || c.Ours() || c.Algorithm != "cubic" {
		t.Errorf("open cubic: %+v, %v", c, err)
	}
	if _, err := Open("nosuchcc"); !errors.Is(err, ErrUnknown) {
		t.Errorf("open an unknown one: %v", err)
	}
	for name := range programs {
		c, err := register(name, false)
		if err != nil {
			t.Fatal(err)
		}
		if !available(t, c.Algorithm) {
			t.Errorf("%s is not there", c.Algorithm)
		}
		if _, err := register(name, false); err == nil {
			t.Errorf("%s was registered twice", c.Algorithm)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		testutil.Eventually(t, 5*time.Second, func() bool { return !available(t, c.Algorithm) }, c.Algorithm+
			" still there after Close")
	}
}

// However the process ends, no registration stays behind.
func TestSweepAfterKill(t *testing.T) {
	testutil.NeedRoot(t)
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(), "CC_VICTIM=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := out.Read(b)
	name := string(bytes.TrimSpace(b[:n]))
	if err != nil || !available(t, name) {
		t.Fatalf("the victim registered %q: %v", name, err)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()
	if err := Sweep(); err != nil {
		t.Error(err)
	}
	testutil.Eventually(t, 5*time.Second, func() bool { return !available(t, name) }, name+" outlived its process")
}

func available(t *testing.T, name string) bool {
	t.Helper()
	list, err := Available()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(list, name)
}
