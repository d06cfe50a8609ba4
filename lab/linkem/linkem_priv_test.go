package linkem

import (
	"math"
	"testing"
	"time"

	"roam/internal/testutil"
)

func needLink(t testing.TB) {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "/dev/net/tun")
}

func trial(t testing.TB, tr Trial) Figures {
	t.Helper()
	needLink(t)
	f, err := Accuracy(tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f)
	return f
}

// Nothing is lost or reordered by a link that should not, with and without
// delay. How punctual it is depends on the machine and its load, so that is
// left to the benchmarks.
func TestLinkIsFaithful(t *testing.T) {
	for name, p := range map[string]Params{
		"wire":   {},
		"delay":  {Delay: 20 * time.Millisecond},
		"jitter": {Delay: 20 * time.Millisecond, Jitter: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			f := trial(t, Trial{Params: p, Offered: 20e6, Size: 1400, Span: 500 * time.Millisecond})
			if f.Received != f.Sent || f.Reordered != 0 || f.Sent < 800 {
				t.Errorf("sent %d, received %d, reordered %d", f.Sent, f.Received, f.Reordered)
			}
			if c := f.Counters; c.Frames != uint64(f.Sent) || c.Delivered != uint64(f.Received) {
				t.Errorf("counters: %+v", c)
			}
		})
	}
}

func TestLinkReorders(t *testing.T) {
	p := Params{Delay: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Reorder: true}
	f := trial(t, Trial{Params: p, Offered: 20e6, Size: 1400, Span: 300 * time.Millisecond})
	if f.Received != f.Sent || f.Reordered < f.Sent/4 {
		t.Errorf("sent %d, received %d, reordered %d", f.Sent, f.Received, f.Reordered)
	}
}

func TestLinkLoses(t *testing.T) {
	const p = 0.05
	f := trial(t, Trial{
		Params:  Params{Delay: time.Millisecond, Loss: p, Seed: 1},
		Offered: 50e6,
		Size:    1400,
		Span:    time.Second,
	})
	n := float64(f.Sent)
	lost := n - float64(f.Received)
	if math.Abs(lost-n*p) > 4*math.Sqrt(n*p*(1-p)) {
		t.Errorf("%v of %v lost, want %v", lost, n, n*p)
	}
	if f.Counters.DropLoss != uint64(lost) {
		t.Errorf("counted %d losses of %v", f.Counters.DropLoss, lost)
	}
}

// A wire without delay duplicates too: it may not pass frames straight on.
func TestLinkDuplicates(t *testing.T) {
	f := trial(t, Trial{Params: Params{Duplicate: 1}, Offered: 10e6, Size: 1400, Span: 200 * time.Millisecond})
	if c := f.Counters; c.Duplicated != uint64(f.Sent) || c.Delivered != 2*uint64(f.Sent) {
		t.Errorf("%d sent: counters %+v", f.Sent, c)
	}
}

func TestLinkLimitsRate(t *testing.T) {
	p := Params{Rate: 10e6, QueuePackets: 20}
	f := trial(t, Trial{Params: p, Offered: 20e6, Size: 1400, Span: time.Second})
	// Never more than the rate; less only when the machine stopped the sender
	// for longer than the queue lasts. That the arithmetic is exact is shown
	// in virtual time.
	if f.Rate > 10.1e6 || f.Rate < 7e6 {
		t.Errorf("%.0f bits per second arrived, want 10 million", f.Rate)
	}
	if got := f.Received + int(f.Counters.DropQueue); got != f.Sent {
		t.Errorf("%d of %d frames accounted for", got, f.Sent)
	}
}

func TestAccuracyRefuses(t *testing.T) {
	if _, err := Accuracy(Trial{Offered: 1, Size: 10, Span: 1}); err == nil {
		t.Error("a frame without room for a stamp was accepted")
	}
}

// BenchmarkAccuracy reports by how much delays are off, in milliseconds, at
// the load for which the lab claims 0.3 ms at the median and 1 ms at the 99th
// percentile on an idle machine.
func BenchmarkAccuracy(b *testing.B) {
	for b.Loop() {
		f := trial(b, Trial{
			Params:  Params{Delay: 20 * time.Millisecond},
			Offered: 200e6, Size: 1400, Span: 5 * time.Second,
		})
		b.ReportMetric(f.ErrMedian.Seconds()*1e3, "median-ms")
		b.ReportMetric(f.ErrP99.Seconds()*1e3, "p99-ms")
		b.ReportMetric(f.ErrMax.Seconds()*1e3, "max-ms")
		b.ReportMetric(f.Rate/1e6, "Mb/s")
		b.ReportMetric(float64(f.Sent-f.Received), "lost")
	}
}
