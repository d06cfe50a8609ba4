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
	ID    uint16
	Token [8]byte
}

// data is that of a probe.
func (p Probe) data() []byte { return append(p.Token[:], make([]byte, probeLen-len(p.Token))...) }

// liveness judges each provider by echo requests in the name of an inside node with a session, while
// that node sends packets: in each round its outside node is asked from every site locator whose
// link is up. A provider by which it answers nothing, while it answers by another one, is silent.
// Where it answers by none, the node may be gone, and nothing is judged.
type liveness struct {
	due           time.Time // zero: nobody is asked
	seq           uint16
	flow          FlowKey           // asked last
	next          int               // in order: where the search for another one goes on
	candidate     *flow             // to be asked once its inside node is known to be there
	candidates    int               // that this round has had
	asked         map[roam.L64]bool // in this round; true: answered
	missed, heard map[roam.L64]int  // rounds in a row
	silent        map[roam.L64]bool
}

// Watch has the core judge providers from now on.
func (c *Core) Watch(now time.Time) {
	c.watch = liveness{due: now, asked: make(map[roam.L64]bool), missed: make(map[roam.L64]int),
		heard: make(map[roam.L64]int), silent: make(map[roam.L64]bool)}
}

// IsSilent reports whether a provider whose link is up passes nothing.
func (c *Core) IsSilent(l roam.L64) bool { return c.watch.silent[l] }

// check judges the last round, and begins another one.
func (c *Core) check(now time.Time) {
	v := &c.watch
	if v.due.IsZero() || v.due.After(now) {
		return
	}
	changed, other, again := v.judge()
	if changed {
		c.table = c.newTable()
		c.out = append(c.out, Install{})
		c.announceAll(now)
	}
	if c.begin(now, other); again {
		v.due = now.Add(checkAgain)
	} else {
		v.due = now.Add(checkEvery)
	}
}

// judge counts what the last round has shown. other: ask another flow. again: ask soon.
func (v *liveness) judge() (changed, other, again bool) {
	answered := false
	for _, ok := range v.asked {
		answered = answered || ok
	}
	if !answered {
		return false, true, false
	}
	for l, ok := range v.asked {
		if !ok {
			v.heard[l], v.missed[l] = 0, v.missed[l]+1
		} else {
			v.missed[l], v.heard[l] = 0, v.heard[l]+1
		}
		switch {
		case v.silent[l] && v.heard[l] >= roundsBack:
			delete(v.silent, l)
			changed = true
		case !v.silent[l] && v.missed[l] >= roundsDead:
			v.silent[l], changed = true, true
		case v.silent[l] == ok: // it may have changed
			other, again = true, true
		}
	}
	return changed, other, again
}

// begin begins a round: with the flow of the last one, or another one.
func (c *Core) begin(now time.Time, other bool) {
	v := &c.watch
	clear(v.asked)
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
		c.ask(f)
	default:
		c.askInside(now, f)
	}
}

// ask sends a probe from each site locator of a flow. Every second round goes in UDP, as a
// provider may drop destination options or ICMPv6.
func (c *Core) ask(f *flow) {
	v := &c.watch
	dst := roam.ILV{L64: f.Remote, NID: f.Outside}
	for _, l := range c.upFor(f) {
		link, _ := c.table.Link(l)
		b, err := ilnp.BuildEcho(roam.ILV{L64: l, NID: f.Inside}, dst, f.Outward, true, c.probe.ID, v.seq, c.probe.data())
		if err == nil && c.port != 0 && v.seq%2 != 0 {
			b, err = ilnp.Encapsulate(b, c.port)
		}
		if err == nil {
			v.asked[l] = false
			c.out = append(c.out, Transmit{link, b})
		}
	}
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

// answered takes an answer to an echo request from outside: one to the border's own is taken,
// another one passes to the inside.
func (c *Core) answered(p Packet, m ilnp.Packet) {
	v := &c.watch
	f := c.flows[FlowKey{m.Dst.NID, m.Src.NID}]
	e, err := ilnp.ParseEcho(m.Payload)
	switch {
	case err != nil:
		c.refuse(p, Malformed)
	case e.ID != c.probe.ID || !bytes.HasPrefix(e.Data, c.probe.Token[:]):
		c.pass(p, m, f)
	case f == nil || f.Inward != m.Nonce:
		c.refuse(p, WrongNonce)
	case e.Seq == v.seq && f.FlowKey == v.flow:
		if _, asked := v.asked[m.Dst.L64]; asked {
			v.asked[m.Dst.L64] = true
		}
	default: // late, and proof that the provider works
		v.missed[m.Dst.L64] = 0
	}
}

// pass delivers a packet from outside as it is, but for its destination.
func (c *Core) pass(p Packet, m ilnp.Packet, f *flow) {
	to, known := c.table.Behind[m.Dst.L64]
	link := roam.LinkID(0)
	if f != nil {
		to, link = f.Internal, f.Link
	}
	b, err := Rewrite(p.Bytes, Destination, to, RuleIPv6)
	if !known || err != nil || m.OverNIDs || m.Encapsulated {
		c.refuse(p, Malformed)
		return
	}
	c.out = append(c.out, Transmit{link, b})
}
