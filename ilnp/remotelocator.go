package ilnp

import (
	"cmp"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// graceMin is the least time for which a locator that a Locator Update dropped
// stays acceptable as a source. DEVIATION from RFC 6743 §4 and RFC 6744 §4,
// which end it at once and lose what is in flight.
const graceMin = 10 * time.Second

// standing says what a correspondent's locator is to us.
type standing uint8

const (
	current standing = iota // announced, told or seen: sent to, if preferred
	aged                    // past its lifetime: a last resort, accepted as a source for its grace (RFC 6741 §5.2)
	dropped                 // by its owner, in grace: accepted as a source, not sent to
)

// sendsFor is how long a locator that the correspondent prefers less is asked after it has
// sent from there. While it does, the data plane says so every 5 s.
const sendsFor = 30 * time.Second

// maxAged bounds the locators past their lifetime that are kept for a
// correspondent; those that ran out last are.
const maxAged = 4

// maxRemotes bounds the locators of a correspondent: one full Locator Update, and
// in grace what it has replaced. Whoever told ever other ones, or in the draft form
// ever more, would otherwise have us keep them all.
const maxRemotes = 2 * ilnpwire.MaxLocators

// remote is one locator of a correspondent.
type remote struct {
	l64        roam.L64
	preference uint16
	expires    time.Time // zero: never
	standing   standing
	until      time.Time // aged, dropped: end of grace
	ended      bool      // by its owner, at once
	validated  bool      // validated: its owner has answered from behind it
	given      bool      // a file, the user or the DNS named it, not its owner alone
	only       bool      // none but they did: the session's node has not been there, or has left it
	sends      time.Time // when its owner last sent from there although it was not validated; zero: not lately
	asked      bool      // its owner had dropped it, and lists it again as no first choice, as if to ask from there
}

func (r *remote) within(now time.Time) bool { return r.expires.IsZero() || r.expires.After(now) }

// remotes is the set of locators of one correspondent, in the order of
// standing and preference, and of announcement within one preference.
type remotes []remote

func (rs remotes) find(l roam.L64) *remote {
	for i := range rs {
		if rs[i].l64 == l {
			return &rs[i]
		}
	}
	return nil
}

func (rs remotes) sort() {
	slices.SortStableFunc(rs, func(a, b remote) int {
		return cmp.Or(cmp.Compare(a.standing, b.standing), cmp.Compare(a.preference, b.preference))
	})
}

// put adds or renews a current locator; a proof it has stays. Of too many, another
// one is forgotten.
func (rs *remotes) put(l roam.L64, preference uint16, expires time.Time) *remote {
	r := rs.find(l)
	if r == nil {
		if len(*rs) >= maxRemotes {
			rs.forgetOne()
		}
		*rs = append(*rs, remote{l64: l})
		r = &(*rs)[len(*rs)-1]
	}
	r.preference, r.expires, r.standing, r.until, r.ended = preference, expires, current, time.Time{}, false
	r.only = false
	return r
}

// give is put for a locator that a record names.
func (rs *remotes) give(l roam.L64, preference uint16, expires time.Time) {
	known := rs.find(l)
	only := known == nil || known.only || known.standing == dropped
	r := rs.put(l, preference, expires)
	r.given, r.only, r.validated = true, only, r.validated && !only
}

// validate marks a locator as validated.
func (r *remote) validate() { r.validated, r.only, r.sends = true, false, time.Time{} }

// isThere reports whether the correspondent is or has been at a locator, as it has
// announced or was validated there, and has not left it since.
func (rs remotes) isThere(l roam.L64) bool {
	r := rs.find(l)
	return r != nil && !r.only && r.standing != dropped
}

// forgetOne forgets the locator that is of the least use: the one whose grace ends
// first; if none is in grace, the last one, which is hardly one that is sent to.
func (rs *remotes) forgetOne() {
	least := len(*rs) - 1
	for i, r := range *rs {
		if l := (*rs)[least]; r.standing != current && (l.standing == current || r.until.Before(l.until)) {
			least = i
		}
	}
	*rs = slices.Delete(*rs, least, least+1)
}

// drop starts the grace of a locator, if it has had none.
func (r *remote) drop(now time.Time, grace time.Duration) {
	if r.standing == current {
		r.until = now.Add(grace)
	}
	r.standing = dropped
}

// lapse is what the end of its lifetime does to a current locator.
func (r *remote) lapse(now time.Time, grace time.Duration) {
	if r.ended {
		r.drop(now, grace)
		return
	}
	r.standing, r.until = aged, now.Add(grace)
}

// age ends the grace of dropped locators and starts that of those past their
// lifetime, unless none would be left: then the one with the longest lifetime
// stays in use (RFC 6741 §5.2).
func (rs *remotes) age(now time.Time, grace time.Duration) {
	keep := -1
	for i, r := range *rs {
		switch {
		case r.standing != current:
		case r.within(now):
			keep = i
		case keep < 0 || !(*rs)[keep].within(now) && r.expires.After((*rs)[keep].expires):
			keep = i
		}
	}
	if keep < 0 && len(*rs) > 0 {
		keep = 0
		(*rs)[0].standing, (*rs)[0].expires = current, now
	}
	for i := range *rs {
		if r := &(*rs)[i]; i != keep && r.standing == current && !r.within(now) {
			r.lapse(now, grace)
		}
	}
	*rs = slices.DeleteFunc(*rs, func(r remote) bool { return r.standing == dropped && !r.until.After(now) })
	rs.sort()
	rs.limitAged()
}

// limitAged forgets those of too many aged locators that ran out first.
func (rs *remotes) limitAged() {
	for {
		n, first := 0, -1
		for i, r := range *rs {
			if r.standing != aged {
				continue
			}
			n++
			if first < 0 || r.until.Before((*rs)[first].until) {
				first = i
			}
		}
		if n <= maxAged {
			return
		}
		*rs = slices.Delete(*rs, first, first+1)
	}
}

// next returns when age has something to do or a grace ends, or the zero time.
func (rs remotes) next(now time.Time) time.Time {
	var t time.Time
	for _, r := range rs {
		switch {
		case r.standing == dropped, r.standing == aged && r.until.After(now):
			t = sooner(t, r.until)
		case r.standing == current && r.within(now):
			t = sooner(t, r.expires)
		}
	}
	return t
}

// targets returns the locators to send to: those of the lowest preference
// value (RFC 6742 §2.3). Of several equal ones only the validated ones, if there
// are such; the others join when they are validated.
func (rs remotes) targets() []roam.L64 {
	var all, validated []roam.L64
	for _, r := range rs {
		if r.standing != current || r.preference != rs[0].preference {
			break
		}
		all = append(all, r.l64)
		if r.validated {
			validated = append(validated, r.l64)
		}
	}
	if len(validated) > 0 {
		all = validated
	}
	return all[:min(len(all), MaxRemote)]
}

// unvalidated returns the locators that wait for a proof, at most MaxRemote: those of the
// lowest preference value, and others from where the correspondent sends.
func (rs remotes) unvalidated() []roam.L64 {
	var ls []roam.L64
	for _, r := range rs {
		if r.standing != current || len(ls) == MaxRemote {
			break
		}
		if !r.validated && (r.preference == rs[0].preference || !r.sends.IsZero()) {
			ls = append(ls, r.l64)
		}
	}
	return ls
}

// endSending forgets which locators the correspondent has not sent from lately.
func (rs remotes) endSending(now time.Time) {
	for i := range rs {
		if now.Sub(rs[i].sends) >= sendsFor {
			rs[i].sends = time.Time{}
		}
	}
}

// listed returns the current locators, without those from where the correspondent may only have asked.
func (rs remotes) listed() []roam.L64 {
	var ls []roam.L64
	for _, r := range rs {
		if r.standing == current && !r.asked {
			ls = append(ls, r.l64)
		}
	}
	return ls
}

// standingOf returns the standing of a locator; one that is forgotten was dropped.
func (rs remotes) standingOf(l roam.L64) standing {
	if r := rs.find(l); r != nil {
		return r.standing
	}
	return dropped
}

// all returns every locator, the best first, dropped ones last.
func (rs remotes) all() []roam.L64 {
	ls := make([]roam.L64, len(rs))
	for i, r := range rs {
		ls[i] = r.l64
	}
	return ls
}

// there returns the locators that are not dropped, and those that are, the best first.
func (rs remotes) there() (there, withdrawn []roam.L64) {
	for _, r := range rs {
		if r.standing == dropped {
			withdrawn = append(withdrawn, r.l64)
		} else {
			there = append(there, r.l64)
		}
	}
	return there, withdrawn
}

// lead makes a locator the only one of the lowest preference value.
func (rs remotes) lead(l roam.L64) {
	lowest := uint16(0xffff)
	for _, r := range rs {
		if r.standing == current && r.l64 != l {
			lowest = min(lowest, r.preference)
		}
	}
	for i := range rs {
		r := &rs[i]
		switch {
		case r.l64 == l && lowest > 0:
			r.preference = lowest - 1
		case r.l64 == l:
			r.preference = 0
		case lowest == 0 && r.preference < 0xffff:
			r.preference++
		}
	}
	rs.sort()
}
