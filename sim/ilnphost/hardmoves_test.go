package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam/ilnp"
	"roam/sim"
)

// hardMoves is a pair of hosts in the hard mode that both move within some seconds. One comes to a link of which a
// direction is dead, beside one that works; the other one moves to another network. Of the soak, its kind of talk, its
// look-ups and its rough links; everything that is not a field follows from the seed.
type hardMoves struct {
	seed         uint64
	rough        bool // links vary, lose and duplicate packets
	keyed        bool
	unacquainted bool
	away         bool // the first host leaves its network, and has two new links a moment later
}

// hardPair is the two hosts of a hardMoves, and their talk.
type hardPair struct {
	hardMoves
	*Soak
	halved, other *soaker
	talk          *talk
}

// start begins the talk.
func (c hardMoves) start() *hardPair {
	k := NewSoak(SoakConfig{Seed: c.seed, Hosts: 2, Keyed: c.keyed, Unacquainted: c.unacquainted})
	p := &hardPair{hardMoves: c, Soak: k, halved: k.hosts[c.seed%2], other: k.hosts[1-c.seed%2]}
	for _, h := range k.hosts {
		h.SetMode(ilnp.Hard)
		for _, at := range h.attachments {
			p.smooth(at)
		}
	}
	k.After(judgeEvery, k.judge)
	from, to := k.hosts[0], k.hosts[1]
	interval := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}[k.Rand().IntN(3)]
	k.look(from, to)
	if to.cfg.Accept == ilnp.Known {
		k.look(to, from)
	}
	p.talk = &talk{from: from, to: to, begun: k.Now(), patience: max(settledWith, patient*interval)}
	f := &Flow{From: from.Node, To: to.Node, Brief: true}
	f.Echo, f.Opening = k.Rand().IntN(10) > 0, k.Rand().IntN(2) == 0
	p.talk.flow = from.run(f, interval)
	k.talks = append(k.talks, p.talk)
	k.Network.Run(k.between(5*time.Second, 40*time.Second))
	return p
}

func (p *hardPair) smooth(at *attachment) {
	if !p.rough {
		at.set(near)
	}
}

// join connects a host to another network.
func (p *hardPair) join(h *soaker) *attachment {
	at := h.at(p.connect(h))
	p.smooth(at)
	return at
}

// move makes both moves, up to two seconds apart in either order, and returns what it drew.
func (p *hardPair) move() string {
	way := []sim.Direction{sim.Forward, sim.Backward}[p.Rand().IntN(2)]
	offset, late := p.between(-2*time.Second, 2*time.Second), time.Duration(0)
	if p.Rand().IntN(2) == 0 {
		late = p.between(0, 2*time.Second)
	}
	soft := p.Rand().IntN(2) == 0
	first, second := func() { p.moveHalved(way, late) }, func() { p.moveOther(soft) }
	if offset < 0 {
		first, second = second, first
	}
	first()
	p.Network.Run(offset.Abs())
	second()
	return fmt.Sprintf("direction %d dead, moves %v apart, %v later, of the other one soft %t", way, offset, late, soft)
}

// moveHalved brings the one host to a link of which a direction is dead, or dies a moment later.
func (p *hardPair) moveHalved(way sim.Direction, late time.Duration) {
	if !p.away {
		at := p.join(p.halved)
		p.After(late, func() {
			p.halved.CutOneWay(at.link, way)
			p.touch(p.halved)
		})
		return
	}
	p.leave(p.halved, 0)
	p.After(300*time.Millisecond, func() {
		p.join(p.halved)
		p.halved.CutOneWay(p.join(p.halved).link, way)
	})
}

// moveOther has the other host change its network, before or after it leaves the old one.
func (p *hardPair) moveOther(soft bool) {
	if soft {
		at := p.join(p.other)
		p.After(p.between(500*time.Millisecond, 10*time.Second), func() { p.leave(p.other, at.link) })
		return
	}
	p.leave(p.other, 0)
	p.After(p.between(0, time.Second), func() { p.join(p.other) })
}

// judge returns for how long at most nothing came, from 11 s after the moves on, when all links have changed.
func (c hardMoves) judge(t *testing.T, most time.Duration) (worst time.Duration) {
	p := c.start()
	drawn := p.move()
	p.Network.Run(11 * time.Second)
	last := p.Now()
	for end := p.Now().Add(5 * time.Minute); p.Now().Before(end); {
		p.Network.Run(time.Second)
		if at := p.talk.works(); at.After(last) {
			last = at
		}
		worst = max(worst, p.Now().Sub(last))
	}
	if worst > most {
		t.Errorf("%+v, %s: nothing came for %v; %s; %s", c, drawn, worst,
			p.talk.from.stateTowards(p.talk.to), p.talk.to.stateTowards(p.talk.from))
	}
	return worst
}

// TestHardMovesFoundBefore repeats moves after which nothing came for a minute or more, or ever again:
// acknowledgements left by the link from which nothing leaves until the allowance of the peer's new locator was spent,
// that locator was asked from the link at which nothing arrives alone, or the set that lists that link alone was
// announced for good.
func TestHardMovesFoundBefore(t *testing.T) {
	for _, c := range []hardMoves{
		{seed: 109, rough: true},
		{seed: 74, rough: true},
		{seed: 1120, rough: true},
		{seed: 1257, rough: true, away: true},
		{seed: 54, keyed: true, away: true},
		{seed: 2152, rough: true, keyed: true},
	} {
		c.judge(t, 50*time.Second)
	}
}

// TestHardMoves sweeps such moves: none takes longer than the soak allows. SOAK_MOVES is the number of seeds of each
// kind.
func TestHardMoves(t *testing.T) {
	seeds := uint64(setting(t, "SOAK_MOVES", 2))
	first := 1000 * uint64(setting(t, "SEED", 1))
	for i := range 2 * 2 * 3 {
		c := hardMoves{rough: i&1 != 0, away: i&2 != 0, keyed: i>>2 == 1, unacquainted: i>>2 == 2}
		var worst time.Duration
		for seed := range seeds {
			c.seed = first + seed
			worst = max(worst, c.judge(t, mendWithin))
		}
		c.seed = 0
		t.Logf("%+v: %d seeds, nothing for %v at worst", c, seeds, worst)
	}
}
