package sbr

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// A node that has lost its state has another nonce, and its correspondent, which remembers the session, keeps its own
// (docs/design/lost-state.md). So the data plane never sees two new nonces, which would begin the flow anew. An
// acknowledgement shows both nonces that count: its sender has verified that of the update, and sends its own. As it
// names a body and no nonce, the body must be that of one update alone:
//   - Updates with another nonce than the flow's pass, see claim. An acknowledgement with the nonce that the flow has
//     of their receiver has the flow take theirs over.
//   - The border's own updates have lifetimes that only their readers know, see ownUpdate.

const (
	// settled is the time that an acknowledgement takes at most. An update with another nonce counts for as long,
	// and only if none with the flow's own and the same body passed before it for as long: the acknowledgement could be
	// about that one.
	settled = 3 * time.Second
	// mostClaims bounds the updates that are remembered, one of a flow and direction.
	mostClaims = 256
	// doubtEvery is the least time between two announcements of a flow because of another nonce.
	doubtEvery = 10 * time.Second
	// mostGuesses bounds the acknowledgements of nothing, after which another nonce in one proves nothing until the
	// border announces anew.
	mostGuesses = 16
)

// renewal is what the border keeps of a flow of which a node may have another nonce.
type renewal struct {
	passed  [2]recent // updates with the flow's nonce, by directionOf
	rates   [2]rate   // of those with others
	other   ilnp.Nonce
	doubted ilnp.Nonce // the last other one because of which the flow was announced
	at      time.Time  // then
	trial   trial
	guesses int // acknowledgements of nothing since the border began to announce
}

// renews returns that of a flow.
func (f *flow) renews() *renewal {
	if f.renewal == nil {
		f.renewal = new(renewal)
	}
	return f.renewal
}

// directionOf is the index of the direction of packets from inside, or from outside.
func directionOf(inside bool) int {
	if inside {
		return 1
	}
	return 0
}

// sameBody reports whether an acknowledgement of one update would be one of the other.
func sameBody(a, b ilnp.LocatorUpdate) bool {
	return a.Code == b.Code && slices.Equal(a.Locators, b.Locators)
}

// recent is the bodies that passed lately: an acknowledgement may be about one.
type recent struct {
	list []passed  // the latest last, at most kept
	full time.Time // until when it may be about one that is not listed any more
}

type passed struct {
	body ilnp.LocatorUpdate
	at   time.Time
}

func (r *recent) add(now time.Time, u ilnp.LocatorUpdate) {
	r.list = slices.DeleteFunc(r.list, func(p passed) bool { return now.Sub(p.at) > settled || sameBody(p.body, u) })
	if len(r.list) >= kept {
		r.full = r.list[0].at.Add(settled)
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, passed{u, now})
}

func (r *recent) has(now time.Time, u ilnp.LocatorUpdate) bool {
	return !now.After(r.full) || slices.ContainsFunc(r.list, func(p passed) bool {
		return now.Sub(p.at) <= settled && sameBody(p.body, u)
	})
}

// claim is an update with another nonce than that of its flow.
type claim struct {
	exchange
	flow   FlowKey
	inside bool // it came from inside
	nonce  ilnp.Nonce
	at     time.Time
}

// claims are the latest of all flows, the last one at the end.
type claims []claim

// add remembers an update with another nonce, in place of the one before of the same flow and direction, or of the
// oldest of all. One whose acknowledgement could be about another update is not remembered.
func (l *claims) add(now time.Time, f *flow, inside bool, n ilnp.Nonce, e exchange) {
	l.remove(f, inside, func(claim) bool { return true })
	if f.renews().passed[directionOf(inside)].has(now, e.outside) {
		return
	}
	if len(*l) >= mostClaims {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, claim{e, f.FlowKey, inside, n, now})
}

func (l *claims) remove(f *flow, inside bool, which func(claim) bool) {
	*l = slices.DeleteFunc(*l, func(c claim) bool { return c.flow == f.FlowKey && c.inside == inside && which(c) })
}

// end notes that an update with the nonce of its flow passes, which ends what was claimed by the same body.
func (l *claims) end(now time.Time, f *flow, inside bool, u ilnp.LocatorUpdate) {
	f.renews().passed[directionOf(inside)].add(now, u)
	l.remove(f, inside, func(c claim) bool { return sameBody(c.outside, u) })
}

// distinct returns an update from inside with another nonce than its flow's as it leaves. Its lifetimes become a little
// less if an update with the flow's nonce had the same body: else its acknowledgement could be about that one. The
// border has the sender's own body in the acknowledgement.
func distinct(now time.Time, f *flow, u ilnp.LocatorUpdate) ilnp.LocatorUpdate {
	for range kept {
		if !f.renews().passed[directionOf(true)].has(now, u) {
			break
		}
		u.Locators = slices.Clone(u.Locators)
		for i, e := range u.Locators {
			u.Locators[i].Lifetime = max(e.Lifetime, 1) - 1
		}
	}
	return u
}

// accepted has a flow take over the nonce of an update that an acknowledgement with the receiver's nonce is about.
// inside: that update came from inside. false: there is none.
func (c *Core) accepted(now time.Time, f *flow, inside bool, u ilnp.LocatorUpdate) (about exchange, ok bool) {
	i := slices.IndexFunc(c.claims, func(l claim) bool {
		return l.flow == f.FlowKey && l.inside == inside && now.Sub(l.at) <= settled && l.is(u)
	})
	if i < 0 {
		return about, false
	}
	l := c.claims[i]
	if inside {
		renew(c, f, f.Inward, l.nonce)
		f.listed = c.policy.internalOf(l.original.Locators) // its outside node knows these
		c.knows(f, u)
	} else {
		renew(c, f, l.nonce, f.Outward)
		f.remotes = remotesOf(u)
	}
	if !f.confirmed {
		c.queue(now, f)
	}
	return l.exchange, true
}

// renew gives a flow the nonces that count. What was announced to or by the earlier session is forgotten.
func renew(c *Core, f *flow, inward, outward ilnp.Nonce) {
	for _, inside := range []bool{false, true} {
		c.claims.remove(f, inside, func(claim) bool { return true })
	}
	f.Inward, f.Outward = inward, outward
	f.announced, f.confirmed, f.sent, f.remotes, f.listed, f.Sealed = nil, false, nil, nil, nil, false
	if r := f.renewal; r != nil {
		f.renewal = &renewal{rates: r.rates, at: r.at}
	}
	c.out = append(c.out, Renewed{f.FlowKey, f.Inward, f.Outward})
}

// remotesOf returns the locators that an update from outside lists first.
func remotesOf(u ilnp.LocatorUpdate) []roam.L64 {
	return locatorsOf(u.Locators[:min(len(u.Locators), MaxGroup)])
}

// trial is an update of the border's own with another nonce than its flow's.
type trial struct {
	nonce ilnp.Nonce
	body  ilnp.LocatorUpdate
}

// isTried reports whether an acknowledgement is about such an update.
func (r *renewal) isTried(u ilnp.LocatorUpdate) bool {
	return r != nil && r.trial.nonce.Present() && sameBody(r.trial.body, u)
}

// ownUpdate is the border's own update of a flow, with a nonce. Each flow and nonce have lifetimes of their own, which
// nobody knows who has not read the update. So an acknowledgement of these proves that its sender is where the update
// went, and that the inside node has that nonce for it.
func ownUpdate(c *Core, f *flow, n ilnp.Nonce) ilnp.LocatorUpdate {
	list, times := c.entries(f), lifetimes(c.probe.Secret, f.FlowKey, n)
	for i := range list {
		list[i].Lifetime = times[i%len(times)]
	}
	return ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: list}
}

// hasOwnLifetimes reports whether an update has the lifetimes of the border's own with the nonce of the flow.
func hasOwnLifetimes(c *Core, f *flow, u ilnp.LocatorUpdate) bool {
	times := lifetimes(c.probe.Secret, f.FlowKey, f.Outward)
	return len(u.Locators) > 0 && u.Locators[0].Lifetime == times[0]
}

// lifetimes are those of locators in the border's own updates of a flow with a nonce, in seconds.
func lifetimes(secret [16]byte, k FlowKey, n ilnp.Nonce) (list [MaxEntries]uint32) {
	b := slices.Concat(secret[:], n.Bytes[:n.Len])
	b = binary.BigEndian.AppendUint64(b, uint64(k.Inside))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(k.Outside)))
	for i := range list {
		list[i] = siteLifetime + uint32(binary.BigEndian.Uint16(sum[2*i:]))%(mostLifetime-siteLifetime+1)
	}
	return list
}

// mostLifetime is the greatest one of locators in the border's own updates, in seconds.
const mostLifetime = 65_000

// shown takes the nonces that an acknowledgement of the border's own update shows, one of which is the flow's: its own
// of the outside node, and that of the update of the inside node. why: it is refused, if it is not Refusals.
func shown(c *Core, now time.Time, f *flow, inward, outward ilnp.Nonce, u ilnp.LocatorUpdate) (why Refusal) {
	if inward != f.Inward && f.renews().guesses >= mostGuesses {
		return WrongNonce
	}
	listed := f.listed // these have been announced with it
	renew(c, f, inward, outward)
	f.listed = listed
	c.learns(now, f, u)
	return Refusals
}

// HandleOther takes a nonce that a packet from the inside node of a flow had. If it is not the flow's, the node may
// have lost its state. Where the outside node does not acknowledge an update with the flow's nonce, the border sends
// one with this.
func (c *Core) HandleOther(now time.Time, k FlowKey, n ilnp.Nonce) {
	f := c.flows[k]
	if f == nil || f.renewal == nil && !n.Present() {
		return
	}
	r := f.renews()
	if n == f.Outward {
		n = ilnp.Nonce{}
	}
	if r.other = n; n.Present() && n != r.doubted && doubt(c, now, f) {
		r.doubted = n
	}
}

// doubt has a flow announced anew, since one of its nodes may have another nonce: the acknowledgement shows that.
// false: this is not the time.
func doubt(c *Core, now time.Time, f *flow) bool {
	r := f.renews()
	if f.Sealed || !f.confirmed && f.tries <= retries || now.Sub(r.at) < doubtEvery {
		return false
	}
	r.at = now
	f.confirmed, f.stale = false, true
	c.queue(now, f)
	return true
}

// Updates and acknowledgements with other nonces than their flows' reach the daemons of hosts, which verify them. They
// have rates, so that forged ones cost a host little: a node that begins anew sends few.
const (
	othersEach  = 250 * time.Millisecond // of one flow and direction,
	othersBurst = 8                      // and so many at once
	allEach     = 5 * time.Millisecond   // of all flows in a direction,
	allBurst    = 64
)

// rate is that of messages which pass, as the time when the next may pass without being ahead.
type rate struct{ next time.Time }

func (r *rate) take(now time.Time, each time.Duration, burst int) bool {
	if r.next.Before(now) {
		r.next = now
	}
	if r.next.Sub(now) > time.Duration(burst-1)*each {
		return false
	}
	r.next = r.next.Add(each)
	return true
}

// others is the rates of all flows together, by directionOf.
type others [2]rate

// pass takes one message of a flow with another nonce than the flow's; false: it is beyond the rates.
func (o *others) pass(now time.Time, f *flow, inside bool) bool {
	d := directionOf(inside)
	return f.renews().rates[d].take(now, othersEach, othersBurst) && o[d].take(now, allEach, allBurst)
}
