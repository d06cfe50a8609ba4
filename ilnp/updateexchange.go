package ilnp

import (
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Timing of the Locator Update exchange, for which no RFC sets values.
const (
	updateMin     = 100 * time.Millisecond // least time to the first retransmission
	updateGuess   = 500 * time.Millisecond // the same while the RTT is unknown
	updatePatient = 300 * time.Millisecond // least time to it on a link that was not measured: an RTT of 200 ms and half of it
	updateMax     = 8 * time.Second        // most time between two of them
	updateDoubt   = 3                      // with this one goes a probe: is it the nonce?
	updateTries   = 8                      // then the exchange is given up ...
	updateSlowly  = 15 * time.Second       // ... and tried once in a while
)

// exchangeState is the state of a Locator Update exchange.
type exchangeState uint8

const (
	untold       exchangeState = iota // nothing was ever sent
	awaiting                          // sent, and again and again until acknowledged
	suspended                         // not acknowledged, and no locator to send from
	slow                              // given up, tried once in a while
	acknowledged                      // the correspondent has the newest set
)

// exchange is the Locator Update exchange with one peer. There is one at a time, and the newest
// set wins: the format has no sequence number, so an acknowledgement is matched by the locators
// and preferences that it repeats. Lifetimes may differ, as each transmission has the remaining
// lifetime.
type exchange struct {
	state    exchangeState
	listing  []listed                // the newest set
	body     []ilnpwire.LocatorEntry // of the last transmission
	before   []ilnpwire.LocatorEntry // of the one before, of this set or another
	told     []time.Time             // when the correspondent's copy of each locator ends; zero: never
	tries    int
	asked    int       // probes since, see spokeLast
	ways     int       // paths over which transmissions alternate
	first    time.Time // transmission of this set
	last     time.Time
	toward   []roam.L64 // locators to which it was sent
	paths    []Path     // in use when it began
	began    Path       // of the first transmission
	path     Path       // of the last transmission
	overNIDs bool       // it was sent summed so
	doubtful bool       // an older acknowledgement came after this set had left: confirm it once more
	since    uint64     // in a keyed session, the counter of the last message before this set
	renewal  bool       // of a set that the correspondent has: its lifetimes only
}

// lists reports whether the newest set has a locator.
func (u *exchange) lists(l roam.L64) bool {
	return slices.ContainsFunc(u.listing, func(e listed) bool { return e.l64 == l })
}

// begin starts the exchange of a set; its first transmission uses the best of paths.
func (u *exchange) begin(now time.Time, list []listed, paths []Path) {
	// The set that this one replaces may still arrive after it.
	doubtful := u.doubtful || u.state == awaiting && !slices.Equal(list, u.listing)
	renewal := u.state == acknowledged && slices.Equal(list, u.listing)
	*u = exchange{state: awaiting, listing: list, first: now, paths: paths, doubtful: doubtful, renewal: renewal, body: u.body}
}

// suspend stops retransmissions while the host has no locator.
func (u *exchange) suspend() {
	if u.state == awaiting || u.state == slow {
		u.state = suspended
	}
}

// giveUp switches to slow retransmission after enough quick ones, and reports whether it did.
func (u *exchange) giveUp() bool {
	if u.state != awaiting || u.tries < updateTries {
		return false
	}
	u.state = slow
	return true
}

// transmit records a transmission on a path, one of several that alternate.
func (u *exchange) transmit(now time.Time, path Path, ways int) {
	u.path, u.ways = path, ways
	if !slices.Contains(u.toward, path.Remote) {
		u.toward = append(u.toward, path.Remote)
	}
	u.tries++
	u.last = now
	if u.tries == 1 {
		u.began = u.path
	}
}

// wait is the time to the next retransmission, rtt being the round-trip time that was
// measured from the locator rttOf of ours; 0: unknown.
func (u *exchange) wait(rtt time.Duration, rttOf roam.LinkLocator) time.Duration {
	if u.state == slow {
		return updateSlowly
	}
	d := updateGuess
	if rtt > 0 {
		d = max(rtt*3/2, updateMin)
	}
	// The RTT may be that of a far faster link, and what is retransmitted too early
	// is an exchange more. So the first time of another link is patient.
	if u.tries == 1 && rttOf != (roam.LinkLocator{}) && rttOf != u.path.Local {
		return max(d, updatePatient)
	}
	return min(d<<min(u.tries-1, updateTries), updateMax)
}

// expiry returns when a locator of ours expires, the zero time being never; false: it has
// expired.
type expiry func(now time.Time, l roam.L64) (time.Time, bool)

// compose builds the message of a transmission: each locator of the set with its remaining
// preferred lifetime.
func (u *exchange) compose(now time.Time, form ilnpwire.Form, hard bool, ends expiry) ilnpwire.LocatorUpdate {
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Form: form}
	switch {
	case form != ilnpwire.FormDraft:
	case hard:
		lu.Code = ilnpwire.CodeReplaceHard
	default:
		lu.Code = ilnpwire.CodeReplaceSoft
	}
	u.told = u.told[:0]
	for _, e := range u.listing[:min(len(u.listing), ilnpwire.MaxLocators)] {
		left := uint32(1)
		if end, ok := ends(now, e.l64); ok {
			left = wireLifetime(remaining(now, end), form)
		}
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{L64: e.l64, Preference: uint32(e.preference), Lifetime: left})
		u.told = append(u.told, deadline(now, lifetimeOf(left, form)))
	}
	u.before, u.body = u.body, lu.Locators
	return lu
}

// Largest lifetimes of FormRFC and of the other forms, in seconds. That of the draft
// form is infinite, as in the Router Advertisements that it follows (RFC 4861 §4.6.2).
const (
	largestRFC  = 0xffff
	largestLong = 0xffff_ffff
)

// wireLifetime rounds to whole seconds, but never to 0, which would end the locator. Rounding
// down would announce half of a lifetime of just under two seconds, and double the refreshes.
func wireLifetime(d time.Duration, form ilnpwire.Form) uint32 {
	largest := int64(largestRFC)
	if form != ilnpwire.FormRFC {
		largest = largestLong
	}
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Second/2 {
		seconds++
	}
	return uint32(min(max(seconds, 1), largest))
}

// lifetimeOf reads a lifetime.
func lifetimeOf(seconds uint32, form ilnpwire.Form) time.Duration {
	if form != ilnpwire.FormRFC && seconds == largestLong {
		return roam.Infinite
	}
	return time.Duration(seconds) * time.Second
}

// ackKind classifies an acknowledgement.
type ackKind uint8

const (
	ackAgain      ackKind = iota // of the newest set, which was acknowledged before
	ackUnexpected                // nothing was ever sent
	ackOlder                     // of another set
	ackNew                       // of the newest set: the exchange is complete
)

// ack handles an acknowledgement. One of an older set while the newest is in flight makes the
// exchange doubtful.
func (u *exchange) ack(lu ilnpwire.LocatorUpdate) ackKind {
	switch {
	case u.state == untold:
		return ackUnexpected
	case !u.matches(lu):
		u.doubtful = u.doubtful || u.state != acknowledged
		return ackOlder
	case u.state == acknowledged:
		return ackAgain
	}
	u.state = acknowledged
	return ackNew
}

// matches compares a message with the set, without lifetimes; but since we announce none of 0,
// an acknowledged 0 is of another set. FormLinux has locators only, and its stack accepts and
// acknowledges the first ones of a longer list in another form.
func (u *exchange) matches(lu ilnpwire.LocatorUpdate) bool {
	if lu.Form == ilnpwire.FormLinux {
		n := min(len(lu.Locators), len(u.listing))
		return n == len(lu.Locators) && slices.EqualFunc(u.listing[:n], lu.Locators, func(a listed, b ilnpwire.LocatorEntry) bool {
			return a.l64 == b.L64
		})
	}
	return slices.EqualFunc(u.listing, lu.Locators, func(a listed, b ilnpwire.LocatorEntry) bool {
		return a.l64 == b.L64 && uint32(a.preference) == b.Preference && b.Lifetime > 0
	})
}

// isOverNIDs reports whether the checksum of the present transmission is over NIDs. After an
// exchange was given up, both rules are tried even if one is known: the peer may run another
// stack by now.
//
// Paths alternate too, and some stacks want one rule from one source: if the number of paths is
// even, the second round uses the other rule on each.
func (u *exchange) isOverNIDs(f profile) bool {
	t := u.tries
	if n := u.ways; n > 0 && n%2 == 0 {
		t += (t - 1) / n
	}
	over := f.overNIDs(t)
	if u.state == slow && !f.asks && f.icmp != icmpSought && u.tries%2 == 0 {
		return !over
	}
	return over
}

// shortest returns the shortest lifetime in the last transmission.
func (u *exchange) shortest() time.Duration {
	d := roam.Infinite
	for _, end := range u.told {
		d = min(d, remaining(u.last, end))
	}
	return d
}

// renewAt returns when to renew a peer's copy of our lifetimes: after 60 to 75 % of the shortest
// announced one. The peer's alias selects the moment, so that a host's refreshes do not leave in
// one burst. The zero time: never.
func (u *exchange) renewAt(alias roam.NID) time.Time {
	left := u.shortest()
	if left == roam.Infinite {
		return time.Time{}
	}
	return u.last.Add(left * (60 + time.Duration(uint64(alias)%16)) / 100)
}

// isStale reports whether our lifetimes were renewed by enough since the last update to announce
// them again, longest being the longest that the form can express.
func (u *exchange) isStale(now time.Time, ends expiry, longest time.Duration) bool {
	if u.state != acknowledged {
		return false
	}
	for i, e := range u.listing[:len(u.told)] {
		end, ok := ends(now, e.l64)
		if !ok || u.told[i].IsZero() {
			continue
		}
		// A quarter more than was told is news; in the last quarter, when the
		// prefix has come to live shorter, so is whatever exceeds the rounding.
		told, has := remaining(u.last, u.told[i]), remaining(now, u.told[i])
		gain := min(remaining(now, end), longest) - has
		if gain > told/4 || has < told/4 && gain > time.Second {
			return true
		}
	}
	return false
}

// lookAgain returns the time until the next call of isStale; 0: never.
func (u *exchange) lookAgain(now time.Time) time.Duration {
	left := u.shortest()
	if u.state != acknowledged || left == roam.Infinite || !u.last.Add(2*left).After(now) {
		return 0
	}
	return left / 10
}
