package ilnp

import (
	"slices"
	"time"

	"roam"
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

	sizing bool // it asks for the size that the path takes, and for nothing else

	overNIDs bool // its checksum is
	noUDP    bool // its answer says that nobody listens at the UDP port
}

// tokens are the probes that one machine has under way, the oldest first.
type tokens []token

// prober is what sends probes: a session or a pending peer.
type prober interface {
	machine
	// mayProbe reports whether a probe of so many bytes may go to a locator now.
	mayProbe(c *Core, now time.Time, l roam.L64, bytes int) bool
	// probesOverNIDs reports whether the next probe to a locator is summed over NIDs.
	probesOverNIDs(c *Core, now time.Time, l roam.L64) bool
	// nids returns the ends of its probes.
	nids() SessionKey
}

func (s *session) nids() SessionKey { return SessionKey{s.localNID, s.remoteNID} }

func (s *session) probesOverNIDs(c *Core, now time.Time, l roam.L64) bool {
	return c.isSummedOverNIDs(now, s.profile, s.sent, l)
}

func (s *session) mayProbe(c *Core, now time.Time, l roam.L64, bytes int) bool {
	return c.accounts.mayReach(now, s, l, c.listedAt(s, l), bytes, true)
}

// sendProbe sends an echo request with our nonce for this correspondent.
func (c *Core) sendProbe(now time.Time, m prober, sent *tokens, nids SessionKey, nonce Nonce, pr probe) {
	var t token
	if c.obstructed.has(nids.Remote, pr.path) || !c.draw(now, t[:]) {
		return
	}
	c.probeSeq++
	if s, ok := m.(*session); ok {
		pr.flow = s.perFlow.On && pr.form <= FormUDP
	}
	pr.overNIDs = pr.form == FormOption && m.probesOverNIDs(c, now, pr.path.Remote)
	src, dst := roam.ILV{NID: nids.Local, L64: pr.path.Local.L64}, roam.ILV{NID: nids.Remote, L64: pr.path.Remote}
	b, err := c.buildProbe(src, dst, nonce, t, pr)
	if err != nil || !m.mayProbe(c, now, pr.path.Remote, len(b)) {
		return
	}
	pr.from, pr.sent = m, now
	c.probes[t] = pr
	*sent = append(*sent, t)
	c.emit(Transmit{Link: pr.path.Local.Link, Packet: b, Whole: pr.form == FormFull})
}

// forgetProbes drops the probes that were sent before a point in time, and
// those that were answered.
func (c *Core) forgetProbes(sent *tokens, before time.Time) {
	*sent = slices.DeleteFunc(*sent, func(t token) bool {
		p, ok := c.probes[t]
		if ok && !p.sent.After(before) {
			delete(c.probes, t)
			ok = false
		}
		return !ok
	})
}
