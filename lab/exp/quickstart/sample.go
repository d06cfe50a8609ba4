package quickstart

import (
	"context"
	"sync"
	"time"

	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/node"
)

// sampleEvery is the pause between two samples of the links' counters.
const sampleEvery = 100 * time.Millisecond

// sample is a reading of what each link has delivered, in octets.
type sample struct {
	at      time.Time
	out, in map[string]uint64
}

// sampler reads counters and feeds the live view.
type sampler struct {
	a       *arm
	mu      sync.Mutex
	samples []sample
	states  map[string]node.Locator // by link, asked for when something happened
	stale   chan struct{}
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func startSampler(ctx context.Context, a *arm) *sampler {
	ctx, stop := context.WithCancel(ctx)
	s := &sampler{a: a, stop: stop, stale: make(chan struct{}, 1), states: map[string]node.Locator{}}
	s.refresh()
	s.done.Go(func() { s.run(ctx) })
	if a.node != nil {
		s.done.Go(func() { s.ask(ctx) })
	}
	return s
}

// refresh asks for the locators again, soon.
func (s *sampler) refresh() {
	select {
	case s.stale <- struct{}{}:
	default:
	}
}

func (s *sampler) run(ctx context.Context) {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		s.take()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// ask keeps the locators' states as the daemon tells them.
func (s *sampler) ask(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stale:
		}
		list, err := s.a.node.Locators(ctx)
		if err != nil {
			continue // the board shows what was known before
		}
		states := map[string]node.Locator{}
		for _, l := range list {
			states[l.Link] = l
		}
		s.mu.Lock()
		s.states = states
		s.mu.Unlock()
	}
}

func (s *sampler) take() {
	now := sample{at: time.Now(), out: map[string]uint64{}, in: map[string]uint64{}}
	for name, k := range s.a.net.links {
		now.out[name] = k.Counters(linkem.AB).DeliveredBytes
		now.in[name] = k.Counters(linkem.BA).DeliveredBytes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, now)
	s.a.env.View.Sessions(s.a.traffic.board())
	if n := len(s.samples); n > 5 {
		s.a.env.View.Links(s.board(s.samples[n-6], now))
	}
}

// board returns the links as the live view shows them.
func (s *sampler) board(old, now sample) (out []live.Link) {
	dt := now.at.Sub(old.at).Seconds() * 1e6 / 8
	for _, name := range access {
		l := live.Link{Name: name, Up: s.a.isUp(name)}
		if st, ok := s.states[name]; ok {
			l.Locator, l.State = st.L64.String(), st.State
		}
		l.TxMbps = float64(now.out[name]-old.out[name]) / dt
		l.RxMbps = float64(now.in[name]-old.in[name]) / dt
		out = append(out, l)
	}
	return out
}

// finish stops sampling and returns everything.
func (s *sampler) finish() []sample {
	s.stop()
	s.done.Wait()
	s.take()
	return s.samples
}
