package linkem

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

// bench drives a pipe in virtual time. Frames carry their number in their
// buffer.
type bench struct {
	*pipe
	freed int
	lost  int // reported as lost
	sent  int
	got   []arrival
}

// arrival is a frame that came out, with its due time.
type arrival struct {
	n  int
	at time.Duration
}

func newBench(p Params) *bench {
	b := &bench{}
	b.pipe = newPipe(p, func([]byte) { b.freed++ })
	b.pipe.lost = func([]byte) { b.lost++ }
	return b
}

// send pushes the next frame.
func (b *bench) send(now time.Duration, size int, control bool) {
	buf := []byte{byte(b.sent), byte(b.sent >> 8), byte(b.sent >> 16)}
	b.sent++
	b.push(now, buf, size, control)
}

// drain pops all that is due by end, at the times that next asks for.
func (b *bench) drain(end time.Duration) {
	for {
		t := b.next()
		if t > end {
			return
		}
		for {
			f, ok := b.pop(t)
			if !ok {
				break
			}
			n := int(f.buf[0]) | int(f.buf[1])<<8 | int(f.buf[2])<<16
			b.got = append(b.got, arrival{n, f.at})
		}
		if b.next() == t {
			panic("next does not move on")
		}
	}
}

// want compares what came out.
func (b *bench) want(t *testing.T, want ...arrival) {
	t.Helper()
	if len(b.got) != len(want) {
		t.Fatalf("%d frames came out, want %d: %v", len(b.got), len(want), b.got)
	}
	for i := range want {
		if b.got[i] != want[i] {
			t.Errorf("frame %d: number %d at %v, want %d at %v", i, b.got[i].n, b.got[i].at, want[i].n, want[i].at)
		}
	}
}

func TestPipeDelay(t *testing.T) {
	b := newBench(Params{Delay: 10 * ms})
	b.send(1*ms, 100, false)
	b.send(2*ms, 100, false)
	b.drain(10 * ms)
	b.want(t)
	b.drain(time.Second)
	b.want(t, arrival{0, 11 * ms}, arrival{1, 12 * ms})
	if b.next() != never {
		t.Error("an empty pipe has something to do")
	}
}

// 1000 bytes at 1 Mb/s take 8 ms.
func TestPipeRate(t *testing.T) {
	b := newBench(Params{Rate: 1e6, Delay: 1 * ms})
	for range 3 {
		b.send(0, 1000, false)
	}
	b.send(100*ms, 1000, false)
	b.drain(time.Second)
	b.want(t, arrival{0, 9 * ms}, arrival{1, 17 * ms}, arrival{2, 25 * ms}, arrival{3, 109 * ms})
}

// However late the calls come, the transmitter's times are exact.
func TestPipeRateCalledLate(t *testing.T) {
	b := newBench(Params{Rate: 1e6})
	for range 3 {
		b.send(0, 1000, false)
	}
	for n := range 3 {
		f, ok := b.pop(time.Second)
		if want := time.Duration(n+1) * 8 * ms; !ok || f.at != want {
			t.Errorf("frame %d due at %v, want %v", n, f.at, want)
		}
	}
}

func TestPipeQueueBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Params
		want int // frames of a burst of 2000 that pass
	}{
		// One more than the bound: the first goes to the transmitter.
		{"packets", Params{Rate: 1e6, QueuePackets: 10}, 11},
		{"nbytes", Params{Rate: 1e6, QueueBytes: 5500}, 6},
		{"both", Params{Rate: 1e6, QueuePackets: 3, QueueBytes: 5500}, 4},
		{"default", Params{Rate: 1e6}, DefaultQueue + 1},
		{"tiny", Params{Rate: 1e6, QueueBytes: 1}, 2},
		{"no rate, no queue", Params{Delay: ms, QueuePackets: 1}, 2000},
	} {
		b := newBench(c.p)
		for range 2000 {
			b.send(0, 1000, false)
		}
		b.drain(never - 1)
		if len(b.got) != c.want || b.c.DropQueue != uint64(2000-c.want) || b.freed != 2000-c.want {
			t.Errorf("%s: %d frames passed, %d dropped, %d buffers freed; want %d to pass",
				c.name, len(b.got), b.c.DropQueue, b.freed, c.want)
		}
	}
}

func TestPipeQueueGivesRoomAgain(t *testing.T) {
	b := newBench(Params{Rate: 1e6, QueuePackets: 1})
	b.send(0, 1000, false)    // transmitted until 8 ms
	b.send(0, 1000, false)    // waits
	b.send(7*ms, 1000, false) // finds the queue full
	b.send(9*ms, 1000, false) // finds it empty again
	b.drain(time.Second)
	b.want(t, arrival{0, 8 * ms}, arrival{1, 16 * ms}, arrival{3, 24 * ms})
}

func TestPipeControlFirst(t *testing.T) {
	b := newBench(Params{Rate: 1e6, ControlFirst: true})
	b.send(0, 1000, false)
	b.send(0, 1000, false)
	b.send(1*ms, 1000, false)
	b.send(2*ms, 1000, true) // overtakes queued frames, not the one in transmission
	b.drain(time.Second)
	b.want(t, arrival{0, 8 * ms}, arrival{3, 16 * ms}, arrival{1, 24 * ms}, arrival{2, 32 * ms})

	b = newBench(Params{Rate: 1e6})
	b.send(0, 1000, false)
	b.send(0, 1000, false)
	b.send(0, 1000, true)
	b.drain(time.Second)
	b.want(t, arrival{0, 8 * ms}, arrival{1, 16 * ms}, arrival{2, 24 * ms})
}

func TestPipeJitterKeepsOrder(t *testing.T) {
	b := newBench(Params{Delay: 20 * ms, Jitter: 10 * ms, Seed: 1})
	const n = 5000
	for i := range n {
		now := time.Duration(i) * 100 * time.Microsecond
		b.drain(now)
		b.send(now, 100, false)
	}
	b.drain(never - 1)
	if len(b.got) != n {
		t.Fatalf("%d of %d came out", len(b.got), n)
	}
	for i, a := range b.got {
		if a.n != i {
			t.Fatalf("frame %d came out as number %d", a.n, i)
		}
	}
}

func TestPipeJitterIsUniform(t *testing.T) {
	b := newBench(Params{Delay: 20 * ms, Jitter: 10 * ms, Seed: 1})
	const n = 5000
	var sum, least, most = 0.0, math.Inf(1), 0.0
	for i := range n {
		now := time.Duration(i) * time.Second // far apart, so none waits
		b.send(now, 100, false)
		b.drain(now + time.Second - 1)
		d := (b.got[i].at - now).Seconds() * 1000
		sum, least, most = sum+d, min(least, d), max(most, d)
	}
	if mean := sum / n; math.Abs(mean-20) > 0.5 || least < 10 || most > 30 || most-least < 19 {
		t.Errorf("delays of %.2f to %.2f ms, %.2f on average; want 10 to 30, 20", least, most, mean)
	}
}

func TestPipeReorder(t *testing.T) {
	b := newBench(Params{Delay: 20 * ms, Jitter: 20 * ms, Reorder: true, Seed: 1})
	for range 100 {
		b.send(0, 100, false)
	}
	b.drain(time.Second)
	swapped := 0
	for i := 1; i < len(b.got); i++ {
		if b.got[i].at < b.got[i-1].at {
			t.Fatal("frames came out out of due order")
		}
		if b.got[i].n < b.got[i-1].n {
			swapped++
		}
	}
	if len(b.got) != 100 || swapped < 20 {
		t.Errorf("%d frames, %d out of order; want 100 and many", len(b.got), swapped)
	}
}

// The number of losses lies within four standard deviations, and the same
// seed loses the same frames.
func TestPipeLoss(t *testing.T) {
	for _, p := range []float64{0, 0.001, 0.05, 0.5, 1} {
		var runs [2][]arrival
		for r := range runs {
			b := newBench(Params{Loss: p, Delay: ms, Seed: 7})
			const n = 50000
			for range n {
				b.send(0, 100, false)
			}
			b.drain(time.Second)
			lost := float64(b.c.DropLoss)
			if bound := 4 * math.Sqrt(n*p*(1-p)); math.Abs(lost-n*p) > bound {
				t.Errorf("loss %v: %v of %d lost", p, lost, n)
			}
			if b.freed != int(lost) || len(b.got)+b.freed != n {
				t.Errorf("loss %v: frames unaccounted for", p)
			}
			runs[r] = b.got
		}
		for i := range runs[0] {
			if runs[0][i] != runs[1][i] {
				t.Fatalf("loss %v: same seed, other losses", p)
			}
		}
	}
}

// A lost frame has used the transmitter like any other.
func TestPipeLossComesAfterRate(t *testing.T) {
	b := newBench(Params{Rate: 1e6, Loss: 0.5, Seed: 3})
	for range 20 {
		b.send(0, 1000, false)
	}
	b.drain(time.Second)
	for _, a := range b.got {
		if want := time.Duration(a.n+1) * 8 * ms; a.at != want {
			t.Errorf("frame %d at %v, want %v", a.n, a.at, want)
		}
	}
}

func TestPipeCut(t *testing.T) {
	b := newBench(Params{Rate: 1e6, Delay: 20 * ms})
	for range 4 {
		b.send(0, 1000, false)
	}
	b.set(10*ms, Params{Cut: true})
	b.send(11*ms, 1000, false)
	b.drain(time.Second)
	b.want(t)
	if b.c.DropDown != 5 || b.freed != 5 || b.queued != 0 || b.flying != 0 {
		t.Errorf("dropped %d, freed %d; want 5", b.c.DropDown, b.freed)
	}
	b.set(2*time.Second, Params{Delay: 5 * ms})
	b.send(3*time.Second, 1000, false)
	b.drain(4 * time.Second)
	b.want(t, arrival{5, 3*time.Second + 5*ms})
}

func TestPipeChangeKeepsOrder(t *testing.T) {
	b := newBench(Params{Delay: 100 * ms})
	b.send(0, 100, false)
	b.set(1*ms, Params{Delay: 10 * ms})
	b.send(2*ms, 100, false) // would arrive at 12 ms
	b.drain(time.Second)
	b.want(t, arrival{0, 100 * ms}, arrival{1, 100 * ms})
}

func TestPipeRateChangesForThoseThatWait(t *testing.T) {
	b := newBench(Params{Rate: 1e6})
	for range 3 {
		b.send(0, 1000, false)
	}
	b.set(4*ms, Params{Rate: 8e6})
	b.drain(time.Second)
	b.want(t, arrival{0, 8 * ms}, arrival{1, 9 * ms}, arrival{2, 10 * ms})

	b = newBench(Params{Rate: 1e6})
	for range 3 {
		b.send(0, 1000, false)
	}
	b.set(4*ms, Params{})
	if b.idle() {
		t.Error("a pipe with frames in it lets others pass by")
	}
	b.drain(time.Second)
	b.want(t, arrival{0, 8 * ms}, arrival{1, 8 * ms}, arrival{2, 8 * ms})
	if !b.idle() {
		t.Error("an empty pipe without properties is not idle")
	}
}

// In any sequence of operations, each frame is delivered, freed, or still inside.
func TestPipeAccountsForEveryFrame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(v time.Duration) time.Duration { return time.Duration(r.Int64N(int64(v))) }
	b := newBench(Params{})
	var now time.Duration
	for range 50000 {
		now += some(ms)
		switch r.IntN(200) {
		case 0:
			b.set(now, Params{
				Delay: some(20 * ms), Jitter: some(5 * ms), Reorder: r.IntN(2) == 0,
				Loss: r.Float64() / 10, Rate: r.Int64N(2) * (1e5 + r.Int64N(1e7)),
				QueuePackets: r.IntN(50), QueueBytes: r.IntN(2) * r.IntN(50000),
				ControlFirst: r.IntN(2) == 0, Cut: r.IntN(5) == 0, Seed: r.Uint64N(3),
			})
		default:
			b.send(now, 60+r.IntN(1440), r.IntN(10) == 0)
		}
		if r.IntN(3) > 0 {
			b.drain(now)
		}
		inside := b.waiting() + b.wire.len()
		if len(b.got)+b.freed+inside != b.sent {
			t.Fatalf("%d sent, %d came out, %d dropped, %d inside", b.sent, len(b.got), b.freed, inside)
		}
	}
	if shown := b.c.DropLoss + b.c.DropDown; uint64(b.lost) != shown || shown == 0 {
		t.Errorf("%d frames were shown as lost, %d were", b.lost, shown)
	}
	drops := b.c.DropQueue + b.c.DropLoss + b.c.DropDown
	if uint64(b.freed) != drops || b.c.Frames != uint64(b.sent) {
		t.Errorf("counters tell of %d frames and %d drops, not %d and %d", b.c.Frames, drops, b.sent, b.freed)
	}
}

// Both of two have their own time on the wire; a lost frame has no duplicate.
func TestPipeDuplicates(t *testing.T) {
	const share, sent = 0.2, 5000
	b := newBench(Params{Delay: 20 * ms, Jitter: 5 * ms, Loss: 0.1, Duplicate: share, Reorder: true, Seed: 3})
	for i := range sent {
		b.send(time.Duration(i)*ms, 100, false)
	}
	b.drain(time.Hour)
	seen := map[int][]time.Duration{}
	for _, a := range b.got {
		seen[a.n] = append(seen[a.n], a.at)
	}
	copies, apart := 0, 0
	for _, at := range seen {
		if len(at) > 1 {
			copies++
			if at[0] != at[1] {
				apart++
			}
		}
	}
	if n := float64(len(seen)); math.Abs(float64(copies)-n*share) > 4*math.Sqrt(n*share*(1-share)) || apart < copies/2 {
		t.Errorf("%d of %d frames came twice, %d of them at different times", copies, len(seen), apart)
	}
	if b.c.Duplicated != uint64(copies) || len(b.got) != sent-int(b.c.DropLoss)+copies {
		t.Errorf("counters %+v, %d came out", b.c, len(b.got))
	}
}

func TestValidate(t *testing.T) {
	for _, p := range []Params{
		{Delay: -1}, {Jitter: -1}, {Loss: -0.1}, {Loss: 1.1}, {Loss: math.NaN()}, {Duplicate: 1.5},
		{Rate: -1}, {QueuePackets: -1}, {QueueBytes: -1},
	} {
		if err := p.Validate(); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := (Params{Loss: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestIsControl(t *testing.T) {
	frame := func(proto uint16, b ...byte) []byte {
		f := make([]byte, 12, 40)
		return append(append(f, byte(proto>>8), byte(proto)), b...)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"IPv6 CS6", frame(0x86dd, 0x6c, 0x00), true},
		{"IPv6 CS6 with ECN", frame(0x86dd, 0x6c, 0x30), true},
		{"IPv6 CS7", frame(0x86dd, 0x6e, 0x00), false},
		{"IPv6 default", frame(0x86dd, 0x60, 0x00), false},
		{"IPv4 CS6", frame(0x0800, 0x45, 0xc0), true},
		{"IPv4 EF", frame(0x0800, 0x45, 0xb8), false},
		{"ARP", frame(0x0806, 0x6c, 0xc0), false},
		{"short", frame(0x86dd, 0x6c), false},
	} {
		if got := isControl(c.frame); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func BenchmarkPipe(b *testing.B) {
	q := newPipe(Params{Delay: 10 * ms, Rate: 1e9, Loss: 0.01}, func([]byte) {})
	buf := make([]byte, 1500)
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 20 * time.Microsecond
		q.push(now, buf, 1500, false)
		for {
			if _, ok := q.pop(now); !ok {
				break
			}
		}
	}
}
