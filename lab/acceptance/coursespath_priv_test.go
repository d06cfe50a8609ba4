package acceptance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// onPath is the attacker of a course where the path between two hosts with each other's key leads through
// it: it has read every packet, and sends what it likes from there.
type onPath struct {
	tap    *wiretap
	inject *injector
}

// mostCopies bounds how many packets of data one attack replays; it leaves out no control packet.
const mostCopies = 500

// pairKeys gives both hosts of a claim a key, and each the other one's.
func (c *claim) pairKeys() {
	for _, pair := range [][2]*host{{c.a, c.b}, {c.b, c.a}} {
		pair[0].roam("key", "new")
		pair[1].roam("add", strings.TrimSpace(pair[0].roam("export")), "--as", pair[0].name)
	}
}

// moved has a packet come from another address, with its checksum made right.
func moved(packet []byte, from roam.ILV) []byte {
	b := slices.Clone(packet)
	src := from.Addr().As16()
	copy(b[8:24], src[:])
	_ = ip6.FinishL4(b) // fragments stay as they are
	return b
}

// act does one thing that a node on the path can do.
func (p *onPath) act(c *course) {
	a, b := roam.ILVFromAddr(c.w.wire("a", 1)), c.w.nid("b")
	x := roam.ILV{L64: l64(c.w, "x", 1+c.random.IntN(2)), NID: b}
	var nonce ilnpwire.Nonce
	var control, data, sent [][]byte
	seen := make(map[string]bool)
	for _, f := range p.tap.frames() {
		if seen[string(f)] || len(f) > 1500 {
			continue // what it has replayed came by once more; what a tap shows before it is cut up
		}
		seen[string(f)] = true
		q, err := ilnpwire.ParsePacket(f)
		if err == nil && q.Src.NID == b && q.Nonce.Present() {
			nonce = q.Nonce
		}
		if err == nil || f[ip6.NextHeaderAt] == 60 {
			control = append(control, f)
		} else {
			data = append(data, f)
		}
	}
	c.random.Shuffle(len(data), func(i, j int) { data[i], data[j] = data[j], data[i] })
	all := append(control, data[:min(len(data), mostCopies)]...)
	what := c.random.IntN(4)
	if what > 1 && !nonce.Present() {
		c.say("b has shown no nonce yet")
		return
	}
	switch what {
	case 0:
		c.say("%d packets of %d replayed", len(all), len(control)+len(data))
		sent = all
	case 1:
		for _, f := range all {
			if h, err := ip6.Parse(f); err == nil && roam.ILVFromAddr(h.Src).NID == b {
				sent = append(sent, moved(f, x))
			}
		}
		c.say("%d packets of b's replayed, from x's place", len(sent))
	case 2:
		c.say("updates with b's nonce that list x's place")
		lu := ilnpwire.LocatorUpdate{
			Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(x.L64, 0, 600)},
		}
		for _, from := range []roam.ILV{x, {L64: l64(c.w, "b", 1), NID: b}, {L64: l64(c.w, "b", 2), NID: b}} {
			plain, err := ilnpwire.BuildUpdate(from, a, nonce, lu)
			sealed, err2 := ilnpwire.BuildSealed(from, a, nonce, lu, ilnpwire.Seal{Counter: 1 << 63})
			encap, err3 := ilnpwire.Encapsulate(sealed, 6740)
			if err != nil || err2 != nil || err3 != nil {
				c.t.Fatal(err, err2, err3)
			}
			sent = append(sent, plain, sealed, encap)
		}
	case 3:
		c.say("first packets and pings with b's nonce from x's place")
		for _, kind := range []string{"ping", "udp", "syn", "update"} {
			sent = append(sent, first(kind, x, a, nonce))
		}
	}
	for _, f := range sent {
		p.inject.send(f)
	}
}

// judge checks that a has b's session where b is, with its key, and none that x is in.
func (p *onPath) judge(c *course) {
	own := []roam.L64{l64(c.w, "b", 1), l64(c.w, "b", 2)}
	for _, s := range c.a.sessions() {
		if s.NID != c.w.nid("b") {
			continue
		}
		for _, l := range s.Locators {
			if !slices.Contains(own, l.L64) {
				c.t.Errorf("a has %v of b: %+v", l.L64, s)
			}
		}
		if s.State == "established" && s.Proof != "keyed" {
			c.t.Errorf("a session without a proof: %+v", s)
		}
	}
	c.a.proved("b")
}

// TestTakeoverCoursesKeyed draws courses between two hosts that have each other's key. The attacker has b's
// identifier, and the path leads through it: nothing of b's goes to it, no session moves, and each goes on by its
// owner.
func TestTakeoverCoursesKeyed(t *testing.T) {
	count, first := fromEnv(t, coursesEnv, coursesUsual), fromEnv(t, courseEnv, 1)
	for i := range count {
		seed := uint64(first + i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := &course{claim: newClaim(t, "course"), t: t, random: rand.New(rand.NewPCG(6741, seed)), link: 2}
			c.pairKeys()
			c.stage = c.w.stage(t)
			c.path = &onPath{tap: c.w.tap(t, c.w.r1, "core"), inject: c.w.injector(t, "r1")}
			c.play()
			c.path.judge(c)
			refused := uint64(0)
			for name, n := range c.a.counters() {
				if strings.HasPrefix(name, "core_refused_") {
					refused += n
				}
			}
			t.Logf("%s; a refused %d", strings.Join(c.log, "; "), refused)
		})
	}
}
