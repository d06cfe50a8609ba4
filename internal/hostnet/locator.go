package hostnet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
)

const (
	// settled is how long prefix:NID must have stood for its next loss to be
	// repaired at once.
	settled = time.Minute
	// firstRetry and lastRetry bound the pause between attempts to add it.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
	// duplicateRetry is the least pause after another node claimed it.
	duplicateRetry = 5 * time.Second
)

// attempt is the history of adding one prefix:NID.
type attempt struct {
	added     time.Time // last time
	wait      time.Duration
	next      time.Time // not before
	duplicate bool      // the last one ended in duplicate detection
}

// regain is how long a Locator whose prefix:NID was removed and added again
// counts as usable: the kernel announces its local route within that time.
const regain = 200 * time.Millisecond

// again notes an attempt at now and returns when the next one may come.
func (a *attempt) again(now time.Time) {
	if !a.added.IsZero() && now.Sub(a.added) >= settled+a.wait {
		a.wait = 0
	}
	a.added, a.duplicate = now, false
	a.next = now.Add(a.wait)
	a.wait = min(max(firstRetry, 2*a.wait), lastRetry)
}

// settle makes the host agree with the table, tells what changed, and returns
// when time alone will change something; zero: never.
func (h *Host) settle(now time.Time) time.Time {
	hurry := h.hurryCarriers(now)
	h.hearRouters()
	h.solicitRouters()
	h.table.dropAbandoned(h.ours, now)
	h.tellExcess()
	before := h.picture
	p := h.table.draw(h.rules, h.ours, before.uplinks, now)
	wake := sooner(sooner(hurry, h.table.wake(now)), h.keepAddresses(p, now))
	h.picture = h.table.draw(h.rules, h.ours, before.uplinks, now)
	wake = sooner(wake, h.holdRegained(before, now))
	wake = sooner(wake, h.awaitRouters(before, now))
	wake = sooner(wake, h.dampFlaps(before, now))
	wake = sooner(wake, h.drainLinks(before, now))
	h.announceNew(before, h.picture)
	h.publishPolicy(false) // before the Locators that it may obstruct
	h.leaveDirect()
	h.pending = append(h.pending, diff(before, h.picture, now)...)
	h.tellLinks(before)
	h.tellCandidates()
	h.askWhetherActed()
	h.mu.Lock()
	h.shown = h.picture.snapshot(now)
	h.mu.Unlock()
	h.checkDevice()
	wake = sooner(wake, h.checkSession(now))
	if err := h.fitMTU(); err != nil {
		h.pending = append(h.pending, Trouble{Reason: err.Error()})
	}
	return wake
}

// holdRegained keeps Locators usable whose address was lost and is being made
// again, so that somebody's flush is no handoff. It returns when to look again.
func (h *Host) holdRegained(before picture, now time.Time) (wake time.Time) {
	for l, until := range h.regained {
		x, ok := h.picture.locators[l]
		switch {
		case !ok || !x.complete || x.usable || !until.After(now):
			delete(h.regained, l)
		case before.locators[l].usable:
			x.usable = true
			h.picture.locators[l] = x
			wake = sooner(wake, until)
		}
	}
	return wake
}

// keepAddresses adds, prolongs and removes prefix:NID, and returns when to try
// again.
func (h *Host) keepAddresses(p picture, now time.Time) (wake time.Time) {
	for _, l := range sortedLocals(p.locators) {
		for _, k := range h.rules.owns(l) {
			wake = sooner(wake, h.keepAddress(l, p.locators[l], k, now))
		}
	}
	h.removeStale(p)
	return wake
}

// keepAddress is keepAddresses for one of them.
func (h *Host) keepAddress(l roam.LinkLocator, x locator, k addrKey, now time.Time) (wake time.Time) {
	have, ok := h.table.addrs[k]
	if !x.complete {
		delete(h.tries, k) // what a link loses by going down was not taken from it
	}
	switch {
	case ok && have.flags&unix.IFA_F_DADFAILED != 0 && h.ours[k]:
		return h.giveWay(l, x, k, now)
	case ok && h.ours[k]:
		h.prolong(l, x, k, have, now)
	case !ok && x.complete:
		return h.claim(l, x, k, now)
	}
	return time.Time{}
}

// askWhetherActed follows the news of a link that its reader does not know yet.
func (h *Host) askWhetherActed() {
	for _, i := range slices.Sorted(maps.Keys(h.picture.uplinks)) {
		if _, asked := h.acted[i]; !asked {
			h.acted[i] = false
			h.pending = append(h.pending, Acted{roam.LinkID(i)})
		}
	}
	maps.DeleteFunc(h.acted, func(i int, _ bool) bool { _, still := h.picture.uplinks[i]; return !still })
}

// noteActed notes what the reader took, and reports whether there is something to
// do because of it.
func (h *Host) noteActed(e Event) bool {
	fresh, is := e.(Acted)
	if !is {
		return false
	}
	_, still := h.acted[int(fresh.Link)]
	if still {
		h.acted[int(fresh.Link)] = true
	}
	return still
}

// claim adds prefix:NID unless the link is too fresh, or the last attempt was too
// recent.
func (h *Host) claim(l roam.LinkLocator, x locator, k addrKey, now time.Time) (wake time.Time) {
	if !h.acted[k.link] {
		return time.Time{} // the reader's word wakes us
	}
	a := h.tries[k]
	if a == nil {
		a = &attempt{}
		h.tries[k] = a
	}
	if a.next.After(now) {
		return a.next
	}
	sure, pending := h.table.elsewhere(k)
	if pending {
		return time.Time{} // its end is announced
	}
	if !a.added.IsZero() && now.Sub(a.added) < settled && !a.duplicate {
		h.trouble(l, x, "prefix:NID was removed by somebody else; adding it again")
	}
	if h.picture.locators[l].usable {
		h.regained[l] = now.Add(regain)
	}
	detection := desired.Optimistic
	switch {
	case sure:
		detection = desired.None
	case a.duplicate:
		detection = desired.Usual // to use it meanwhile would disturb its owner, and us
	}
	a.again(now)
	if err := h.addAddress(l, x, k, detection); err != nil {
		h.trouble(l, x, err.Error())
		a.next = now.Add(a.wait)
		return a.next
	}
	return time.Time{}
}

// addAddress adds prefix:NID, optimistic if the kernel allows it (RFC 4429), and
// reads back what the kernel made of it. The valid lifetime is set only after
// duplicate detection: the kernel deletes an address of limited lifetime that
// turns out to be a duplicate, without a word on why. DEVIATION: RFC 6741 §3.1
// does not use the locator before detection has ended.
//
// The sysctl that allows it is set only for the moment of adding: other
// addresses of the link are treated as the administrator wants them to be. Where
// it cannot be set (a read-only /proc), the Locator waits for duplicate
// detection, about a second.
func (h *Host) addAddress(l roam.LinkLocator, x locator, k addrKey, detection desired.Detection) error {
	want := desired.Address{Link: k.link, Addr: k.addr, Bits: 128, Detection: detection}
	var moment []desired.Sysctl
	if detection == desired.Optimistic {
		moment = []desired.Sysctl{{Link: k.link, Param: optimisticDAD, Value: "1"}}
	}
	h.state.lost(want)
	h.locators[k] = want
	h.ours[k] = true
	failed, err := h.setLocators(moment...)
	for _, f := range failed {
		if f.item == want {
			err = f.err
		} else {
			h.trouble(l, x, f.err.Error())
		}
	}
	if err != nil {
		delete(h.ours, k)
		delete(h.locators, k)
	}
	if moment != nil {
		if again := joined(h.setLocators()); again != nil {
			h.trouble(l, x, again.Error())
		}
	}
	if err != nil {
		return err
	}
	flags, err := h.kernel.addressFlags(k)
	if err != nil {
		return err
	}
	h.table.addrs[k] = address{flags: flags}
	return nil
}

// setLocators applies h.locators, and sysctls for the moment.
func (h *Host) setLocators(moment ...desired.Sysctl) ([]failure, error) {
	return h.state.set(ownerLocators, desired.State{
		Sysctls:   moment,
		Addresses: slices.Collect(maps.Values(h.locators)),
	})
}

// adoptAddresses takes over the addresses that an earlier process has added. One
// that is gone comes back only when its Locator does.
func (h *Host) adoptAddresses() error {
	for _, x := range h.state.left(ownerLocators) {
		a, ok := x.(desired.Address)
		if !ok {
			continue
		}
		k := addrKey{a.Link, a.Addr}
		there, err := h.kernel.hasAddress(k)
		if err != nil {
			return err
		}
		if h.ours[k] = true; there {
			h.locators[k] = a
		}
	}
	return nil
}

// recallPrefixes takes up the prefixes that routers advertised to an earlier process and that no address of the host
// shows: those without autoconfiguration. Advertisements cannot be dumped, but the kernel keeps a route for what they
// say is on-link, with the valid lifetime. Without such a route the prefix is gone.
func (h *Host) recallPrefixes() {
	shown := h.table.prefixes(h.rules, h.ours, time.Now())
	for k := range h.ours {
		l := k.local()
		if _, other := shown[l]; other {
			continue
		}
		if until, ok := h.table.onLink[l]; ok {
			h.table.advertised(l, ra{preferred: until, valid: until, heard: h.table.heard}, time.Now())
			h.recalled[k.link] = true
		}
	}
}

// optimisticDAD is the sysctl that allows RFC 4429 on a link.
const optimisticDAD = "optimistic_dad"

// prolong copies the prefix's valid lifetime to prefix:NID, when it became
// shorter or a good part of it has passed.
func (h *Host) prolong(l roam.LinkLocator, x locator, k addrKey, have address, now time.Time) {
	if have.flags&unix.IFA_F_TENTATIVE != 0 || have.valid.Equal(x.valid) {
		return
	}
	is, should := left(have.valid, now), left(x.valid, now)
	if is <= should+time.Second && is >= should-should/8-time.Second {
		return
	}
	want := desired.Address{Link: k.link, Addr: k.addr, Bits: 128, Until: x.valid}
	h.locators[k] = want
	if err := joined(h.setLocators()); err != nil {
		h.trouble(l, x, err.Error())
		return
	}
	have.valid = x.valid
	h.table.addrs[k] = have
}

// giveWay removes a duplicate: another node on that link answers for it. If
// that is this host on another link, it is added again without detection.
func (h *Host) giveWay(l roam.LinkLocator, x locator, k addrKey, now time.Time) (wake time.Time) {
	itself, _ := h.table.elsewhere(k)
	a := h.tries[k]
	if !itself && (a == nil || !a.duplicate) { // the kernel may tell it twice
		h.trouble(l, x, fmt.Sprintf("duplicate address: another node on %s uses %s", x.name, k.addr))
	}
	delete(h.locators, k)
	if err := joined(h.setLocators()); err != nil {
		h.trouble(l, x, err.Error())
	}
	delete(h.table.addrs, k)
	if a == nil {
		a = &attempt{added: now}
		h.tries[k] = a
	}
	a.duplicate = true
	if itself {
		a.next = now.Add(firstRetry)
		return a.next
	}
	a.wait = max(a.wait, duplicateRetry)
	a.next = now.Add(a.wait)
	return a.next
}

// removeStale takes back our addresses whose prefix is gone from their link, and those of an
// identifier that is not this host's any more. One that only waits for its link or router stays.
func (h *Host) removeStale(p picture) {
	var stale []addrKey
	for k := range h.ours {
		if _, wanted := p.locators[k.local()]; !wanted || !h.rules.isOwn(k) {
			stale = append(stale, k)
			delete(h.locators, k)
		}
	}
	if len(stale) == 0 {
		return
	}
	failed, err := h.setLocators()
	for _, k := range stale {
		why := err
		for _, f := range failed {
			if a, ok := f.item.(desired.Address); ok && (addrKey{a.Link, a.Addr}) == k {
				why = f.err
			}
		}
		if why != nil {
			h.trouble(k.local(), locator{}, why.Error())
			continue
		}
		delete(h.table.addrs, k)
		delete(h.ours, k)
		delete(h.tries, k)
	}
}

// tellExcess tells of links with more advertised prefixes than count, of each once until it is taken down.
func (h *Host) tellExcess() {
	maps.DeleteFunc(h.toldExcess, func(i int, _ bool) bool { _, still := h.table.excess[i]; return !still })
	for _, i := range slices.Sorted(maps.Keys(h.table.excess)) {
		link := h.table.links[i]
		if h.toldExcess[i] || !h.rules.accepts(link.name) {
			continue
		}
		h.toldExcess[i] = true
		l := roam.LinkLocator{Link: roam.LinkID(i), L64: h.table.excess[i]}
		why := fmt.Sprintf("more than %d prefixes are advertised on this link", maxAdvertised)
		h.trouble(l, locator{name: link.name}, why)
	}
}

func (h *Host) trouble(l roam.LinkLocator, x locator, reason string) {
	h.pending = append(h.pending, Trouble{LinkLocator: l, LinkName: x.name, Reason: reason})
}

// splitSysctl divides "eth0/optimistic_dad".
func splitSysctl(s string) (link, key string, ok bool) { return strings.Cut(s, "/") }
