package ilnphost

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// maxHeld bounds the first packets that are held for a session, maxPending the pending peers.
const (
	maxHeld    = 64
	maxPending = 1024
)

// plane is the data plane of one node: the contents of its maps, and the packets that its
// daemon holds. Package decide decides about packets, as it models bpf/.
type plane struct {
	host    *Node
	state   *decide.State
	rows    map[roam.LinkLocator]uint8 // of uplinks
	slots   uint32
	entries map[ilnp.SessionKey]*entry
	inOrder []*entry                       // of their keys; nil: to be sorted anew
	order   []decide.Key                   // of pending peers, the oldest first
	held    map[ilnp.SessionKey][]Datagram // packets out without a session
	excess  map[ilnp.SessionKey][]Datagram // packets out beyond the allowance of a pending peer
	unsure  map[ilnp.Pending][]Datagram    // packets in of pending peers, until they are validated
	drops   map[string]int
	read    map[ilnp.SessionKey]*ilnp.Activity // as last reported to the core
}

// entry is a session entry in the forms of the core and of the data plane.
type entry struct {
	ilnp.Entry
	session *decide.Session
}

// waits reports whether an entry is preinstalled: it serves packets of its own host only.
func (e *entry) waits() bool { return e.session.Waits() }

// lastRx returns when a packet of the peer last arrived.
func (e *entry) lastRx() time.Time { return timeOf(e.session.Seen().LastRx) }

// planeEpoch is a data plane's clock at Start, which is not 0, since 0 means never.
const planeEpoch = time.Hour

func ns(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.Sub(sim.Start) + planeEpoch)
}

// timeOf returns the time of a tick, of the first 52 days.
func timeOf(tick uint32) time.Time {
	if tick == 0 {
		return time.Time{}
	}
	return sim.Start.Add(time.Duration(tick)<<20 - planeEpoch)
}

func newPlane(h *Node) plane {
	s := decide.NewState()
	s.Host.SessionPrefix, s.Host.ProbeID, s.Host.EncapPort = roam.DefaultSessionPrefix, h.cfg.ProbeID, udpPort
	s.Host.NonceLen, s.Host.AcceptAny, s.Host.Collisions = max(h.cfg.NonceLength, 4), h.cfg.Accept == ilnp.Any, true
	s.Host.SilenceAfter = uint64(cmp.Or(h.cfg.Silence, 2*time.Second))
	copy(s.Host.NIDs[:], h.cfg.NIDs)
	s.Host.Secret[0] = h.net.Rand().Uint64()
	return plane{
		host: h, state: s, rows: make(map[roam.LinkLocator]uint8), entries: make(map[ilnp.SessionKey]*entry),
		held: make(map[ilnp.SessionKey][]Datagram), excess: make(map[ilnp.SessionKey][]Datagram),
		unsure: make(map[ilnp.Pending][]Datagram), drops: make(map[string]int),
	}
}

// updateKey returns the key of the updates of an entry. What was noted for the same key stays.
func (p *plane) updateKey(e ilnp.Entry, birth uint32) *decide.UpdateKey {
	if e.MACKey == [16]byte{} {
		return nil
	}
	if old := p.entries[e.Key]; old != nil && old.MACKey == e.MACKey && old.session.Birth == birth {
		return old.session.UpdateKey
	}
	return &decide.UpdateKey{Key: e.MACKey, Counter: e.MACCounter}
}

// upsert writes an entry. The live state of the session is kept, unless the nonces differ, as
// then it is another session.
func (p *plane) upsert(e ilnp.Entry) {
	s := p.convert(e)
	if old := p.entries[e.Key]; old == nil {
		p.slots++
		s.Slot, s.Birth, s.Live = p.slots, 1, &decide.Live{}
	} else {
		o := old.session
		p.forget(old)
		s.Slot, s.Birth, s.Live = o.Slot, o.Birth, o.Live
		if old.LocalNonce != e.LocalNonce || old.RemoteNonce.Present() && old.RemoteNonce != e.RemoteNonce {
			s.Birth++
		}
		// A core that restored an older state continues its sequence numbers from there.
		if s.Seq <= o.Seq && fmt.Sprint(old.Entry) == fmt.Sprint(e) {
			s.Seq = o.Seq
		} else {
			s.Seq = max(s.Seq, o.Seq+1)
		}
	}
	s.UpdateKey = p.updateKey(e, s.Birth)
	p.entries[e.Key], p.inOrder = &entry{Entry: e, session: s}, nil
	p.state.Put(s)
	p.list(e, s)
}

// forget removes the index of an entry.
func (p *plane) forget(e *entry) {
	s := e.session
	p.state.Take(s.Alias)
	for _, k := range collisionKeys(e.Entry) {
		if p.state.Collisions[k] == s.Alias {
			delete(p.state.Collisions, k)
		}
	}
	for _, l := range e.Accept {
		delete(p.state.Sources, decide.AllowanceKey{L64: l, Slot: s.Slot, Birth: s.Birth})
	}
}

// list indexes a session by keys other than its aliases.
func (p *plane) list(e ilnp.Entry, s *decide.Session) {
	for _, k := range collisionKeys(e) {
		p.state.Collisions[k] = s.Alias
	}
	for _, l := range e.Accept {
		if !slices.Contains(s.Remote[:], l) {
			p.state.Sources[decide.AllowanceKey{L64: l, Slot: s.Slot, Birth: s.Birth}] = true
			s.Sources++
		}
	}
}

// remove removes an entry, and the pending peer with its NID. Later packets of that peer are
// those of a pending peer.
func (p *plane) remove(key ilnp.SessionKey) {
	e := p.entries[key]
	if e == nil {
		p.dropPending(decide.Key(key))
		return
	}
	p.forget(e)
	delete(p.entries, key)
	p.evict(e)
	p.inOrder = nil
	if e.bearsName() {
		p.dropPending(decide.Key{Local: e.LocalNID, Remote: e.RemoteNID})
	}
}

// evict drops what only the session could use. The kernel does so when it needs the place: both maps are LRU.
func (p *plane) evict(e *entry) {
	maps.DeleteFunc(p.state.Allowances, func(k decide.AllowanceKey, _ *decide.Allowance) bool {
		return k.Slot == e.session.Slot
	})
	for _, o := range p.entries {
		if o.LocalNID == e.LocalNID && o.RemoteNID == e.RemoteNID {
			return
		}
	}
	maps.DeleteFunc(p.state.PathCounts, func(k decide.PathKey, _ *decide.PathCounts) bool {
		return k.Near.NID == e.LocalNID && k.Far.NID == e.RemoteNID
	})
}

// bearsName reports whether the entry's remote alias is the peer's NID.
func (e *entry) bearsName() bool { return e.Named || e.Key.Remote == e.RemoteNID }

// sync makes the entries equal to want, as a starting daemon does.
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

// release sends the held packets by the present entry.
func (p *plane) release(key ilnp.SessionKey) {
	held := slices.Concat(p.held[key], p.excess[key])
	delete(p.held, key)
	delete(p.excess, key)
	for _, d := range held {
		p.send(key, d)
	}
}

// reject drops the held packets, as the daemon does with an ICMPv6 error.
func (p *plane) reject(key ilnp.SessionKey) {
	p.drops["rejected"] += len(p.held[key]) + len(p.excess[key])
	delete(p.held, key)
	delete(p.excess, key)
}

// named returns the entry with an alias, that of its key or another one.
func (p *plane) named(key ilnp.SessionKey) *entry {
	if e := p.entries[key]; e != nil {
		return e
	}
	if s := p.state.ByNIDs[decide.Key(key)]; s != nil {
		return p.entries[ilnp.SessionKey(s.Alias)]
	}
	return nil
}

// send sends a datagram of an application.
func (p *plane) send(key ilnp.SessionKey, d Datagram) {
	p.leave(Packet{
		Src:  roam.ILV{L64: roam.DefaultSessionPrefix, NID: key.Local},
		Dst:  roam.ILV{L64: roam.DefaultSessionPrefix, NID: key.Remote},
		Data: d,
	})
}

// leave translates and sends a packet between session addresses of the host's own stack.
func (p *plane) leave(out Packet) {
	h, k := p.host, out.asSeen(0)
	if s := out.Data.segment; s != nil {
		k.Stalled, k.Queued, k.Delivered = s.again, s.from.isQueued(), uint32(s.seq/tcpSegmentSize)
	}
	p.recall(roam.ILV{NID: out.Dst.NID})
	o := p.state.Egress(ns(h.net.Now()), k)
	p.tally(o)
	if o.Action == decide.Sent {
		wire := Packet{Src: o.Src, Dst: o.Dst, Nonce: o.Nonce, Data: out.Data, Encapsulated: o.Encap}
		wire.Data.sentTo, wire.label = o.Dst.L64, o.Label
		out.Data.segment.withhold(o.Withheld)
		if out.Control != nil {
			wire.Control, _ = p.state.Host.Rewrite(k, &o) // cannot fail: this host's stack built it
			wire.typ, wire.typed = out.typ, out.typed
		}
		h.put(roam.LinkID(o.Link), wire)
	}
	for _, ev := range o.Events {
		p.tell(ev, out)
	}
}

// asSeen returns a packet as a program receives it on a link: of a datagram, its headers and
// its length.
func (p Packet) asSeen(link roam.LinkID) *decide.Packet {
	switch {
	case p.wire != nil:
		return &decide.Packet{Bytes: p.wire, Len: max(p.size(), len(p.wire)), Link: uint32(link)}
	case p.Control != nil:
		return decide.NewPacket(p.Control, uint32(link))
	}
	proto, upper := ip6.UDP, make([]byte, 8, 20)
	if d := p.Data; d.opening || d.flow == nil || d.flow.Opening {
		proto, upper = ip6.TCP, upper[:20]
		upper[12], upper[13] = 5<<4, 0x10
		if d.opening {
			upper[13] = 0x02
		}
		if s := d.segment; s != nil {
			if s.arrives != nil {
				upper = slices.Concat(upper, []byte{1, 1, 8, 10}, make([]byte, 16)) // a time stamp, as Linux has it
				if s.block {
					upper = slices.Concat(upper[:32], []byte{1, 1, 5, 10}, make([]byte, 4))
					upper = binary.BigEndian.AppendUint32(upper, s.ack+2*bulkSegment)
				}
				upper[12] = uint8(len(upper)) << 2
			}
			binary.BigEndian.PutUint16(upper, s.from.local.Port())
			binary.BigEndian.PutUint16(upper[2:], s.from.remote.Port())
			binary.BigEndian.PutUint32(upper[4:], s.seq)
			binary.BigEndian.PutUint32(upper[8:], s.ack)
		}
	}
	if f := p.Data.flow; f != nil && f.Port != 0 {
		at := 2
		if p.Data.answer {
			at = 0
		}
		binary.BigEndian.PutUint16(upper[at:], f.Port)
	}
	size, next := p.size(), proto
	b := make([]byte, ip6.HeaderLen, ip6.HeaderLen+36)
	if p.Nonce.Present() {
		b, _ = p.Nonce.AppendHeader(b, proto) // cannot fail: nonces here have 4 or 12 bytes
		next = ip6.DestOpts
	}
	b = append(b, upper...)
	binary.BigEndian.PutUint32(b, 6<<28|p.label)
	b[6], b[7] = next, ilnpwire.HopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(size-ip6.HeaderLen))
	src, dst := p.Src.Addr().As16(), p.Dst.Addr().As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return &decide.Packet{Bytes: b, Len: max(size, len(b)), Link: uint32(link)}
}

// recall looks up whether the core knows a node, and whether a record lists its locator, as the
// maps of known NIDs and of places do.
func (p *plane) recall(at roam.ILV) {
	known, anywhere := p.host.core.Listed(roam.ILV{NID: at.NID})
	if !known {
		delete(p.state.Known, at.NID)
		delete(p.state.Places, at)
		return
	}
	p.state.Known[at.NID] = anywhere
	if _, listed := p.host.core.Listed(at); listed && !anywhere {
		p.state.Places[at] = true
	} else {
		delete(p.state.Places, at)
	}
}

// receive handles a packet from the wire.
func (p *plane) receive(at *attachment, in Packet) {
	p.recall(in.Src)
	strict := p.host.stack.Strict && p.isElsewhere(in)
	if strict && in.Control == nil {
		p.drops["not followed"]++
		return
	}
	k := in.asSeen(at.link)
	o := p.state.Ingress(ns(p.host.net.Now()), k)
	p.tally(o)
	if strict {
		p.stay(in)
		isMove := func(ev decide.Event) bool { return ev.Kind == decide.LocatorSeen }
		o.Events = slices.DeleteFunc(o.Events, isMove)
	}
	switch {
	case o.Action == decide.Answered:
		p.answer(at, k, &o)
	case o.Action == decide.Delivered && in.Control != nil:
		p.echo(in, &o)
	case o.Action == decide.Delivered:
		p.host.deliver(ilnp.SessionKey{Local: o.Dst.NID, Remote: o.Src.NID}, in.Data)
	case o.Action == decide.Left && o.Verdict == decide.PassOn:
		p.drops["no session"]++
	}
	for _, ev := range o.Events {
		p.tell(ev, in)
	}
}

// answer sends the reply to a probe, on the probe's own path.
func (p *plane) answer(at *attachment, k *decide.Packet, o *decide.Outcome) {
	b, err := p.state.Host.Rewrite(k, o)
	if err != nil {
		p.drops["answer"]++
		return
	}
	p.host.put(at.link, Packet{
		Src: o.Src, Dst: o.Dst, Nonce: o.Nonce, Control: b, Encapsulated: o.Encap, typ: ilnpwire.TypeEchoReply, typed: true,
	})
}

// echo answers a probe as the host's own stack does. The programs deliver a probe to the stack
// if the nonce of the reply differs in length.
func (p *plane) echo(in Packet, o *decide.Outcome) {
	q, err := ilnpwire.ParseControl(in.Control, udpPort)
	if err != nil {
		return
	}
	e, err := ilnpwire.ParseEcho(q.Payload)
	if err != nil || !e.Request {
		return
	}
	if b, err := ilnpwire.BuildEcho(o.Dst, o.Src, Nonce{}, false, e.ID, e.Seq, e.Data); err == nil {
		p.leave(Packet{Src: o.Dst, Dst: o.Src, Control: b, typ: ilnpwire.TypeEchoReply, typed: true})
	}
}

// tally adds to the counters, drop reasons included.
func (p *plane) tally(o decide.Outcome) {
	if o.Verdict == decide.Shot || o.Verdict == decide.Consumed {
		for _, c := range o.Counters {
			p.drops[c.String()]++
		}
	}
}

// activity returns the counts of sessions, in the order of keys.
func (p *plane) activity() []ilnp.Activity {
	as := make([]ilnp.Activity, 0, len(p.entries))
	for _, e := range p.sorted() {
		l := e.session.Seen()
		asks := l.Asked && p.host.net.Acquainted && !p.host.net.isOther(e.RemoteNID)
		as = append(as, ilnp.Activity{
			Key: e.Key, LastRx: timeOf(l.LastRx), LastTx: timeOf(l.LastTx),
			LastNonceRx: timeOf(l.LastNonceRx), NonceAt: l.NonceAt,
			WithNonce: l.WithNonce, WithoutNonce: boolCount(l.Bare), Asks: asks, AsksPerFlow: asks && l.AskedPerFlow,
			AsksCounts: asks && l.AskedCounts, AsksAnswers: asks && l.AskedAnswers, Flows: flowsOf(e.session),
		})
	}
	return as
}

// changes returns the activity of the sessions of which it has changed since it was called last,
// and of the watched ones.
func (p *plane) changes(watched []ilnp.SessionKey) []ilnp.Activity {
	if len(p.entries) == 0 {
		p.read = nil
		return nil
	}
	if p.host.net.AllCounts {
		return p.activity()
	}
	was := p.read
	p.read = make(map[ilnp.SessionKey]*ilnp.Activity, len(p.entries))
	return slices.DeleteFunc(p.activity(), func(a ilnp.Activity) bool {
		seen := a
		seen.Flows = nil
		old := was[a.Key]
		if old != nil && *old == seen {
			p.read[a.Key] = old
			return !slices.Contains(watched, a.Key)
		}
		p.read[a.Key] = &seen
		return false
	})
}

// flowsOf returns what the connections of a session have sent; nil: that is not counted.
func flowsOf(s *decide.Session) *multipath.Flows {
	if s.Table == nil || s.Flags&decide.Placed == 0 {
		return nil
	}
	f := multipath.Flows(s.Table.Bytes)
	return &f
}

func boolCount(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// sorted returns the entries in the order of keys. In the order of the map, runs of one seed
// would differ. The slice does not change with the entries.
func (p *plane) sorted() []*entry {
	if p.inOrder != nil {
		return p.inOrder
	}
	es := make([]*entry, 0, len(p.entries))
	for _, e := range p.entries {
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Key.Remote, b.Key.Remote), cmp.Compare(a.Key.Local, b.Key.Local))
	})
	p.inOrder = es
	return es
}

// flows returns what the connections of a session have sent.
func (h *Node) flows(k ilnp.SessionKey) *multipath.Flows {
	if e := h.plane.entries[k]; e != nil {
		return flowsOf(e.session)
	}
	return nil
}

// pathCounts returns what was counted along a path of a session.
func (h *Node) pathCounts(k ilnp.SessionKey, path ilnp.Path) (ilnp.PathCounts, bool) {
	p := &h.plane
	e := p.entries[k]
	if e == nil {
		return ilnp.PathCounts{}, false
	}
	key := decide.PathKey{
		Near: roam.ILV{L64: path.Local.L64, NID: e.LocalNID}, Far: roam.ILV{L64: path.Remote, NID: e.RemoteNID},
	}
	c := p.state.PathCounts[key]
	if c == nil {
		return ilnp.PathCounts{}, false
	}
	return ilnp.PathCounts{
		Epoch: c.Epoch, Told: uint8(c.Told), IsTold: c.Told&decide.CostTold != 0, Sent: multipath.Traffic(c.Sent),
		Received: multipath.Traffic(c.Received),
	}, true
}
