package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
)

// newLevelled is a forked world whose mobile host has one link at fast and one at relaxed: of these the second one is
// the newest, which soft prefers.
func newLevelled(t *testing.T, mode ilnp.Mode, second multipath.Level, seed uint64) *forked {
	t.Helper()
	levels := map[string]multipath.Level{linkName(1): multipath.Fast, linkName(2): second}
	if second == multipath.Fast {
		levels[linkName(1)] = multipath.Relaxed
	}
	n := New(seed)
	n.Acquainted = true
	w := &world{
		Network: n,
		mobile: n.AddNode("mobile", ilnp.Config{
			NIDs: []roam.NID{mobileNID}, Mode: mode, Silence: multipath.Fast.Timing().Silence, // the shortest of all
			Liveness: func(link string) multipath.Level { return levels[link] },
		}),
		server: n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Mode: mode}),
	}
	return fork(t, w, near)
}

// sendsOn returns for how long within a span the mobile host has sent data by a link.
func (p *forked) sendsOn(l roam.L64, span time.Duration) (last time.Duration) {
	from, was := p.Elapsed(), p.Tap
	p.Tap = func(q Packet) *Packet {
		if q.Control == nil && q.Src.L64 == l {
			last = p.Elapsed() - from
		}
		return &q
	}
	p.Run(span)
	p.Tap = was
	return last
}

// TestLevelsOfLinks: one link is at fast, and one at relaxed. Each is left after the time of its own level, whether it
// is one of two in use or the only one.
func TestLevelsOfLinks(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for level, within := range map[multipath.Level][2]time.Duration{
			multipath.Fast:    {50 * time.Millisecond, 250 * time.Millisecond},
			multipath.Relaxed: {500 * time.Millisecond, 4 * time.Second},
		} {
			for seed := range uint64(2) {
				p := newLevelled(t, mode, level, seed)
				p.Run(time.Duration(p.Rand().IntN(1000)) * time.Millisecond)
				p.cut(2, sim.Both)
				took := p.sendsOn(netB, 8*time.Second)
				t.Logf("%v, level %d, seed %d: left after %v", mode, level, seed, took)
				if took < within[0] || took > within[1] {
					t.Errorf("%v, level %d, seed %d: left after %v, want %v to %v", mode, level, seed, took, within[0], within[1])
				}
			}
		}
	}
}

// TestProbesOfLevels: each of two paths in use is probed as often as the level of its own link says.
func TestProbesOfLevels(t *testing.T) {
	const span = 20 * time.Second
	p := newLevelled(t, ilnp.Duality, multipath.Relaxed, 1)
	probes := make(map[roam.L64]int)
	p.Tap = func(q Packet) *Packet {
		if q.Control != nil && q.Src.NID == mobileNID && messageType(q) == ilnpwire.TypeEchoRequest {
			probes[q.Src.L64]++
		}
		return &q
	}
	p.Run(span)
	for l, level := range map[roam.L64]multipath.Level{netA: multipath.Fast, netB: multipath.Relaxed} {
		want := float64(span / level.Timing().Every)
		if n := float64(probes[l]); n < want*0.8 || n > want*1.6 {
			t.Errorf("%d probes of the path at level %d in %v, want %v", probes[l], level, span, want)
		}
	}
}
