package scene

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/node"
)

// sampleEvery is the pause between two samples of the links' counters.
const sampleEvery = 100 * time.Millisecond

// Sample is a reading of the bytes, in Ethernet frames, that each link of the mobile host
// has delivered since it was made.
type Sample struct {
	At      time.Time
	Out, In map[string]uint64 // from the host, to it
	Towards map[string]uint64 // packets that the core sent to the router of each network
	Data    Data              // of Out and In, the data of sessions; nil without CountData
}

// sampler reads counters and feeds the live view.
type sampler struct {
	s       *Scene
	board   func() []live.Session
	mu      sync.Mutex
	samples []Sample
	begins  []Begin                 // set when watchBegins has ended
	states  map[string]node.Locator // by link, refreshed after each event
	stale   chan struct{}
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func startSampler(ctx context.Context, sc *Scene, board func() []live.Session) *sampler {
	ctx, stop := context.WithCancel(ctx)
	s := &sampler{s: sc, board: board, stop: stop, stale: make(chan struct{}, 1), states: map[string]node.Locator{}}
	s.refresh()
	s.done.Go(func() { s.run(ctx) })
	s.done.Go(func() { s.watchBegins(ctx) })
	if sc.Mobile().Node != nil {
		s.done.Go(func() { s.ask(ctx) })
	}
	return s
}

// refresh makes the sampler read the locators again, soon.
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

// ask stores the locators' states that the daemon reports.
func (s *sampler) ask(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stale:
		}
		list, err := s.s.Mobile().Node.Locators(ctx)
		if err != nil {
			continue // the board keeps the last known state
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
	m, data := s.s.Mobile(), s.s.data.read()
	now := sampleOf(time.Now(), slices.Collect(maps.Keys(m.Links)), func(link string, way linkem.Direction) uint64 {
		return m.Links[link].Counters(way).DeliveredBytes
	}, func(link string) (uint64, error) {
		stats, err := s.s.Core.Stats(m.Routers[link].Name())
		return stats.TxPackets, err
	})
	now.Data = data
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, now)
	if s.board != nil {
		s.s.env.View.Sessions(s.board())
	}
	if n := len(s.samples); n > 5 {
		s.s.env.View.Links(s.links(s.samples[n-6], now))
	}
}

// sampleOf reads the counters of links: first, without a system call between them, those that are compared.
// A network of which the core cannot tell is left out.
func sampleOf(at time.Time, links []string, delivered func(link string, way linkem.Direction) uint64,
	towards func(link string) (uint64, error)) Sample {
	now := Sample{At: at, Out: map[string]uint64{}, In: map[string]uint64{}, Towards: map[string]uint64{}}
	for _, name := range links {
		now.Out[name], now.In[name] = delivered(name, linkem.AB), delivered(name, linkem.BA)
	}
	for _, name := range links {
		if n, err := towards(name); err == nil {
			now.Towards[name] = n
		}
	}
	return now
}

// links returns the links in the form of the live view.
func (s *sampler) links(old, now Sample) (out []live.Link) {
	dt := now.At.Sub(old.At).Seconds() * 1e6 / 8
	for _, name := range s.s.Mobile().Access {
		l := live.Link{Name: name, Up: s.s.IsUp(name)}
		if st, ok := s.states[name]; ok {
			l.Locator, l.State = st.L64.Prefix().String(), st.State
		}
		l.TxMbps = float64(now.Out[name]-old.Out[name]) / dt
		l.RxMbps = float64(now.In[name]-old.In[name]) / dt
		out = append(out, l)
	}
	return out
}

// finish stops sampling and returns everything.
func (s *sampler) finish() []Sample {
	s.stop()
	s.done.Wait()
	s.take()
	return s.samples
}
