package ilnphost

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// seeds is how many courses of random events the tests look at.
const seeds = 24

// rough is an access link on which everything goes wrong now and then.
var rough = Access{Delay: 5 * time.Millisecond, Jitter: 4 * time.Millisecond, Loss: 0.1, Duplicate: 0.03}

// peer generator is a few mobile hosts that wander, and a few servers with one network
// that stays.
type many struct {
	*Network
	mobiles, servers []*Node
	flows            []*Flow
}

const anchor roam.LinkID = 9

func newCrowd(t *testing.T, seed uint64) *many {
	c := &many{Network: New(seed)}
	for i := range 2 {
		mode := ilnp.Mode(c.Rand().IntN(3))
		s := c.AddNode(fmt.Sprintf("s%d", i), ilnp.Config{
			NIDs: []roam.NID{serverNID + roam.NID(i)<<8}, Accept: ilnp.Any, Mode: mode,
		})
		s.Up(anchor, netS+roam.L64(i), rough, roam.Infinite)
		c.servers = append(c.servers, s)
	}
	for i := range 3 {
		m := c.AddNode(fmt.Sprintf("m%d", i), ilnp.Config{
			NIDs: []roam.NID{mobileNID + roam.NID(i)<<8}, Mode: ilnp.Mode(c.Rand().IntN(3)),
		})
		m.Up(1, netA+roam.L64(i), rough, roam.Infinite)
		for j, s := range c.servers {
			m.Know(s, netS+roam.L64(j))
			c.flows = append(c.flows, m.Flow(s, 20*time.Millisecond, true))
		}
		c.mobiles = append(c.mobiles, m)
	}
	return c
}

// move does something random to a random host.
func (c *many) move() {
	r := c.Rand()
	hosts := slices.Concat(c.mobiles, c.mobiles, c.servers)
	h := hosts[r.IntN(len(hosts))]
	link := roam.LinkID(1 + r.IntN(3))
	life := []time.Duration{roam.Infinite, 9 * time.Second, 30 * time.Second}[r.IntN(3)]
	switch r.IntN(8) {
	case 0, 1, 2:
		h.Up(link, roam.L64(0x2001_0db8_1000_0000)+roam.L64(h.nid&0xffff)<<8+roam.L64(r.IntN(6)), rough, life)
	case 3:
		h.Down(link)
	case 4:
		h.Cut(link)
	case 5:
		h.Mend(link)
	case 6:
		h.Disable(link, r.IntN(2) == 0)
	case 7:
		if slices.Contains(c.mobiles, h) {
			h.SetMode(ilnp.Mode(r.IntN(3)))
		}
	}
}

// calm ends all trouble, and gives every mobile a network.
func (c *many) calm() {
	for _, h := range c.Nodes() {
		for link := range roam.LinkID(10) {
			h.Mend(link)
			if h.off[link] {
				h.Disable(link, false)
			}
		}
		for _, at := range h.attachments {
			at.set(near)
		}
		if len(h.attachments) == 0 {
			h.Up(1, netB+roam.L64(h.nid&0xffff), near, roam.Infinite)
		}
	}
}

// settled reports whether every session stands on both ends.
func (c *many) settled() bool {
	return !slices.ContainsFunc(c.flows, func(f *Flow) bool {
		return f.From.peer(f.To).State != ilnp.Established || f.To.peer(f.From).State != ilnp.Established
	})
}

func TestRandomMoves(t *testing.T) {
	for seed := range uint64(seeds) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { randomMoves(t, seed) }) {
			return
		}
	}
}

func randomMoves(t *testing.T, seed uint64) {
	c := newCrowd(t, seed)
	showTrace(t, c.Network)
	if !c.RunUntil(30*time.Second, c.settled) {
		t.Fatal("sessions do not stand on both ends after 30 s")
	}
	for range 25 {
		c.Run(time.Duration(c.Rand().Int64N(int64(3 * time.Second))))
		c.move()
	}
	c.calm()
	c.Run(time.Minute)
	from := c.Elapsed()
	c.Run(2 * time.Second)
	for _, f := range c.flows {
		f.Stop()
	}
	c.Run(time.Second)
	for _, fault := range c.Check() {
		t.Error(fault)
	}
	for _, f := range c.flows {
		if lost := f.Lost(from, c.Elapsed()); lost != 0 {
			t.Errorf("%s to %s: %d datagrams lost after a minute of quiet", f.From.Name(), f.To.Name(), lost)
		}
	}
	for _, h := range c.Nodes() {
		for _, kind := range []ilnp.EventKind{ilnp.SessionEnded, ilnp.SessionReplaced} {
			if n := h.Count(kind); n != 0 {
				t.Errorf("%s: %d times %v", h.Name(), n, kind)
			}
		}
	}
}

// TestSameSeedSameCourse runs one course of random events twice.
func TestSameSeedSameCourse(t *testing.T) {
	var first []sim.Line
	for range 2 {
		c := newCrowd(t, 7)
		for range 20 {
			c.Run(time.Duration(c.Rand().Int64N(int64(2 * time.Second))))
			c.move()
		}
		c.Run(10 * time.Second)
		if first == nil {
			first = c.Trace()
			continue
		}
		if !slices.Equal(first, c.Trace()) {
			t.Error("two runs of one seed differ")
		}
	}
}

// TestCountsOfChangesSuffice: a core that receives what has changed and what it watches does the
// same as one that receives everything, while hosts move and while they are idle.
func TestCountsOfChangesSuffice(t *testing.T) {
	for seed := range uint64(seeds) {
		var courses [2][]sim.Line
		for i := range courses {
			c := newCrowd(t, seed)
			c.AllCounts, c.Acquainted = i == 0, seed%2 == 0
			for round := range 3 {
				for range 8 {
					c.Run(time.Duration(c.Rand().Int64N(int64(2 * time.Second))))
					c.move()
				}
				if round == 2 {
					break
				}
				for _, f := range c.flows {
					f.Stop()
				}
				c.Run([]time.Duration{20 * time.Second, 3 * time.Minute}[round])
				for i, f := range c.flows {
					c.flows[i] = f.From.Flow(f.To, 20*time.Millisecond, true)
				}
			}
			courses[i] = c.Trace()
		}
		if slices.Equal(courses[0], courses[1]) {
			continue
		}
		for i := range min(len(courses[0]), len(courses[1])) {
			if courses[0][i] != courses[1][i] {
				t.Fatalf("seed %d, line %d: with all counts %v, with changes %v", seed, i, courses[0][i], courses[1][i])
			}
		}
		t.Fatalf("seed %d: %d and %d lines", seed, len(courses[0]), len(courses[1]))
	}
}
