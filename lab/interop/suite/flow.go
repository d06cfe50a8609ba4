package suite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// rate is how many datagrams a flow sends each second.
const rate = 50

// answerWithin is how long after the last datagram answers still count.
const answerWithin = 500 * time.Millisecond

// datagrams is a flow of numbered datagrams that the other side echoes.
type datagrams struct {
	send func([]byte) error

	mu       sync.Mutex
	sent     []time.Time
	answered map[uint64]time.Time
	twice    int
	stop     context.CancelFunc
	done     chan struct{}
}

// startDatagrams starts a flow. heard gets the answers.
func startDatagrams(ctx context.Context, send func([]byte) error) *datagrams {
	f := &datagrams{send: send, answered: map[uint64]time.Time{}, done: make(chan struct{})}
	ctx, f.stop = context.WithCancel(ctx)
	go f.run(ctx)
	return f
}

func (f *datagrams) run(ctx context.Context) {
	defer close(f.done)
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for {
		f.mu.Lock()
		b := binary.BigEndian.AppendUint64(nil, uint64(len(f.sent)))
		f.sent = append(f.sent, time.Now())
		f.mu.Unlock()
		_ = f.send(b) // a refused datagram counts as lost
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// heard records an answered datagram.
func (f *datagrams) heard(b []byte) {
	if len(b) != 8 {
		return
	}
	n := binary.BigEndian.Uint64(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, again := f.answered[n]; again {
		f.twice++
		return
	}
	f.answered[n] = time.Now()
}

// end stops the flow and waits for the last answers.
func (f *datagrams) end(ctx context.Context) {
	f.stop()
	<-f.done
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_ = waitFor(ctx, "the last answers", func() bool { return f.lostSince(time.Time{}) == 0 })
}

// count returns how many datagrams were sent.
func (f *datagrams) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent)
}

// began is the time of the first datagram.
func (f *datagrams) began() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sent) == 0 {
		return time.Now()
	}
	return f.sent[0]
}

// lostSince counts the datagrams sent since then that were not answered.
func (f *datagrams) lostSince(since time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.sent {
		if _, ok := f.answered[uint64(i)]; !ok && !at.Before(since) {
			n++
		}
	}
	return n
}

// losses are datagrams that were not answered.
type losses struct {
	count int
	late  int    // of them, sent before the flow was answered at all
	when  string // in the flow's time, if known
}

// settling is how long a flow may take until it is answered; what is lost in it does not count.
const settling = time.Second

// losses are those of a flow that began, or could go on, at since.
func (f *datagrams) losses(since time.Time) losses {
	from := since.Add(settling)
	return losses{f.lostSince(from), f.lateSince(since), f.when(from)}
}

// lateSince counts the datagrams after the settling time that went before the first answered one. If none is
// answered, none is late: all are lost.
func (f *datagrams) lateSince(since time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.sent {
		if at.Before(since) {
			continue
		}
		if _, ok := f.answered[uint64(i)]; ok {
			return n
		}
		if !at.Before(since.Add(settling)) {
			n++
		}
	}
	return 0
}

// when says between which times of the flow the datagrams were sent that were lost
// since then.
func (f *datagrams) when(since time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first, last time.Time
	for i, at := range f.sent {
		if _, ok := f.answered[uint64(i)]; !ok && !at.Before(since) {
			if first.IsZero() {
				first = at
			}
			last = at
		}
	}
	if first.IsZero() {
		return ""
	}
	return fmt.Sprintf("between %.1f and %.1f s", first.Sub(f.sent[0]).Seconds(), last.Sub(f.sent[0]).Seconds())
}

// firstAnswer is how long after since the first datagram sent from then on was
// answered; negative if none was.
func (f *datagrams) firstAnswer(since time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.sent {
		if got, ok := f.answered[uint64(i)]; ok && !at.Before(since) {
			return got.Sub(since)
		}
	}
	return -1
}

// turns is a connection on which one side writes, waits for the echo, and writes
// again.
type turns struct {
	mu   sync.Mutex
	last time.Time // of the last echo
	gap  time.Duration
	n    int
	err  error
	stop context.CancelFunc
	done chan struct{}
}

// turnEvery is the pause between two turns.
const turnEvery = 20 * time.Millisecond

// startTurns starts turns; turn does one, and fails when the connection is over.
func startTurns(ctx context.Context, turn func(context.Context) error) *turns {
	t := &turns{last: time.Now(), done: make(chan struct{})}
	ctx, t.stop = context.WithCancel(ctx)
	go t.run(ctx, turn)
	return t
}

func (t *turns) run(ctx context.Context, turn func(context.Context) error) {
	defer close(t.done)
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for {
		err := turn(ctx)
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		now := time.Now()
		t.gap = max(t.gap, now.Sub(t.last))
		t.last, t.err = now, err
		t.n++
		t.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// count returns how many turns are over.
func (t *turns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// end stops. It returns the longest time between two echoes, the current one included, and
// the reason if the connection is not alive.
func (t *turns) end() (gap time.Duration, err error) {
	now := time.Now()
	t.stop()
	<-t.done
	t.mu.Lock()
	defer t.mu.Unlock()
	gap = max(t.gap, now.Sub(t.last))
	if t.err == nil && now.Sub(t.last) > time.Second {
		return gap, fmt.Errorf("no echo for the last %.1f s", now.Sub(t.last).Seconds())
	}
	return gap, t.err
}

// waitFor polls a condition until it holds or ctx ends.
func waitFor(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s: not in time", what)
			}
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// within is waitFor with a span of time.
func within(ctx context.Context, span time.Duration, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	return waitFor(ctx, what, ok)
}
