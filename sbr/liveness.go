package sbr

import (
	"bytes"
	"slices"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// The times of the border's own probes, and how many rounds decide.
const (
	checkEvery = time.Second
	checkAgain = 300 * time.Millisecond // after a probe without an answer
	roundsDead = 3                      // in a row without an answer, while another provider answers
	roundsBack = 3                      // in a row with one
)

// How long a provider has to answer: one and a half of its round-trip time, within bounds.
const (
	leastPatience = 250 * time.Millisecond // less than checkAgain, as the round may wait for its inside node first
	firstPatience = 900 * time.Millisecond // while the round-trip time is not known
	mostPatience  = 3 * time.Second        // an answer after that does not count as one of its round
)

// probeLen is the length of a probe's data: that of a host's, so that a border at the other end
// has it answered from the locator that it came to.
const probeLen = 16

// The times by which flows are chosen for probes.
const (
	active = 2 * time.Second // since the latest packet from inside
	// lately is the same as far as the core knows it: when it looked last, and from sweeps over
	// all flows.
	lately         = 20 * time.Second
	mostCandidates = 16    // of a round
	mostLooked     = 4_096 // flows at which one search for a candidate looks
)

// Probe names the border's own probes, so that no answer to an inside host, or to an earlier
// border, counts as theirs.
type Probe struct {
	ID     uint16
	Token  [8]byte
	Secret [16]byte // of the border's own updates; no packet has it
}

// data is that of a probe.
func (p Probe) data() []byte { return append(p.Token[:], make([]byte, probeLen-len(p.Token))...) }

// liveness judges each provider by echo requests in the name of an inside node with a session, while
// that node sends packets: in each round its outside node is asked from every site locator whose
// link is up. A provider by which it answers nothing within that provider's own time, while it answers
// by another one, is silent. Where it answers by none, the node may be gone, and nothing is judged.
type liveness struct {
	due        time.Time // zero: nobody is asked
	seq        uint16
	flow       FlowKey // asked last
	next       int     // in order: where the search for another one goes on
	candidate  *flow   // to be asked once its inside node is known to be there
	candidates int     // that this round has had
	rounds     []round // less than mostPatience old, the latest last
	again      bool    // a provider may have changed: the next round comes soon, and asks another node
	providers  map[roam.L64]*provider
}

// round is the probes to one node at one time.
type round struct {
	seq   uint16
	flow  FlowKey
	at    time.Time
	asked map[roam.L64]outcome
}

type outcome uint8

const (
	waiting outcome = iota
	missing         // it took longer than its provider has
	answered
)

// provider is what the answers by one site locator have shown.
type provider struct {
	rtt           time.Duration // rises at once and falls slowly; 0: not known
	missed, heard int           // rounds in a row
	silent        bool
}

// patience is how long an answer may take before it counts as missing.
func (p *provider) patience() time.Duration {
	if p.rtt == 0 {
		return firstPatience
	}
	return min(max(p.rtt*3/2, leastPatience), mostPatience)
}

// Watch has the core judge providers from now on.
func (c *Core) Watch(now time.Time) {
	c.watch = liveness{due: now, providers: make(map[roam.L64]*provider)}
}

// IsSilent reports whether a provider whose link is up passes nothing.
func (c *Core) IsSilent(l roam.L64) bool { return c.watch.silent(l) }

func (v *liveness) silent(l roam.L64) bool {
	p := v.providers[l]
	return p != nil && p.silent
}

// forgetDown has providers whose links are not up judged anew once they are.
func (v *liveness) forgetDown(states []Site) {
	for l := range v.providers {
		if slices.ContainsFunc(states, func(s Site) bool { return s.L64 == l && s.Up }) {
			continue
		}
		delete(v.providers, l)
		for _, r := range v.rounds {
			delete(r.asked, l)
		}
	}
}

// check judges the rounds so far, and begins another one.
func (c *Core) check(now time.Time) {
	v := &c.watch
	if v.due.IsZero() || v.due.After(now) {
		return
	}
	unanswered := !v.hasAnswer()
	if v.judge(now) {
		c.table = c.newTable()
		c.out = append(c.out, Install{})
		c.announceAll(now)
	}
	v.due = now.Add(checkEvery)
	if v.again {
		v.due = now.Add(checkAgain)
	}
	other := v.again || unanswered
	v.again = false
	c.begin(now, other)
}

// hasAnswer reports whether anything has come of the latest round.
func (v *liveness) hasAnswer() bool {
	n := len(v.rounds)
	return n > 0 && v.rounds[n-1].seq == v.seq && v.rounds[n-1].hasAnswer()
}

func (r round) hasAnswer() bool {
	for _, o := range r.asked {
		if o == answered {
			return true
		}
	}
	return false
}

// judge counts answers that are missing by now, and decides. changed: a provider is silent now, or no longer.
func (v *liveness) judge(now time.Time) (changed bool) {
	for _, r := range v.rounds {
		if !r.hasAnswer() {
			continue
		}
		for l, o := range r.asked {
			p := v.providers[l]
			if o != waiting {
				continue
			}
			if now.Sub(r.at) >= p.patience() {
				r.asked[l] = missing
				p.heard, p.missed = 0, p.missed+1
			}
			v.again = v.again || !p.silent && p.missed > 0 // judged soon after its answer is late
		}
	}
	v.rounds = slices.DeleteFunc(v.rounds, func(r round) bool { return now.Sub(r.at) >= mostPatience })
	for _, p := range v.providers {
		if p.silent && p.heard >= roundsBack || !p.silent && p.missed >= roundsDead {
			p.silent, changed = !p.silent, true
		}
	}
	return changed
}

// answer takes an answer to one of the latest rounds, late or not, or to an earlier one: that is no answer of a
// round any more, and ends those without one all the same.
func (v *liveness) answer(now time.Time, seq uint16, k FlowKey, l roam.L64) {
	p := v.providers[l]
	if p == nil {
		return
	}
	p.missed = 0
	i := slices.IndexFunc(v.rounds, func(r round) bool { return r.seq == seq && r.flow == k })
	if i < 0 {
		return
	}
	r := v.rounds[i]
	if o, asked := r.asked[l]; !asked || o == answered {
		return
	}
	rtt := now.Sub(r.at)
	r.asked[l], p.rtt = answered, max(rtt, p.rtt-(p.rtt-rtt)/8)
	p.heard++
	v.again = v.again || p.silent
}

// begin begins a round: with the flow of the last one, or another one.
func (c *Core) begin(now time.Time, other bool) {
	v := &c.watch
	v.seq++
	v.candidates = 0
	v.candidate = c.flows[v.flow]
	if v.candidate == nil || other {
		v.candidate = c.nextFlow(now)
	}
	if v.candidate != nil {
		c.look(v.candidate)
	}
}

// considerProbes has the round go on with its flow if its inside node sends, and is there, and
// tries another flow if it does not send. A node with a link to another site, too, may be there
// and send by that one.
func (c *Core) considerProbes(now time.Time, f *flow) {
	v := &c.watch
	v.flow = f.FlowKey
	switch {
	case len(c.upFor(f)) < 2:
		v.candidate = nil
	case now.Sub(f.Sent) > active:
		if v.candidates++; v.candidates >= mostCandidates {
			v.candidate = nil
		} else if v.candidate = c.nextFlow(now); v.candidate != nil {
			c.look(v.candidate)
		}
	case c.isPresent(now, f):
		v.candidate = nil
		c.ask(now, f)
	default:
		c.askInside(now, f)
	}
}

// ask sends a probe from each site locator of a flow. Every second round goes in UDP, as a
// provider may drop destination options or ICMPv6.
func (c *Core) ask(now time.Time, f *flow) {
	v := &c.watch
	r := round{seq: v.seq, flow: f.FlowKey, at: now, asked: make(map[roam.L64]outcome)}
	dst := roam.ILV{L64: f.Remote, NID: f.Outside}
	for _, l := range c.upFor(f) {
		link, _ := c.table.Link(l)
		b, err := ilnp.BuildEcho(roam.ILV{L64: l, NID: f.Inside}, dst, f.Outward, true, c.probe.ID, v.seq, c.probe.data())
		if err == nil && c.port != 0 && v.seq%2 != 0 {
			b, err = ilnp.Encapsulate(b, c.port)
		}
		if err != nil {
			continue
		}
		if r.asked[l] = waiting; v.providers[l] == nil {
			v.providers[l] = &provider{}
		}
		c.out = append(c.out, Transmit{link, b})
	}
	v.rounds = append(v.rounds, r)
}

// upFor lists the site locators of a flow whose links are up, those of silent providers too.
func (c *Core) upFor(f *flow) (list []roam.L64) {
	e, _ := c.policy.Entry(f.Internal)
	for _, g := range c.policy.Group(e.Rewrite) {
		if slices.ContainsFunc(c.states, func(s Site) bool { return s.L64 == g.L64 && s.Up }) {
			list = append(list, g.L64)
		}
	}
	return list
}

// nextFlow returns the next flow in order whose inside node has sent lately; nil: there is none, or the search
// goes on with the next call.
func (c *Core) nextFlow(now time.Time) *flow {
	for range min(len(c.order), mostLooked) {
		f := c.order[c.watch.next%len(c.order)]
		c.watch.next = (f.place + 1) % len(c.order)
		if now.Sub(f.Sent) <= lately {
			return f
		}
	}
	return nil
}

// outsideAnswered takes an answer to an echo request from outside: one to the border's own is taken,
// another one passes to the inside.
func (c *Core) outsideAnswered(now time.Time, p Packet, m ilnp.Packet) {
	f := c.flows[FlowKey{m.Dst.NID, m.Src.NID}]
	e, err := ilnp.ParseEcho(m.Payload)
	switch {
	case err != nil:
		c.refuse(p, Malformed)
	case e.ID != c.probe.ID || !bytes.HasPrefix(e.Data, c.probe.Token[:]):
		c.pass(p, m, f)
	case f == nil || f.Inward != m.Nonce:
		c.refuse(p, WrongNonce)
		if f != nil {
			doubt(c, now, f)
		}
	default:
		c.watch.answer(now, e.Seq, f.FlowKey, m.Dst.L64)
	}
}

// pass delivers a packet from outside as it is, but for its destination.
func (c *Core) pass(p Packet, m ilnp.Packet, f *flow) {
	to, known := c.table.Behind[m.Dst.L64]
	link := Routed
	if f != nil {
		to, link = f.Internal, c.linkTo(f)
	}
	b, err := Rewrite(p.Bytes, Destination, to, RuleIPv6)
	if !known || err != nil || m.OverNIDs || m.Encapsulated {
		c.refuse(p, Malformed)
		return
	}
	c.out = append(c.out, Transmit{link, b})
}
