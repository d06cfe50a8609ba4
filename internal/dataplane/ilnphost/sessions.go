package ilnphost

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

// ErrFull is wrapped when there is no room for another session or correspondent.
var ErrFull = errors.New("table is full")

// slotTable hands out indexes of an array.
type slotTable struct {
	next uint32
	free []uint32
}

// without makes the indexes below the highest one in use free that are not.
func (s *slotTable) without(used map[uint32]bool) {
	for n := range used {
		s.next = max(s.next, n+1)
	}
	for n := range s.next {
		if !used[n] {
			s.free = append(s.free, n)
		}
	}
}

func (s *slotTable) take(limit uint32) (uint32, bool) {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot, true
	}
	if s.next >= limit {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

// adopt reads the sessions of an earlier process: their slots stay theirs.
func (p *Plane) adopt() (err error) {
	if err := p.adoptEntries(); err != nil {
		return err
	}
	if p.marks, err = openMarks(p.objs.RealSockets); err != nil {
		return err
	}
	p.adopted = len(p.known) > 0
	if err := errors.Join(p.adoptCollisions(), p.adoptPlaces()); err != nil {
		return err
	}
	if err := errors.Join(p.adoptAccepted(), p.tables.adopt(p.objs.FlowTables, p.known)); err != nil {
		return err
	}
	if err := p.macs.adopt(p.objs.UpdateKeys, p.known); err != nil {
		return err
	}
	for i := range p.uplinks.owner {
		var row bpfUplink
		if err := p.objs.Uplinks.Lookup(uint32(i), &row); err != nil {
			return fmt.Errorf("read uplink map: %w", err)
		}
		p.uplinks.adopt(uint8(i), row)
	}
	return nil
}

func (t *uplinkTable) adopt(i uint8, row bpfUplink) {
	if row.Ifindex == 0 {
		return
	}
	l := roam.LinkLocator{Link: roam.LinkID(row.Ifindex), L64: roam.L64(row.L64.uint64())}
	if t.index == nil {
		t.index = make(map[roam.LinkLocator]uint8)
	}
	t.clock++
	t.index[l], t.owner[i], t.used[i] = i, l, t.clock
}

// Turn is what runs while programs get an entry; either may be nil.
type Turn struct {
	Before func() // right before they see it: until then they report what an entry before, or none, has them report
	// Held runs after that, for a session that had none, perhaps several times. Until its last end they hand over what
	// local programs send, but for what has HeldMark. It returns how many such events, of one packet each, it has met.
	Held func() int
}

// Upsert makes or replaces a session's entry. Paths from locators that
// SetUplinks was not told of are left out.
func (p *Plane) Upsert(entry ilnp.Entry, turn Turn) error {
	old, exists := p.known[entry.Key]
	row, more := p.row(entry)
	settled := exists && old.Flags&bpfEntryFlagsENTRY_PREINSTALLED == 0
	if settled || old.Flags&bpfEntryFlagsENTRY_PLAIN != 0 {
		row.Flags |= old.Flags & bpfEntryFlagsENTRY_REAL_SOCKETS // once seen plain, an entry may have such sockets
	}
	var kept error
	if exists {
		row.Flags |= old.Flags & bpfEntryFlagsENTRY_PLAIN_FLOWS
		if p.turns(old, row) {
			var flag bpfEntryFlags
			flag, kept = p.keepPlain(old)
			row.Flags |= flag
		}
		row.Slot, row.Birth, row.Seq = old.Slot, old.Birth, nextSeq(old, row)
		if old.LocalNonce != row.LocalNonce || old.RemoteNonce.Len > 0 && old.RemoteNonce != row.RemoteNonce {
			row.Birth = uint32(random64()) | 1 // what was seen was another session
		}
	} else {
		slot, err := p.slots.take()
		if err != nil {
			return fmt.Errorf("session with %s: %w", entry.RemoteNID, err)
		}
		row.Slot, row.Birth = slot, uint32(random64())|1
	}
	if row.Seq != old.Seq || row.Birth != old.Birth {
		row.Seq = p.lines.distinct(row)
	}
	tables := p.tables.wanted(&p.uplinks, entry, &row)
	kept = errors.Join(kept, p.tables.set(tables, old, row), p.macs.set(entry, row))
	if !p.tables.has(row, 0) {
		row.Flags &^= bpfEntryFlagsENTRY_PLACED // or segments would take any path without their bytes counting
	}
	more, err := p.addAccepted(entry.Key, old, row, more)
	if err == nil && !exists {
		kept = errors.Join(kept, p.setCollisions(entry, row)) // first: its peer's packets find it at once, or wait
	}
	if err == nil && settled {
		err = p.publish(row, turn.Before)
	} else if err == nil {
		if exists {
			turn.Held = nil // what was sent has left by the preinstalled entry
		}
		row, err = p.publishNew(row, turn)
	}
	if err != nil {
		p.tables.follow(row, old, tables)
		if !exists {
			p.collisions.forget(p.objs.NidCollisions, entry.Key)
			p.slots.leave(row.Slot)
		}
		return fmt.Errorf("write session with %s: %w", entry.RemoteNID, err)
	}
	p.known[entry.Key] = row
	p.changed.set(row.Slot, entry.Key)
	if exists {
		kept = errors.Join(kept, p.setCollisions(entry, row))
	}
	p.keepAccepted(entry.Key, old, row, more)
	p.tables.follow(old, row, tables)
	p.macs.follow(old, row)
	return errors.Join(kept, p.slowStarts.follow(old, row, entry.SlowStart))
}

// publishNew publishes a session whose correspondent may have spoken plain IPv6 to
// us before, or does so meanwhile: connections of that time may be there. The
// programs look for them until it is known that it has not: a segment of one that
// they took for the session's would be answered with a reset. As long as a session
// is only expected, its correspondent's packets are plain IPv6.
func (p *Plane) publishNew(row bpfSessionEntry, turn Turn) (bpfSessionEntry, error) {
	without := row
	row.Flags |= bpfEntryFlagsENTRY_REAL_SOCKETS
	if row.Flags&bpfEntryFlagsENTRY_PREINSTALLED != 0 {
		without.Flags, turn.Held = row.Flags, nil
	}
	if turn.Held != nil {
		row.Flags |= bpfEntryFlagsENTRY_HELD
	}
	if err := p.publish(row, turn.Before); err != nil {
		return row, err
	}
	if without.Flags&bpfEntryFlagsENTRY_REAL_SOCKETS == 0 {
		var was uint8
		err := p.objs.PlainNodes.Lookup(&bpfSessionKey{Local: row.LocalNid, Remote: row.RemoteNid}, &was)
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			without.Flags |= bpfEntryFlagsENTRY_REAL_SOCKETS
		}
	}
	wasHeld := turn.Held != nil && p.lines.endHeld(without, turn.Held)
	if without.Flags == row.Flags || (wasHeld || turn.Held == nil) && p.publishFlags(without, wasHeld) {
		return without, nil
	}
	return without, p.publish(without, nil)
}

// nextSeq returns the number of the new entry: never one that an earlier entry
// had, for what was seen under it would count again. A core that restored an
// older state counts on from there.
func nextSeq(old, row bpfSessionEntry) uint32 {
	if row.Seq > old.Seq {
		return row.Seq
	}
	row.Slot, row.Birth, row.Seq = old.Slot, old.Birth, old.Seq
	if row == old {
		return old.Seq
	}
	return old.Seq + 1
}

// byAlias reports whether the NIDs on the wire do not lead to the session.
func byAlias(row bpfSessionEntry) bool {
	return row.Alias != bpfSessionKey{Local: row.LocalNid, Remote: row.RemoteNid}
}

// Delete removes a session's entry, and the pending peer of that name; one that does
// not exist is no error.
func (p *Plane) Delete(k ilnp.SessionKey) error {
	key := sessionKey(k)
	row, ok := p.known[k]
	if !ok {
		_ = p.objs.PendingPeers.Delete(&key)
		return nil
	}
	p.withdraw(row)
	delete(p.known, k)
	delete(p.sent, k)
	delete(p.counted, k)
	p.changed.free(row.Slot)
	p.slots.leave(row.Slot)
	p.collisions.forget(p.objs.NidCollisions, k)
	p.keepAccepted(k, row, bpfSessionEntry{}, nil)
	p.tables.follow(row, bpfSessionEntry{}, nil)
	p.macs.follow(row, bpfSessionEntry{})
	err := p.slowStarts.follow(row, bpfSessionEntry{}, 0)
	// The pending peer that the session came from would answer under its old name.
	if !byAlias(row) || row.Flags&bpfEntryFlagsENTRY_NAMED != 0 {
		pending := bpfSessionKey{Local: row.LocalNid, Remote: row.RemoteNid}
		_ = p.objs.PendingPeers.Delete(&pending)
	}
	return err
}

// Dismiss forgets a pending peer: what is sent to its NID is not for it any more.
func (p *Plane) Dismiss(k ilnp.SessionKey, shown ilnp.Nonce) error {
	key := sessionKey(k)
	var e bpfPendingPeer
	err := p.objs.PendingPeers.Lookup(&key, &e)
	if err == nil && e.RemoteNonce == nonce(shown) {
		err = p.objs.PendingPeers.Delete(&key)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget pending peer: %w", err)
	}
	return nil
}

// Sync makes the entries equal to want: others are removed, then missing ones
// are made.
func (p *Plane) Sync(want []ilnp.Entry) error {
	var errs []error
	keep := make(map[ilnp.SessionKey]bool, len(want))
	for _, w := range want {
		keep[w.Key] = true
	}
	for k := range p.known {
		if !keep[k] {
			errs = append(errs, p.Delete(k))
		}
	}
	for _, w := range want {
		errs = append(errs, p.Upsert(w, Turn{}))
	}
	return errors.Join(errs...)
}

// row turns a core's pair into the entry of the map, and returns the locators
// to be accepted as sources that it has no room for.
func (p *Plane) row(entry ilnp.Entry) (bpfSessionEntry, []bpfHalf) {
	r := bpfSessionEntry{
		Alias:       sessionKey(entry.Key),
		LocalNid:    half(uint64(entry.LocalNID)),
		RemoteNid:   half(uint64(entry.RemoteNID)),
		LocalNonce:  nonce(entry.LocalNonce),
		RemoteNonce: nonce(entry.RemoteNonce),
		NonceUntil:  nonceUntil(dataplane.Monotonic(entry.NonceUntil)),
		Grace:       uint16(grace(entry.Grace) / time.Millisecond),
		Seq:         entry.Seq,
		Flags:       entryFlags(entry),
	}
	if p.realNID {
		r.Flags |= bpfEntryFlagsENTRY_REAL_SOCKETS
	}
	if byAlias(r) {
		r.Flags |= bpfEntryFlagsENTRY_BY_ALIAS
		if entry.Named {
			r.Flags |= bpfEntryFlagsENTRY_NAMED
		}
	}
	if entry.Holds {
		// The programs hold every other nonce of a session that is not found by its NIDs. They find
		// this one, as its alias is the NID.
		r.Flags |= bpfEntryFlagsENTRY_BY_ALIAS
	}
	nids := ip6.Add(sum(uint64(entry.LocalNID)), sum(uint64(entry.RemoteNID)))
	aliases := ip6.Add(sum(uint64(entry.Key.Local)), sum(uint64(entry.Key.Remote)))
	delta := ip6.Add(nids, ^aliases)
	r.NidDelta = [2]uint8{uint8(delta >> 8), uint8(delta)}
	for _, path := range entry.Paths {
		added := p.uplinks.addPath(&r, path)
		if added > 0 {
			r.Costs |= uint64(entry.Costs[path]&15) << (4 * r.N_paths)
		}
		r.N_paths += added
	}
	for _, path := range entry.Reserve {
		r.N_reserve += p.uplinks.addPath(&r, path)
	}
	p.rules.fields(p, &r, entry)
	var more []bpfHalf
	for _, l := range entry.Accept {
		h, n := half(uint64(l)), int(r.N_remote+r.N_accept)
		switch {
		case slices.Contains(r.Remote[:n], h):
		case n < len(r.Remote):
			r.Remote[n] = h
			r.N_accept++
		default:
			more = append(more, h)
		}
	}
	for i, l := range r.Remote[:r.N_remote+r.N_accept] {
		if slices.Contains(entry.Unvalidated, roam.L64(l.uint64())) {
			r.Unvalidated |= 1 << i
		}
		if slices.Contains(entry.Given, roam.L64(l.uint64())) {
			r.Given |= 1 << i
		}
	}
	r.First = r.Paths[0]
	r.N_sources = uint8(min(len(more), 255))
	return r, more
}

// grace bounds how long an unvalidated locator gets the rate before; an unknown
// round trip is taken for 100 ms.
func grace(d time.Duration) time.Duration {
	if d <= 0 {
		return 200 * time.Millisecond
	}
	return min(max(d, 20*time.Millisecond), 2*time.Second)
}

// nonceUntil returns a time as entries have it, rounded up: the last packet that must have the option has it.
func nonceUntil(ns uint64) uint32 { return uint32((ns + 1<<untilShift - 1) >> untilShift) }

const untilShift = 26 // UNTIL_SHIFT of bpf/ilnp/types.h

// sum is the one's-complement sum of half an address.
func sum(v uint64) uint16 { return ip6.Sum64(roam.L64(v)) }

// addPath appends a path, and returns how many were: 1, or 0 where there is no
// room or no such uplink.
func (t *uplinkTable) addPath(r *bpfSessionEntry, path ilnp.Path) uint8 {
	up, ok := t.indexOf(path.Local)
	next := int(r.N_paths + r.N_reserve + r.N_ruled + r.N_answers)
	if !ok || next == len(r.Paths) {
		return 0
	}
	h := half(uint64(path.Remote))
	remote := slices.Index(r.Remote[:r.N_remote], h)
	if remote < 0 {
		if int(r.N_remote) == len(r.Remote) {
			return 0
		}
		remote = int(r.N_remote)
		r.Remote[remote] = h
		r.N_remote++
	}
	r.Paths[next] = up<<4 | uint8(remote)
	return 1
}

func entryFlags(entry ilnp.Entry) (f bpfEntryFlags) {
	switch entry.State {
	case ilnp.Initiated:
		f |= bpfEntryFlagsENTRY_INITIATED
	case ilnp.Plain:
		f |= bpfEntryFlagsENTRY_PLAIN | bpfEntryFlagsENTRY_REAL_SOCKETS
	}
	if entry.Dead {
		f |= bpfEntryFlagsENTRY_DEAD
	}
	if entry.Rule == ilnp.RuleRFC6741 {
		f |= bpfEntryFlagsENTRY_RFC6741
	}
	if entry.RuleSought {
		f |= bpfEntryFlagsENTRY_RULE_SOUGHT
	}
	if entry.NonceAlways {
		f |= bpfEntryFlagsENTRY_NONCE_ALWAYS
	}
	if entry.Narrow {
		f |= bpfEntryFlagsENTRY_NARROW
	}
	if entry.Encap {
		f |= bpfEntryFlagsENTRY_ENCAP
	}
	if entry.Unrecorded {
		f |= bpfEntryFlagsENTRY_UNRECORDED
	}
	if entry.Unconfirmed {
		f |= bpfEntryFlagsENTRY_UNCONFIRMED
	}
	if entry.ICMPRule == ilnp.RuleRFC6741 && entry.State != ilnp.Plain {
		f |= bpfEntryFlagsENTRY_ICMP_RFC6741
	}
	if entry.Preinstalled {
		f |= bpfEntryFlagsENTRY_PREINSTALLED
	}
	if entry.PerFlow {
		f |= bpfEntryFlagsENTRY_PER_FLOW
	}
	if isPlaced(entry) {
		f |= bpfEntryFlagsENTRY_PLACED
	}
	if entry.IsCut() {
		f |= bpfEntryFlagsENTRY_CUT
	}
	if entry.Counted {
		f |= bpfEntryFlagsENTRY_COUNTED
	}
	return f
}

// UplinksInUse returns the local locators that entries of an earlier process
// send from: a successor waits for them before it writes anything.
func (p *Plane) UplinksInUse() []roam.LinkLocator {
	var out []roam.LinkLocator
	seen := make(map[uint8]bool)
	for _, row := range p.known {
		for _, path := range row.Paths[:row.N_paths] {
			if up := path >> 4; !seen[up] {
				seen[up] = true
				out = append(out, p.uplinks.owner[up])
			}
		}
	}
	return out
}
