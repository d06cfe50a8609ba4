package ilnphost

import (
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// maxFaults is the number of faults that are listed; later ones usually follow from these.
const maxFaults = 50

func (k *Soak) fault(format string, args ...any) {
	if len(k.faults) < maxFaults {
		k.faults = append(k.faults, fmt.Sprintf("at %v: %s", k.Elapsed().Round(time.Millisecond), fmt.Sprintf(format, args...)))
	}
}

// judge checks that each talk works if a path between its ends exists and neither end had
// trouble for a while. A talk that is stuck looks up its other end in the directory.
func (k *Soak) judge() {
	for _, t := range k.talks {
		k.judgeTalk(t)
	}
	if !k.ended || len(k.talks) > 0 {
		k.After(judgeEvery, k.judge)
	}
}

func (k *Soak) judgeTalk(t *talk) {
	trouble := t.troubled()
	if t.works().After(trouble) {
		t.mended = trouble
		t.told = t.told && k.Now().Sub(t.works()) > t.patience
	}
	if k.Now().Sub(t.asked) >= lookEvery && (t.lostBy(t.from, t.to) || t.lostBy(t.to, t.from)) {
		t.asked = k.Now()
		k.look(t.from, t.to)
		k.look(t.to, t.from)
	}
	if !t.from.canBeReached() || !t.to.canBeReached() {
		t.parted = k.Now()
		return
	}
	if t.mended != trouble {
		k.hour.Worst = max(k.hour.Worst, k.Now().Sub(trouble))
	}
	if !t.told && k.Now().Sub(trouble) > max(mendWithin, t.patience) && k.Now().Sub(t.works()) > t.patience {
		t.told = true
		k.fault("%s to %s: nothing comes since %v, trouble ended at %v (%s; %s)", t.from.name, t.to.name,
			t.works().Sub(sim.Start), trouble.Sub(sim.Start), t.from.stateTowards(t.to), t.to.stateTowards(t.from))
	}
}

// works returns when the talk last worked.
func (t *talk) works() time.Time {
	if t.flow.Echo {
		return t.flow.Back
	}
	return t.flow.Came
}

// delivered notes the last arrival of a talk that an earlier reading of counts than the next one shows.
func (k *Soak) delivered(_ *Node, _ ilnp.SessionKey, d Datagram) {
	reading := func(at time.Time) time.Duration { return at.Sub(sim.Start) / soakCounts }
	if d.answer || reading(k.Now()) == reading(d.flow.Came) {
		return
	}
	for _, t := range k.talks {
		if t.flow == d.flow {
			t.counted = d.flow.Came
		}
	}
}

// lostBy reports whether h considers o dead, or does not know it. What the sender's application sends goes by
// the session with the NID; another one, which its other end has begun at a locator that no record has, does not
// serve it.
func (t *talk) lostBy(h, o *soaker) bool {
	e := h.towards(o)
	if h == t.from {
		e = h.plane.named(ilnp.SessionKey{Local: h.nid, Remote: o.nid})
	}
	return e != nil && (e.Dead || e.State != ilnp.Established) || e == nil && h == t.from
}

// canBeReached reports whether the host has a working network that is enabled. One that passes
// packets one way only is none.
func (h *soaker) canBeReached() bool {
	return slices.ContainsFunc(h.attachments, func(at *attachment) bool {
		return at.carrier && !at.halved && at.told && !h.off[at.link] && !h.isBehind(at)
	})
}

// isBehind reports whether packets to the locator of an attachment go to another one that passes packets one way only:
// two links of a host may be in one network, and its router sends all to the lower one.
func (h *soaker) isBehind(at *attachment) bool {
	return slices.ContainsFunc(h.attachments, func(o *attachment) bool {
		return o.l64 == at.l64 && o.link < at.link && o.carrier && o.halved
	})
}

// towards returns the entry of the session with another host. If that is in a network that no
// record lists, the session's alias is not its NID.
func (h *soaker) towards(o *soaker) *entry {
	best := h.plane.named(ilnp.SessionKey{Local: h.nid, Remote: o.nid})
	for _, e := range h.plane.sorted() {
		if e.RemoteNID == o.nid && (best == nil || e.lastRx().After(best.lastRx())) {
			best = e
		}
	}
	return best
}

// stateTowards describes one end of a session.
func (h *soaker) stateTowards(o *soaker) string {
	text := h.name + " is at"
	for _, at := range h.attachments {
		text += fmt.Sprintf(" %d:%v", at.link, at.l64)
		if !at.carrier {
			text += " cut"
		}
		if at.halved {
			text += " halved"
		}
		if h.off[at.link] {
			text += " disabled"
		}
	}
	e := h.towards(o)
	if e == nil {
		return text + ", has no session"
	}
	return text + fmt.Sprintf(", %v %v dead=%t paths %v accepts %v", h.core.Mode(), e.State, e.Dead, e.Paths, e.Accept)
}

// maxRemade is how often two ends may replace their session within mendWithin. Replacement
// itself loses nothing, since applications keep their addresses, and judgeTalk checks that
// data arrive; but it must end.
const maxRemade = 5

// replaced counts the replacement of a session, and judges its rate. A host with keys that sends
// and receives nothing begins anew with each of its attempts, until its peer can be heard.
func (k *Soak) replaced(h *soaker, remote roam.NID) {
	if o := k.named(remote); k.cfg.Keyed && (!h.canBeReached() || o != nil && !o.canBeReached()) {
		return
	}
	recent := slices.DeleteFunc(h.remade[remote], func(at time.Time) bool { return k.Now().Sub(at) > mendWithin })
	h.remade[remote] = append(recent, k.Now())
	if n := len(h.remade[remote]); n > maxRemade {
		k.fault("%s made its session with %v anew %d times within %v", h.name, remote, n, mendWithin)
	}
}

// named returns the host with a Node Identifier; nil: it is an alias of a session.
func (k *Soak) named(nid roam.NID) *soaker {
	if i := nid - k.hosts[0].nid; i < roam.NID(len(k.hosts)) {
		return k.hosts[i]
	}
	return nil
}

// idled judges the end of a session for lack of packets, with a margin of 1 s for packets in
// flight. A core reads when the last packet came. If that was a control packet, the reading shows
// no datagram, and at a host that sends nothing those of the reading before count. If the other end
// returned and was treated as a second node with its NID, the talk continues in the other session
// of the two. A session with keys ends, too, if its set-up had no answer, or none that shows that
// the peer has the key; that is a fault only where a path has been there for longer than the set-up
// takes.
func (k *Soak) idled(h *soaker, remote roam.NID, why string) {
	for _, e := range h.plane.entries {
		if e.RemoteNID == remote {
			return
		}
	}
	for _, t := range k.talks {
		here := t.from == h && t.to.nid == remote || t.to == h && t.from.nid == remote
		if k.cfg.Keyed && (!t.from.canBeReached() || !t.to.canBeReached() || k.Now().Sub(t.troubled()) < setUpWithin) {
			continue
		}
		counts := t.works()
		if h == t.to && !t.flow.Echo {
			counts = t.counted
		}
		if here && k.Now().Sub(counts) < ilnpIdle-time.Second {
			k.fault("%s ended its session with %v (%s); it last worked %v ago", h.name, remote, why, k.Now().Sub(t.works()))
		}
	}
}

// setUpWithin is how long a set-up with keys may take to find a path.
const setUpWithin = 30 * time.Second

// troubled returns when either end of a talk last had trouble.
func (t *talk) troubled() time.Time {
	return later(later(t.from.changed, t.to.changed), later(t.begun, t.parted))
}

// ilnpIdle is the default lifetime of a session without packets.
const ilnpIdle = 10 * time.Minute

// compare checks, after a period without trouble, that both ends of every talk agree.
func (k *Soak) compare() {
	for _, t := range k.talks {
		if t.begun.After(k.Now().Add(-soakCalm)) {
			continue
		}
		if k.Now().Sub(t.works()) > t.patience {
			k.fault("%s to %s: nothing comes in calm, since %v", t.from.name, t.to.name, t.works().Sub(sim.Start))
		}
		for _, ends := range [][2]*soaker{{t.from, t.to}, {t.to, t.from}} {
			e := ends[0].towards(ends[1])
			switch {
			case e == nil:
				k.fault("%s: no session with %s in calm", ends[0].name, ends[1].name)
			case e.State != ilnp.Established:
				k.fault("%s: session with %s is %v in calm", ends[0].name, ends[1].name, e.State)
			case k.unproved(ends[0], ends[1]):
				k.fault("%s: the session with %s is without a proof in calm", ends[0].name, ends[1].name)
			default:
				for _, f := range ends[0].compare(ends[1].Node, e) {
					k.fault("in calm, %s", f)
				}
			}
		}
	}
}

// baseline checks that all state is gone after a period without packets.
func (k *Soak) baseline() {
	for _, h := range k.hosts {
		load := h.core.Stats()
		known := load.Known
		load.Known, load.Links = 0, 0
		entries := 0
		for _, e := range h.plane.entries {
			if !e.waits() {
				entries++
			}
		}
		if load != (ilnp.Stats{}) || entries+len(h.plane.held) > 0 {
			k.fault("%s: not back at nothing: %+v, %d entries, %d with held packets", h.name, load, entries, len(h.plane.held))
		}
		if names := h.core.Stats().Links; names > len(h.attachments)+len(h.off) {
			k.fault("%s: remembers the names of %d links and has %d", h.name, names, len(h.attachments))
		}
		if known > len(k.hosts) {
			k.fault("%s: knows %d correspondents of %d", h.name, known, len(k.hosts))
		}
		for _, p := range h.core.Peers(k.Now()) {
			h.core.RemovePeer(k.Now(), p.NID)
		}
		h.Settle()
		if len(h.plane.entries) > 0 {
			k.fault("%s: %d entries for correspondents that were removed", h.name, len(h.plane.entries))
		}
		if h.core.Stats().Known != 0 {
			k.fault("%s: still knows %d correspondents that were removed", h.name, h.core.Stats().Known)
		}
	}
}

// later returns the later of two points in time.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
