package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// token is what an echo request carries and only its receiver can repeat.
type token [16]byte

// probe is one echo request under way.
type probe struct {
	from prober
	path Path
	sent time.Time
	form ProbeForm
	size int  // of FormFull
	told bool // its answer is told: somebody asked
	flow bool // it wants TCP spread by connection
	moot bool // that it stays without an answer says nothing
	lone bool // it asks whether one path lives, and is no part of a round

	sizing bool // it asks for the size that the path takes, and for nothing else

	report  bool  // it asks for a report,
	sealed  bool  // with a MAC,
	counts  bool  // and that data be counted along the path
	cost    uint8 // what that costs by its measured rate
	answers bool  // and flows that this host marks answered on their paths
	cross   ilnpwire.Connections
	counted bool       // this host counts the data:
	left    PathCounts // what it had when the probe left

	about Path // whose counts it asks for, in place of those of its own path; zero: none

	train  *pathTrain // it is one of the two of a train,
	behind bool       // the last one

	overNIDs bool // its checksum is
	noUDP    bool // its answer says that nobody listens at the UDP port
}

// tokens are the probes that one machine has under way, the oldest first.
type tokens []token

// prober is what sends probes: a session or a pending peer.
type prober interface {
	machine
	// nids returns the ends of its probes.
	nids() SessionKey
}

func (s *session) nids() SessionKey { return SessionKey{s.localNID, s.remoteNID} }

// probes are those under way, of all sessions and pending peers, by their tokens.
type probes map[token]*probe

// forget drops the probes of a machine that were sent before a point in time, and
// those that were answered.
func (ps probes) forget(sent *tokens, before time.Time) {
	*sent = slices.DeleteFunc(*sent, func(t token) bool {
		p, ok := ps[t]
		if ok && !p.sent.After(before) {
			delete(ps, t)
			ok = false
		}
		return !ok
	})
}

// answeredBy returns the probe that an answer with this token is of, if it came between
// these nodes, and from where the probe went.
func (ps probes) answeredBy(t token, nids SessionKey, from roam.L64) (probe, bool) {
	pr, ok := ps.to(t, nids)
	return pr, ok && pr.path.Remote == from
}

// to returns the probe with this token between these nodes.
func (ps probes) to(t token, nids SessionKey) (probe, bool) {
	if pr := ps[t]; pr != nil && pr.from.nids() == nids {
		return *pr, true
	}
	return probe{}, false
}

// askAt reports whether one of a machine's probes is under way to a locator.
func (ps probes) askAt(sent tokens, l roam.L64) bool {
	return slices.ContainsFunc(sent, func(t token) bool {
		p, ok := ps[t]
		return ok && p.path.Remote == l
	})
}

// askAlong reports whether one of a machine's probes is under way along a path.
func (ps probes) askAlong(sent tokens, along Path) bool {
	return slices.ContainsFunc(sent, func(t token) bool {
		p, ok := ps[t]
		return ok && p.path == along
	})
}

// last returns the last probe of a machine that went to a locator before now in the form
// of the RFCs, and whose silence says something.
func (ps probes) last(now time.Time, sent tokens, l roam.L64) (probe, bool) {
	for _, t := range slices.Backward(sent) {
		pr, ok := ps[t]
		if ok && pr.form == FormOption && !pr.moot && pr.path.Remote == l && pr.sent.Before(now) {
			return *pr, true
		}
	}
	return probe{}, false
}

// drop takes the probes in the form of the RFCs that a path has not answered for moot.
// Their answers may yet be under way, and are as good as any.
func (ps probes) drop(sent tokens, p Path, before time.Time) {
	for _, t := range sent {
		if pr, ok := ps[t]; ok && pr.form == FormOption && pr.path == p && pr.sent.Before(before) {
			pr.moot = true
		}
	}
}

// isSummedOverNIDs reports whether the next probe to a locator is summed over NIDs:
// as long as the rule is not known, if the last one was not and has no answer.
func (ps probes) isSummedOverNIDs(now time.Time, f profile, sent tokens, l roam.L64) bool {
	if f.icmp != icmpSought || f.asks {
		return f.overNIDs(1)
	}
	pr, ok := ps.last(now, sent, l)
	return ok && !pr.overNIDs
}

// sender sends probes and control messages, in the forms that get through.
type sender struct {
	pathChoice
	probes   probes
	probeSeq uint16
}

func (c *sender) init(cfg Config) {
	c.pathChoice.init(cfg)
	c.probes = make(probes)
}

// question is whom a probe is from, and how it is to be spoken with.
type question struct {
	from    prober
	sent    *tokens
	nonce   Nonce
	profile profile
	may     func(l roam.L64, bytes int) bool // whether so much may go to a locator now
}

// ask returns what a session's probes have in common.
func (c *sender) ask(now time.Time, s *session) question {
	return question{s, &s.sent, s.localNonce, s.profile, func(l roam.L64, bytes int) bool { return c.accounts.mayReach(now, s, l, c.listedAt(s, l), bytes, true) }}
}

// sendProbe sends an echo request with our nonce for this correspondent.
func (c *sender) sendProbe(now time.Time, q question, pr probe) {
	if b, ok := c.makeProbe(now, q, pr); ok {
		t := (*q.sent)[len(*q.sent)-1]
		c.emit(Transmit{Link: pr.path.Local.Link, Packet: b, Whole: pr.form == FormFull, Probe: t})
	}
}

// HandleSent takes when a probe has left. Its round trip counts from then: a packet that came in may
// have waited for the caller, whose answer to it left as late.
func (c *sender) HandleSent(now time.Time, t token) {
	if pr, ok := c.probes[t]; ok && now.After(pr.sent) {
		pr.sent = now
	}
}

// makeProbe returns an echo request that is about to be sent.
func (c *sender) makeProbe(now time.Time, q question, pr probe) ([]byte, bool) {
	var t token
	nids := q.from.nids()
	if c.obstructed.has(nids.Remote, pr.path) || !c.draw(now, t[:]) {
		return nil, false
	}
	c.probeSeq++
	pr.flow = q.profile.perFlow.On && pr.form <= FormUDP
	pr.overNIDs = pr.form == FormOption && c.probes.isSummedOverNIDs(now, q.profile, *q.sent, pr.path.Remote)
	pr.from, pr.sent = q.from, now
	c.askReport(&pr)
	src, dst := roam.ILV{NID: nids.Local, L64: pr.path.Local.L64}, roam.ILV{NID: nids.Remote, L64: pr.path.Remote}
	b, err := c.buildProbe(src, dst, q.nonce, t, pr)
	if err != nil || !q.may(pr.path.Remote, len(b)) {
		return nil, false
	}
	c.probes[t] = &pr
	*q.sent = append(*q.sent, t)
	return b, true
}
