package sbr

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"roam"
	"roam/sched"
	"roam/wire/ilnp"
)

// The times of the border's own Locator Updates.
const (
	firstRetry = 250 * time.Millisecond // doubled with each retransmission
	retries    = 7
	// pace is the time between two flows' first updates after a change, which bounds the
	// burst of a link with many flows to 10,000 updates a second.
	pace = 100 * time.Microsecond
	// pacePatient is the time between two repetitions to nodes that have acknowledged nothing yet, of which a site
	// may have as many as flows. A few that are due together go at once.
	pacePatient = 500 * time.Microsecond
	atOnce      = 64
	// mostDue bounds what one call of HandleTimeout does, so that everything else has its turn.
	mostDue = 256
)

type timer uint8

const (
	announce timer = iota // a flow's turn has come
	repeat                // a repetition is due
	lapse                 // a part of the lifetimes has passed that the border's own update announced
)

// flow is what the border knows of two nodes beyond the data plane.
type flow struct {
	FlowSeen
	sched.Schedule[*flow, timer]
	remotes   []roam.L64 // that the outside node listed last, in its order
	announced []roam.L64 // that it has acknowledged; as far as they are live, unless its updates have MACs
	confirmed bool       // it has acknowledged the latest update
	listed    []roam.L64 // internal locators in the update of the inside node that was acknowledged last
	stale     bool       // no update of the border's own has had the latest policy's preferences
	sent      []exchange // updates that are not acknowledged, the latest last
	tries     int        // of the border's own update
	tried     time.Time  // the latest of these
	renewal   *renewal   // nil: nothing suggests that a node has another nonce
	queued    bool       // its turn to be announced after a change is still to come
	waits     bool       // that update waits until the inside node is known to be there
	asks      int        // questions to the inside node about that, without an answer
	place     int        // in order
}

// exchange is a Locator Update from inside, and as it went outside. original is nil for
// updates of the border's own.
type exchange struct {
	original *ilnp.LocatorUpdate
	outside  ilnp.LocatorUpdate
	pieces   // of original, whose acknowledgement is as long
}

// kept bounds the exchanges of a flow.
const kept = 4

// Core decides for all flows of one border. It is not safe for concurrent use.
type Core struct {
	policy   Policy
	states   []Site
	table    Table
	indices  []roam.L64 // of site locators, as the data plane has them; 0: free
	coalesce time.Duration
	collects time.Time // until when changes are collected
	turn     time.Time // of the last flow whose locators are to be announced
	patient  time.Time // of the next repetition to a node that has acknowledged nothing
	port     uint16    // of control messages in UDP; 0: none
	maxFlows int
	fallback Fallback
	marked   bool // packets of no flow with the bit of the flow label are translated all the same
	flows    map[FlowKey]*flow
	order    []*flow // all of flows
	agenda   sched.Agenda[*flow, timer]
	watch    liveness

	probe     Probe
	own       map[roam.LinkID]roam.ILV // of the border, on links to the inside
	hosts     map[roam.ILV]*host
	mostHosts int    // before old ones are forgotten
	asked     uint16 // number of the latest question to an inside node

	claims     claims      // updates with other nonces than their flows'
	others     others      // how many of these pass
	incomplete incompletes // messages of which fragments are missing
	out        []Output
}

// New makes a core without policy. coalesce is how long changes of links are collected, port
// that of control messages in UDP, 0 for none. The core knows at most maxFlows flows; others
// keep to the preferred locator. probe names its echo requests.
func New(coalesce time.Duration, port uint16, maxFlows int, probe Probe) *Core {
	return &Core{
		coalesce: coalesce, port: port, maxFlows: maxFlows, flows: make(map[FlowKey]*flow),
		probe: probe, hosts: make(map[roam.ILV]*host), mostHosts: fewHosts,
		table: NewTable(Policy{}, nil), incomplete: make(incompletes),
	}
}

// Table returns what the data plane needs now.
func (c *Core) Table() Table { return c.table }

// Policy returns the policy in force.
func (c *Core) Policy() Policy { return c.policy }

// HandleIndices takes the site locators by their indices, as an earlier core left them in the data plane; 0: the index
// is free. What that core announced of those that the policy has stays.
func (c *Core) HandleIndices(list []roam.L64) { c.indices = list }

// HandlePolicy replaces the policy. The locators of flows are announced anew where they, or their preferences,
// are others.
func (c *Core) HandlePolicy(now time.Time, p Policy) {
	before := make(map[roam.L64][]ilnp.LocatorEntry)
	for l := range c.table.Inside {
		before[l] = c.siteEntries(l, siteLifetime)
	}
	was, site := c.indices, p.Site()
	c.policy, c.indices = p, indicesOf(was, site)
	c.table = c.newTable()
	c.out = append(c.out, Install{Renamed: renamed(was, c.indices)})
	for _, f := range c.flows {
		f.announced = slices.DeleteFunc(f.announced, func(l roam.L64) bool { return !slices.Contains(site, l) })
		if slices.ContainsFunc(f.internals(), func(l roam.L64) bool {
			return !slices.Equal(before[l], c.siteEntries(l, siteLifetime))
		}) {
			f.confirmed, f.stale = false, true
		}
	}
	c.announceAll(now)
}

// HandleSites takes the state of all links that site locators leave by.
func (c *Core) HandleSites(now time.Time, states []Site) {
	if slices.Equal(states, c.states) {
		return
	}
	c.states = slices.Clone(states)
	c.watch.forgetDown(states)
	c.table = c.newTable()
	c.out = append(c.out, Install{})
	c.announceAll(now)
}

// announceAll has every flow's locators announced, each a little later than the one before, those first whose
// outside nodes have acknowledged something. A change while others are collected does not put them off, nor a
// flow whose turn is still to come.
func (c *Core) announceAll(now time.Time) {
	if !now.Before(c.collects) {
		c.collects = now.Add(c.coalesce)
	}
	for _, acknowledged := range []bool{true, false} {
		for _, f := range c.order {
			if len(f.announced) > 0 == acknowledged {
				c.queue(now, f)
			}
		}
	}
}

// queue has a flow's locators announced when its turn comes.
func (c *Core) queue(now time.Time, f *flow) {
	f.tries, f.asks = 0, 0
	if f.queued {
		return
	}
	f.queued = true
	if c.turn = c.turn.Add(pace); c.turn.Before(c.collects) {
		c.turn = c.collects
	}
	c.arm(f, announce, now, c.turn.Sub(now))
}

func compareKeys(a, b FlowKey) int {
	return cmp.Or(cmp.Compare(a.Inside, b.Inside), cmp.Compare(a.Outside, b.Outside))
}

// HandleFlow takes a flow that both of its nodes have sent a nonce of. announced are the
// site locators that an earlier core had announced.
func (c *Core) HandleFlow(now time.Time, seen FlowSeen, announced []roam.L64) {
	f := c.flows[seen.FlowKey]
	switch {
	case f == nil && len(c.flows) >= c.maxFlows:
		return
	case f == nil:
		f = &flow{FlowSeen: seen, announced: announced, confirmed: len(announced) > 0}
		f.listed = c.policy.networks(seen.Internal, announced)
		f.Schedule.Machine, f.place = f, len(c.order)
		c.flows[seen.FlowKey], c.order = f, append(c.order, f)
	case f.Inward != seen.Inward || f.Outward != seen.Outward: // one of them has begun anew
		seen.Sealed = false
		f.FlowSeen, f.announced, f.confirmed, f.sent, f.remotes, f.listed = seen, nil, false, nil, nil, nil
		c.tellAnnounced(f)
		c.out = append(c.out, Sealed{f.FlowKey, false})
	default:
		if seen.Sent.Before(f.Sent) {
			seen.Sent = f.Sent
		}
		seen.Sealed = f.Sealed
		if c.moves(f, seen.Internal) {
			f.confirmed, f.stale, f.listed = false, true, nil
		}
		f.FlowSeen = seen
	}
	if !f.confirmed || !sameSet(f.announced, locatorsOf(c.entries(f))) {
		f.tries, f.asks = 0, 0
		c.announce(now, f)
	}
}

// AnnounceAnew has the locators of all flows announced that an earlier core had announced: their preferences may be
// others now. Until the outside nodes acknowledge that, what they know stays.
func (c *Core) AnnounceAnew(now time.Time) {
	for _, f := range c.order {
		if f.confirmed && !f.Sealed {
			f.confirmed, f.stale = false, true
			c.queue(now, f)
		}
	}
}

// Knows reports whether the core has a flow, with those nonces and its inside node where it was seen.
func (c *Core) Knows(seen FlowSeen) bool {
	f := c.flows[seen.FlowKey]
	return f != nil && f.Inward == seen.Inward && f.Outward == seen.Outward && f.Internal == seen.Internal &&
		f.Link == seen.Link
}

// HandleIdle takes a flow that has had no packets for long.
func (c *Core) HandleIdle(k FlowKey) {
	if f := c.flows[k]; f != nil {
		c.agenda.Retire(&f.Schedule)
		delete(c.flows, k)
		last := c.order[len(c.order)-1]
		last.place, c.order[f.place] = f.place, last
		c.order = slices.Delete(c.order, len(c.order)-1, len(c.order))
	}
	c.out = append(c.out, Forget{k})
}

// live returns the site locators by which a flow's packets from inside leave now.
func (c *Core) live(f *flow) []roam.L64 { return c.table.Inside[f.Internal].locators() }

// entries lists the site locators that stand for a flow's inside node now, as the border announces them: also those of
// other networks of the site that the node is on.
func (c *Core) entries(f *flow) (list []ilnp.LocatorEntry) {
	for _, l := range f.internals() {
		list = addEntries(list, c.siteEntries(l, siteLifetime))
	}
	return list
}

// internals returns the internal locators of a flow's inside node, as far as they are known: first that of its packets.
func (f *flow) internals() []roam.L64 { return append([]roam.L64{f.Internal}, f.listed...) }

// announce has the border's own update of a flow sent once its inside node is known to be there.
// Locators that are no longer live have to be announced again then. Where updates have MACs they stay announced until
// the inside node withdraws them: the border could not announce them, and that node may not have noticed that they were
// down.
func (c *Core) announce(now time.Time, f *flow) {
	f.queued = false
	live := locatorsOf(c.entries(f))
	kept := slices.DeleteFunc(slices.Clone(f.announced), func(l roam.L64) bool { return !slices.Contains(live, l) })
	if len(kept) != len(f.announced) && !f.Sealed {
		f.announced, f.confirmed = kept, false
		c.tellAnnounced(f)
	}
	if f.waits = c.hasNews(f); f.waits {
		c.look(f)
	}
}

// hasNews reports whether the border has an update of its own for the outside node of a flow.
func (c *Core) hasNews(f *flow) bool {
	return !f.Sealed && len(c.live(f)) > 0 && f.tries <= retries &&
		(!f.confirmed || !sameSet(f.announced, locatorsOf(c.entries(f))))
}

// update sends the border's own update of a flow, and sets when to repeat it.
func (c *Core) update(now time.Time, f *flow) {
	if !c.hasNews(f) {
		return
	}
	f.confirmed, f.stale = false, false
	update := ownUpdate(c, f, f.Outward)
	c.remember(f, exchange{outside: update})
	c.transmit(f, f.Outward, update)
	switch r := f.renewal; {
	case r == nil:
	case f.tries == 0:
		r.guesses = 0
	case r.other.Present():
		r.trial = trial{r.other, ownUpdate(c, f, r.other)}
		c.transmit(f, r.trial.nonce, r.trial.body)
	}
	c.arm(f, repeat, now, firstRetry<<f.tries)
	f.tries, f.tried = f.tries+1, now
}

// siteLifetime is the least one of locators in the border's own updates, in seconds. The border withdraws a locator by
// an update, so it may be long; renewAfter is when it announces all of a flow anew, as no node inside does: one with
// a single locator that lasts sends no update.
const (
	siteLifetime = 40_000
	renewAfter   = siteLifetime / 4 * time.Second
)

// transmit sends an update of the inside node of a flow from the most preferred site locator. Every second
// one goes in UDP, as paths may drop destination options or ICMPv6.
func (c *Core) transmit(f *flow, n ilnp.Nonce, update ilnp.LocatorUpdate) {
	from := c.live(f)[0]
	link, _ := c.table.Link(from)
	src, dst := roam.ILV{L64: from, NID: f.Inside}, roam.ILV{L64: f.Remote, NID: f.Outside}
	b, err := ilnp.BuildUpdate(src, dst, n, update)
	if err == nil && c.port != 0 && f.tries%2 != 0 {
		b, err = ilnp.Encapsulate(b, c.port)
	}
	if err == nil { // it has a nonce and locators
		c.out = append(c.out, Transmit{link, b})
	}
}

// remember keeps an exchange until it is acknowledged, or newer ones displace it.
func (c *Core) remember(f *flow, e exchange) {
	if n := len(f.sent); n > 0 && e.original == nil && f.sent[n-1].original == nil {
		f.sent = f.sent[:n-1] // a repetition
	}
	f.sent = append(f.sent, e)
	if len(f.sent) > kept {
		f.sent = slices.Delete(f.sent, 0, 1)
	}
}

func (c *Core) tellAnnounced(f *flow) {
	c.out = append(c.out, Announced{f.FlowKey, slices.Clone(f.announced)})
}

// HandleTimeout sends updates whose time has come. It may be due again at once.
func (c *Core) HandleTimeout(now time.Time) {
	for range mostDue {
		f, t, due := c.agenda.Due(now)
		if !due {
			break
		}
		switch t {
		case repeat:
			c.repeat(now, f)
		case announce:
			c.announce(now, f)
		case lapse:
			f.confirmed = false
			c.queue(now, f)
		}
	}
	c.forgetFragments(now)
	c.check(now)
}

// repeat has an update sent once more, in its turn to a node that has acknowledged nothing.
func (c *Core) repeat(now time.Time, f *flow) {
	if len(f.announced) == 0 && !c.mayRepeat(now) {
		c.arm(f, announce, now, c.patient.Sub(now))
	} else {
		c.announce(now, f)
	}
}

// arm sets when a flow is due next, in place of what it was set to.
func (c *Core) arm(f *flow, t timer, now time.Time, d time.Duration) {
	c.agenda.Retire(&f.Schedule)
	c.agenda.Arm(&f.Schedule, t, now, d)
}

// mayRepeat has one more repetition take its turn, to a node that has acknowledged nothing; false: that is at
// c.patient.
func (c *Core) mayRepeat(now time.Time) bool {
	if earliest := now.Add(-atOnce * pacePatient); c.patient.Before(earliest) {
		c.patient = earliest
	}
	c.patient = c.patient.Add(pacePatient)
	return !c.patient.After(now)
}

// Poll returns what to do next; false: nothing for now.
func (c *Core) Poll() (o Output, ok bool) {
	if len(c.out) > 0 {
		o, c.out, ok = c.out[0], c.out[1:], true
	}
	return o, ok
}

// PollTimeout returns when HandleTimeout is to be called; false: not at all.
func (c *Core) PollTimeout() (time.Time, bool) {
	next, ok := c.agenda.Next()
	if due := c.watch.due; !due.IsZero() && (!ok || due.Before(next)) {
		next, ok = due, true
	}
	if due, waits := c.incomplete.due(); waits && (!ok || due.Before(next)) {
		next, ok = due, true
	}
	return next, ok
}

// Flow is what a core knows of a flow, for people.
type Flow struct {
	FlowKey
	Internal  roam.L64
	Remote    roam.L64
	Remotes   []roam.L64 // that the outside node listed
	Announced []roam.L64 // that it has acknowledged
}

// Flows returns all flows in order.
func (c *Core) Flows() []Flow {
	list := make([]Flow, 0, len(c.flows))
	for _, k := range slices.SortedFunc(maps.Keys(c.flows), compareKeys) {
		f := c.flows[k]
		list = append(list, Flow{k, f.Internal, f.Remote, slices.Clone(f.remotes), slices.Clone(f.announced)})
	}
	return list
}

// sameSet reports whether two lists without duplicates have the same elements.
func sameSet(a, b []roam.L64) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(l roam.L64) bool { return !slices.Contains(b, l) })
}
