package engine

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	"roam/wire/ip6"
)

// The programs send where no policy of this host is asked: not those of IPsec, and
// not the rules of routing. So the engine asks for each path before anything is sent
// along it, and keeps sessions and control messages off those that a policy
// obstructs. On a host without policies it asks nothing.

const (
	// policyBatch is how many correspondents are checked anew at a time, a
	// fraction of a millisecond each at most.
	policyBatch = 32
	// policyUnknown bounds the obstructed paths to nodes without a session.
	policyUnknown = 1024
	// policyPaths bounds the obstructed paths to one node: it lists its locators.
	policyPaths = 1024
	// policyRest is how many times as long as a writing of all of them took the next
	// one waits.
	policyRest = 20
)

// policy is what the engine knows of obstructed paths.
type policy struct {
	*base
	uplinks    *uplinks
	armed      bool                              // something may be obstructed
	answers    map[hostnet.Flow]string           // since the last change
	blocked    map[roam.NID]map[ilnp.Path]string // why, by correspondent; none is empty
	everything map[roam.LinkLocator]string       // locators from which nothing may leave
	// free are the paths of sessions from those locators along which it may all the same.
	free        map[roam.NID]map[ilnp.Path]bool
	unvalidated map[dataplane.Obstruction]bool // of nodes without a session: obstructed, or free as above
	literals    literalPolicy
	queue       []roam.NID                     // to be checked anew
	keys        map[roam.NID][]ilnp.SessionKey // their sessions
	unwritten   bool                           // the data plane does not have all of it
	writeAt     time.Time                      // not before: to write all takes time
}

// due returns when there is something to do; zero: there is nothing.
func (p *policy) due() time.Time {
	switch {
	case len(p.queue) > 0, len(p.literals.queue) > 0:
		return time.Unix(1, 0) // at once
	case p.unwritten:
		return p.writeAt
	}
	return time.Time{}
}

// obstructedTransmit is the reason in Refused for control messages that a policy
// takes elsewhere.
const obstructedTransmit = "control message along a path that a policy obstructs"

// policyChanged has every path checked anew.
func (p *policy) policyChanged(now time.Time, armed bool) {
	p.armed, p.unwritten = armed, true
	p.free = make(map[roam.NID]map[ilnp.Path]bool)
	p.answers, p.unvalidated = make(map[hostnet.Flow]string), make(map[dataplane.Obstruction]bool)
	p.keys = make(map[roam.NID][]ilnp.SessionKey)
	for k, entry := range p.entries {
		p.keys[entry.RemoteNID] = append(p.keys[entry.RemoteNID], k)
	}
	for nid := range p.blocked {
		if p.keys[nid] == nil {
			p.setBlocked(now, nid, nil)
		}
	}
	p.queue = slices.Collect(maps.Keys(p.keys))
	p.recheckLiterals()
	p.checkLocals()
	p.checkSome(now)
}

// checkLocals asks which locators nothing at all may leave from.
func (p *policy) checkLocals() {
	if !p.armed && len(p.everything) == 0 {
		return
	}
	found := make(map[roam.LinkLocator]string)
	for l := range p.uplinks.locals {
		if !p.armed {
			break
		}
		own := roam.ILV{L64: l.L64, NID: p.cfg.NID}.Addr()
		if why := p.cfg.Policy.Everything(hostnet.Flow{Link: l.Link, Src: own}); why != "" {
			found[l] = why
		}
	}
	if !maps.Equal(found, p.everything) {
		p.everything, p.unwritten = found, true
	}
}

// checkSome checks the next correspondents of the queue, and behind them real addresses.
func (p *policy) checkSome(now time.Time) {
	n := min(len(p.queue), policyBatch)
	for _, nid := range p.queue[:n] {
		found := make(map[ilnp.Path]string)
		for _, k := range p.keys[nid] {
			if entry, there := p.entries[k]; there {
				maps.Copy(found, p.check(entry))
			}
		}
		p.setBlocked(now, nid, found)
		delete(p.keys, nid)
	}
	p.queue = p.queue[n:]
	p.checkLiterals(policyBatch - n)
}

// check returns the obstructed ones of all paths that a session could take.
func (p *policy) check(entry ilnp.Entry) map[ilnp.Path]string {
	found := make(map[ilnp.Path]string)
	if !p.armed {
		return found
	}
	ask := func(path ilnp.Path) {
		own := roam.ILV{L64: path.Local.L64, NID: entry.LocalNID}
		why := p.ask(path.Local.Link, own.Addr(), roam.ILV{L64: path.Remote, NID: entry.RemoteNID}.Addr())
		switch {
		case why != "":
			found[path] = why
		case p.everything[path.Local] != "":
			p.noteFree(entry.RemoteNID, path)
		}
	}
	for l := range p.uplinks.locals {
		for _, r := range entry.Accept {
			ask(ilnp.Path{Local: l, Remote: r})
		}
	}
	for _, path := range entry.Paths {
		ask(path)
	}
	for _, path := range entry.Reserve {
		ask(path)
	}
	return found
}

// noteFree notes an exception: a path of a session from a locator that nothing else may
// leave from.
func (p *policy) noteFree(nid roam.NID, path ilnp.Path) {
	if p.free[nid] == nil {
		p.free[nid] = make(map[ilnp.Path]bool)
	}
	if !p.free[nid][path] && len(p.free[nid]) < policyPaths {
		p.free[nid][path], p.unwritten = true, true
		p.forgetUnvalidated(nid, path)
	}
}

// forgetUnvalidated forgets a path to a node that had no session when a control message was to take it: it has one now,
// and the path is that session's.
func (p *policy) forgetUnvalidated(nid roam.NID, path ilnp.Path) {
	delete(p.unvalidated, dataplane.Obstruction{From: path.Local.L64, To: roam.ILV{L64: path.Remote, NID: nid}})
}

// ask returns why a policy obstructs a path, as answered before where it was.
func (p *policy) ask(link roam.LinkID, src, dst netip.Addr) string {
	f := hostnet.Flow{Link: link, Src: src, Dst: dst}
	why, known := p.answers[f]
	if !known {
		const most = 1 << 17 // flows: pending peers must not fill the memory
		if len(p.answers) >= most {
			clear(p.answers)
		}
		why = p.cfg.Policy.Obstruction(f)
		p.answers[f] = why
	}
	return why
}

// setBlocked replaces the obstructed paths to a correspondent, and tells the core.
func (p *policy) setBlocked(now time.Time, nid roam.NID, found map[ilnp.Path]string) {
	if maps.Equal(found, p.blocked[nid]) {
		return
	}
	p.unwritten = true
	if len(found) == 0 {
		delete(p.blocked, nid)
	} else {
		if p.blocked == nil {
			p.blocked = make(map[roam.NID]map[ilnp.Path]string)
		}
		p.blocked[nid] = found
		for path := range found {
			p.forgetUnvalidated(nid, path)
		}
	}
	p.core.HandleObstructed(now, nid, slices.Collect(maps.Keys(found)))
}

// permitted returns an entry without its obstructed paths. The core hears of those
// that are new, and makes another entry where it has other paths.
func (p *policy) permitted(now time.Time, entry ilnp.Entry) ilnp.Entry {
	if !p.armed {
		return entry
	}
	found := p.check(entry)
	if len(found) == 0 {
		return entry
	}
	// Several correspondents may claim one NID: each adds to what is known of it, so
	// that they cannot take turns in replacing it for ever.
	all := maps.Clone(p.blocked[entry.RemoteNID])
	if all == nil {
		all = make(map[ilnp.Path]string)
	}
	maps.Copy(all, found)
	if len(all) <= policyPaths {
		p.setBlocked(now, entry.RemoteNID, all)
	}
	gone := func(path ilnp.Path) bool { return found[path] != "" }
	entry.Paths = slices.DeleteFunc(slices.Clone(entry.Paths), gone)
	entry.Reserve = slices.DeleteFunc(slices.Clone(entry.Reserve), gone)
	entry.Long = slices.DeleteFunc(slices.Clone(entry.Long), gone)
	entry.Table = entry.Table.Without(gone)
	entry.RuleTables = maps.Clone(entry.RuleTables)
	for i, t := range entry.RuleTables {
		entry.RuleTables[i] = t.Without(gone)
	}
	entry.Costs = maps.Clone(entry.Costs)
	maps.DeleteFunc(entry.Costs, func(path ilnp.Path, _ uint8) bool { return gone(path) })
	return entry
}

// mayTransmit reports whether a control message may leave, and counts it if not.
func (p *policy) mayTransmit(o ilnp.Transmit) bool {
	if !p.armed || len(o.Packet) < ip6.HeaderLen {
		return true
	}
	src, dst := netip.AddrFrom16([16]byte(o.Packet[8:24])), netip.AddrFrom16([16]byte(o.Packet[24:40]))
	from, to := roam.ILVFromAddr(src), roam.ILVFromAddr(dst)
	obstructed := p.ask(o.Link, src, dst) != ""
	if obstructed {
		p.refused[obstructedTransmit]++
	}
	exception := !obstructed && p.everything[roam.LinkLocator{Link: o.Link, L64: from.L64}] != ""
	if (obstructed || exception) && p.blocked[to.NID] == nil && p.free[to.NID] == nil && len(p.unvalidated) < policyUnknown {
		unlisted := dataplane.Obstruction{From: from.L64, To: to}
		if was, there := p.unvalidated[unlisted]; !there || was != obstructed {
			p.unvalidated[unlisted], p.unwritten = obstructed, true
		}
	}
	return !obstructed
}

// forgetPolicy forgets what is obstructed towards a correspondent whose session has
// ended; the next session asks again.
func (p *policy) forgetPolicy(now time.Time, k ilnp.SessionKey) {
	entry, there := p.entries[k]
	if there && (len(p.blocked) > 0 || len(p.free) > 0) {
		delete(p.free, entry.RemoteNID)
		p.setBlocked(now, entry.RemoteNID, nil)
	}
}

// writeObstructed tells the data plane where its programs must not answer.
func (p *policy) writeObstructed(now time.Time) {
	if !p.unwritten || p.adopting || len(p.queue) > 0 || now.Before(p.writeAt) {
		return
	}
	p.unwritten = false
	table := make(map[dataplane.Obstruction]bool)
	for l := range p.everything {
		table[dataplane.Obstruction{From: l.L64}] = true
	}
	for nid, paths := range p.free {
		for path := range paths {
			table[dataplane.Obstruction{From: path.Local.L64, To: roam.ILV{L64: path.Remote, NID: nid}}] = false
		}
	}
	maps.Copy(table, p.unvalidated)
	for nid, paths := range p.blocked {
		for path := range paths {
			o := dataplane.Obstruction{From: path.Local.L64, To: roam.ILV{L64: path.Remote, NID: nid}}
			if p.everything[path.Local] == "" {
				table[o] = true
			} else {
				delete(table, o)
			}
		}
	}
	began := p.clock()
	p.report("write obstructed paths", p.cfg.Plane.SetObstructed(table))
	took := p.clock().Sub(began)
	p.writeAt = began.Add(took + policyRest*took)
}

// Obstructed returns the obstructed paths by correspondent, with what obstructs each;
// use it inside Do only.
func (p *policy) Obstructed() map[roam.NID]map[ilnp.Path]string { return p.blocked }

// ObstructedLocators returns the locators from which nothing may leave, with what
// says so; use it inside Do only.
func (p *policy) ObstructedLocators() map[roam.LinkLocator]string { return p.everything }

// PolicyArmed reports whether the host has policies that may obstruct something; use
// it inside Do only.
func (p *policy) PolicyArmed() bool { return p.armed }
