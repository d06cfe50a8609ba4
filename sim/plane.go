package sim

import (
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// silenceAfter is how long an entry may send without hearing before that is
// told, and how often it is told again.
const silenceAfter = 2 * time.Second

// maxHeld bounds the first packets that wait for their session, maxPending the
// correspondents that showed a nonce and have no session.
const (
	maxHeld    = 64
	maxPending = 1024
)

// plane is the data plane of one node; it stands for bpf/.
type plane struct {
	host    *Node
	secret  uint64
	entries map[ilnp.SessionKey]*entry
	pending map[ilnp.SessionKey]pending // by the NIDs
	order   []ilnp.SessionKey           // of pending peers, the oldest first
	held    map[ilnp.SessionKey][]Datagram
	unsure  map[ilnp.Pending][]Datagram // of pending peers, until they are validated
	drops   map[string]int
	writes  uint64 // of entries
}

// pair is an entry with what was seen of it.
type entry struct {
	ilnp.Entry
	written             uint64 // the count of writes then
	learned             Nonce  // of an Initiated pair
	hint                roam.L64
	hintLink            roam.LinkID
	hinted              uint32 // the Seq that the hint is for
	bytes               [ilnp.MaxPaths]int
	lastRx, lastTx      time.Time
	lastNonceRx         time.Time
	unanswered, silence time.Time
	lived               uint32 // the Seq for which life was told
	asks                bool   // a probe came, as Roam sends them
	nonceAt             roam.L64
	from                map[roam.L64]*tally
}

// tally is what has come from a locator that is not validated.
type tally struct{ bytes, packets int }

type pending struct {
	remote, local roam.ILV
	link          roam.LinkID
	shown, own    Nonce
	encap         bool // the path drops options: answered without, known by its place
	sent          int  // packets that have gone there
}

// waits reports whether an entry is there for packets of its own host only.
func (e *entry) waits() bool { return e.Preinstalled && e.lastTx.IsZero() }

func newPlane(h *Node) plane {
	return plane{
		host: h, secret: h.net.rand.Uint64(), entries: make(map[ilnp.SessionKey]*entry),
		pending: make(map[ilnp.SessionKey]pending), held: make(map[ilnp.SessionKey][]Datagram),
		unsure: make(map[ilnp.Pending][]Datagram), drops: make(map[string]int),
	}
}

// upsert writes an entry. What was counted of the paths starts anew, as the
// paths may be others; what was seen of the correspondent stays, unless its
// nonces show that it is another session.
func (p *plane) upsert(e ilnp.Entry) {
	old := p.entries[e.Key]
	if old == nil || old.LocalNonce != e.LocalNonce || old.RemoteNonce.Present() && old.RemoteNonce != e.RemoteNonce {
		old = &entry{}
		p.entries[e.Key] = old
	}
	p.writes++
	old.Entry, old.written = e, p.writes
	old.bytes = [ilnp.MaxPaths]int{}
}

// remove forgets an entry, and the pending peer of that name; what arrives for it is a
// pending peer's from now on.
func (p *plane) remove(key ilnp.SessionKey) {
	p.dropPending(key)
	if e := p.entries[key]; e != nil {
		p.dropPending(ilnp.SessionKey{Local: e.LocalNID, Remote: e.RemoteNID})
		delete(p.entries, key)
	}
}

// sync makes the entries equal to want, as a daemon that starts does.
func (p *plane) sync(want []ilnp.Entry) {
	for _, e := range p.sorted() {
		if !slices.ContainsFunc(want, func(w ilnp.Entry) bool { return w.Key == e.Key }) {
			p.remove(e.Key)
		}
	}
	for _, w := range want {
		p.upsert(w)
	}
}

// release sends the held first packets again, under the entry that exists now.
func (p *plane) release(key ilnp.SessionKey) {
	held := p.held[key]
	delete(p.held, key)
	for _, d := range held {
		p.send(key, d)
	}
}

// reject gives the held first packets up, as an unreachable error would.
func (p *plane) reject(key ilnp.SessionKey) {
	p.drops["rejected"] += len(p.held[key])
	delete(p.held, key)
}

// admit delivers what was held of a pending peer, in order.
func (p *plane) admit(o ilnp.Admit) {
	held := p.unsure[o.Pending]
	delete(p.unsure, o.Pending)
	for _, d := range held {
		p.host.deliver(o.Key, d)
	}
}

// dismiss drops what was held of a pending peer, and what is remembered of it.
func (p *plane) dismiss(o ilnp.Dismiss) {
	p.drops["dismissed"] += len(p.unsure[o.Pending])
	delete(p.unsure, o.Pending)
	if e, ok := p.pending[o.Key]; ok && e.shown == o.Pending.Nonce {
		p.dropPending(o.Key)
	}
}

// named returns the entry with an alias, be it that of its key or another one.
func (p *plane) named(key ilnp.SessionKey) *entry {
	if e := p.entries[key]; e != nil {
		return e
	}
	var last *entry
	for _, e := range p.entries {
		if e.Named && e.LocalNID == key.Local && e.RemoteNID == key.Remote && (last == nil || e.written > last.written) {
			last = e
		}
	}
	return last
}

// send takes a datagram from an application.
func (p *plane) send(key ilnp.SessionKey, d Datagram) {
	at, isPending := p.pending[key]
	if e := p.named(key); e != nil && !(isPending && e.waits()) {
		p.sendInSession(e, d)
		if e.Preinstalled && e.State != ilnp.Plain && !e.waits() {
			p.host.observe(ilnp.Observation{Trigger: ilnp.SeenFirst, Key: e.Key})
		}
		return
	}
	if e := at; isPending {
		e.sent++
		p.pending[key] = e
		out := Packet{Src: e.local, Dst: e.remote, Nonce: e.own, Data: d}
		if e.encap {
			out.Nonce = Nonce{}
		}
		p.host.put(e.link, out)
		return
	}
	if len(p.held[key]) >= maxHeld {
		p.drops["queue full"]++
		return
	}
	p.held[key] = append(p.held[key], d)
	p.host.observe(ilnp.Observation{Trigger: ilnp.SeenMiss, Key: key, LocalNID: key.Local})
}

// sendInSession chooses the path that has carried the fewest bytes; a locator that
// the nonce was just seen from goes before what the entry says.
func (p *plane) sendInSession(e *entry, d Datagram) {
	now := p.host.net.now
	if e.Dead && e.lived != e.Seq {
		p.drops["dead"]++
		return
	}
	best := -1
	for i := range e.Paths {
		if best < 0 || e.bytes[i] < e.bytes[best] {
			best = i
		}
	}
	if best < 0 {
		p.drops["no path"]++
		return
	}
	e.bytes[best] += d.Size
	path := e.Paths[best]
	if e.hinted == e.Seq && e.hint != 0 && !e.Unconfirmed {
		path.Remote = e.hint
	}
	d.sentTo = path.Remote
	packet := Packet{
		Src: roam.ILV{NID: e.LocalNID, L64: path.Local.L64}, Dst: roam.ILV{NID: e.RemoteNID, L64: path.Remote}, Data: d,
	}
	if e.State == ilnp.Initiated || e.State == ilnp.Established && !e.Encap && (now.Before(e.NonceUntil) || d.opening) {
		packet.Nonce = e.LocalNonce
	}
	e.lastTx = now
	p.host.put(path.Local.Link, packet)
	p.watch(e, now)
}

// watch tells when an entry sends and hears nothing.
func (p *plane) watch(e *entry, now time.Time) {
	switch {
	case e.unanswered.IsZero():
		e.unanswered = now
	case e.State == ilnp.Established && now.Sub(e.unanswered) >= silenceAfter && now.Sub(e.silence) >= silenceAfter:
		e.silence = now
		p.host.observe(ilnp.Observation{Trigger: ilnp.SeenSilence, Key: e.Key})
	}
}

// entryFor finds the entry that a packet from outside speaks to: by the NIDs, or,
// when several correspondents claim one, by its nonce or by where it came from.
func (p *plane) entryFor(in Packet) *entry {
	at := p.entries[ilnp.SessionKey{Local: in.Dst.NID, Remote: in.Src.NID}]
	if at != nil && at.waits() {
		at = nil
	}
	last := uint64(0) // who was written last has what several have been validated at
	for _, e := range p.entries {
		switch {
		case e.RemoteNID != in.Src.NID || e.LocalNID != in.Dst.NID:
		case in.Nonce.Present() && e.RemoteNonce == in.Nonce:
			return e
		case e.Key.Remote != e.RemoteNID && e.written > last && slices.Contains(e.Validated, in.Src.L64):
			at, last = e, e.written
		}
	}
	return at
}

// receive takes a packet from the wire.
func (p *plane) receive(at *attachment, in Packet) {
	if in.Control != nil && messageType(in) == ilnpwire.TypeParameterProblem {
		p.hand(at, in)
		return
	}
	e := p.entryFor(in)
	switch {
	case e != nil:
		p.receiveInSession(at, e, in)
	case in.Nonce.Present() && (p.host.cfg.Accept == ilnp.Any || p.knows(in.Src.NID)):
		p.receivePending(at, in, nil)
	case p.speaksForPending(in):
		p.host.deliver(ilnp.SessionKey{Local: in.Dst.NID, Remote: in.Src.NID}, in.Data)
	default:
		p.drops["no session"]++
	}
}

// speaksForPending reports whether data without nonce comes from where a pending peer
// showed one in UDP.
func (p *plane) speaksForPending(in Packet) bool {
	e, ok := p.pending[ilnp.SessionKey{Local: in.Dst.NID, Remote: in.Src.NID}]
	return ok && e.encap && e.remote == in.Src && in.Control == nil
}

// knows reports whether a node may open a session while accept is "known".
func (p *plane) knows(nid roam.NID) bool {
	known, _ := p.host.core.Listed(roam.ILV{NID: nid})
	return known
}

// isUnsure reports whether nothing of a pending peer is delivered yet: its NID is a
// known one, and neither record nor session has that at its locator. The session of a
// pending peer with that NID does not count: what is answered under the NID would be the
// pending peer's.
func (p *plane) isUnsure(in Packet, e *entry) bool {
	known, listed := p.host.core.Listed(in.Src)
	return known && !listed && (e == nil || !e.bearsName() || !slices.Contains(e.Accept, in.Src.L64))
}

// bearsName reports whether the NID of the correspondent is an alias of the entry.
func (e *entry) bearsName() bool { return e.Named || e.Key.Remote == e.RemoteNID }

// messageType returns the ICMPv6 type of a control packet.
func messageType(in Packet) uint8 {
	if in.typed || in.Control == nil {
		return in.typ
	}
	q, err := ilnpwire.ParseControl(in.Control, udpPort)
	if err != nil {
		return 0
	}
	return q.Type
}

// hand gives a control packet to the core.
func (p *plane) hand(at *attachment, in Packet) {
	p.host.core.HandlePacket(p.host.net.now, at.link, in.Control)
	p.host.Settle()
}

// authentic applies the rules of the nonce; false: another node, or none.
func (p *plane) authentic(at *attachment, e *entry, in Packet) (ok, other bool) {
	known := slices.Contains(e.Accept, in.Src.L64)
	about := ilnp.Observation{Key: e.Key, Remote: in.Src, Local: roam.LinkLocator{Link: at.link, L64: at.l64}, LocalNID: in.Dst.NID, Nonce: in.Nonce, Encapsulated: in.Encapsulated, Bytes: in.size()}
	switch {
	case !in.Nonce.Present() && e.State == ilnp.Established && !e.isThere(in.Src.L64) && p.isClaimed(e, in.Src):
		return false, false
	case !in.Nonce.Present():
		return known && e.State != ilnp.Initiated && (in.Control == nil || e.State == ilnp.Plain), false
	case e.State == ilnp.Plain:
		return false, true
	case !e.RemoteNonce.Present():
		if !known {
			return false, true
		}
		if !e.learned.Present() {
			e.learned = in.Nonce
			about.Trigger = ilnp.SeenNonce
			p.host.observe(about)
		}
		return e.learned == in.Nonce, e.learned != in.Nonce
	case in.Nonce != e.RemoteNonce:
		return false, true
	}
	if !known && p.host.stack.Strict {
		return in.Control != nil, false
	}
	e.lastNonceRx = p.host.net.now
	if in.Control == nil {
		e.nonceAt = in.Dst.L64
	}
	if !known && (e.Unconfirmed || e.hinted != e.Seq || e.hint != in.Src.L64) {
		e.hint, e.hintLink, e.hinted = in.Src.L64, at.link, e.Seq
		about.Trigger = ilnp.SeenLocator
		p.host.observe(about)
	}
	return known || !e.Unconfirmed, false // whoever made that nonce up could be anywhere
}

// isClaimed reports whether what comes from there may be another node's with the
// correspondent's NID: one that has shown its nonce, or, if no record names the
// correspondent, one that has not spoken yet.
func (p *plane) isClaimed(e *entry, at roam.ILV) bool {
	if e.Unrecorded && !e.sendsOnlyTo(at.L64) {
		return true
	}
	other, ok := p.pending[ilnp.SessionKey{Local: e.LocalNID, Remote: e.RemoteNID}]
	return ok && other.remote == at && other.shown != e.RemoteNonce
}

// sendsOnlyTo reports whether all that is sent goes to one locator.
func (e *entry) sendsOnlyTo(l roam.L64) bool {
	elsewhere := func(p ilnp.Path) bool { return p.Remote != l }
	if e.hinted == e.Seq && e.hint != 0 && e.hint != l {
		return false
	}
	return len(e.Paths) > 0 && !slices.ContainsFunc(e.Paths, elsewhere) && !slices.ContainsFunc(e.Reserve, elsewhere)
}

// receiveInSession takes a packet that speaks to an entry: data for the application,
// control packets for the core, probes back to where they came from.
func (p *plane) receiveInSession(at *attachment, e *entry, in Packet) {
	ok, other := p.authentic(at, e, in)
	if other {
		p.receivePending(at, in, e)
		return
	}
	if !ok && e.Unconfirmed && in.Control != nil && messageType(in) == ilnpwire.TypeEchoReply {
		p.hand(at, in) // its token tells whose answer it is
		return
	}
	if !ok {
		p.drops["not authentic"]++
		return
	}
	now := p.host.net.now
	e.lastRx, e.unanswered = now, time.Time{}
	p.tally(e, in)
	if e.Dead && e.lived != e.Seq {
		e.lived = e.Seq
		p.host.observe(ilnp.Observation{Trigger: ilnp.SeenLife, Key: e.Key, Remote: in.Src})
	}
	switch {
	case in.Control == nil:
		p.host.deliver(e.Key, in.Data)
	case messageType(in) == ilnpwire.TypeEchoRequest:
		e.asks = e.asks || p.host.net.Acquainted && !p.host.net.isOther(in.Src.NID)
		p.reflect(at, in, e.LocalNonce)
	case p.host.stack.ignores(e, in):
		p.drops["update ignored"]++
	default:
		p.hand(at, in)
	}
}

// tally counts what comes from a locator that is not validated, and tells of it at
// each power of two.
func (p *plane) tally(e *entry, in Packet) {
	if slices.Contains(e.Accept, in.Src.L64) && !slices.Contains(e.Unvalidated, in.Src.L64) {
		return
	}
	if e.from == nil {
		e.from = make(map[roam.L64]*tally)
	}
	t := e.from[in.Src.L64]
	if t == nil {
		t = &tally{}
		e.from[in.Src.L64] = t
	}
	t.bytes, t.packets = t.bytes+in.size(), t.packets+1
	if t.packets&(t.packets-1) == 0 {
		p.host.observe(ilnp.Observation{Trigger: ilnp.SeenMore, Key: e.Key, Remote: in.Src, Bytes: t.bytes, Packets: t.packets})
	}
}

// reflect answers a probe on the path that it took.
func (p *plane) reflect(at *attachment, in Packet, own Nonce) {
	q, err := ilnpwire.ParseControl(in.Control, udpPort)
	if err != nil {
		return
	}
	e, err := ilnpwire.ParseEcho(q.Payload)
	if err != nil || !e.Request {
		return
	}
	b, err := ilnpwire.BuildEcho(in.Dst, in.Src, own, false, e.ID, e.Seq, e.Data)
	if err == nil && q.OverNIDs {
		err = ilnpwire.FinishOverNIDs(b) // the sum stays as it came
	}
	if err == nil && in.Encapsulated {
		b, err = ilnpwire.Encapsulate(b, udpPort)
	}
	if err != nil {
		return
	}
	p.host.put(at.link, Packet{Src: in.Dst, Dst: in.Src, Nonce: own, Control: b, Encapsulated: in.Encapsulated})
}

// activity returns what was counted, in the order of keys.
func (p *plane) activity() []ilnp.Activity {
	var as []ilnp.Activity
	for _, e := range p.sorted() {
		as = append(as, ilnp.Activity{
			Key: e.Key, LastRx: e.lastRx, LastTx: e.lastTx, LastNonceRx: e.lastNonceRx, NonceAt: e.nonceAt, Asks: e.asks,
		})
	}
	return as
}

// sorted returns the entries in the order of keys: a map's order would make
// each run another one.
func (p *plane) sorted() []*entry {
	es := make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b *entry) int {
		if a.Key.Remote != b.Key.Remote {
			if a.Key.Remote < b.Key.Remote {
				return -1
			}
			return 1
		}
		if a.Key.Local < b.Key.Local {
			return -1
		}
		return 1
	})
	return es
}
