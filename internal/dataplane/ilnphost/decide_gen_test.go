package ilnphost

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// Who and where the correspondents of generated cases are. A small choice makes packets
// meet sessions.
var (
	ownNIDs        = []roam.NID{ours, ours + 0x10}
	remoteNIDs     = []roam.NID{theirs, theirs + 0x100, theirs + 0x200}
	aliasNIDs      = []roam.NID{0x0200_0000_0000_0001, 0x0200_0000_0000_0002}
	ownLocators    = []roam.L64{here, here + 1, here + 2}
	remoteLocators = []roam.L64{there, else1, else2, else2 + 1, else2 + 2, else2 + 3, else2 + 4, else2 + 5, else2 + 6, else2 + 7}
	shortNonces    = []ilnp.Nonce{theirNonce, ourNonce, {Len: 4, Bytes: [12]byte{1, 1, 1, 1}}, {Len: 4, Bytes: [12]byte{2, 2, 2, 2}}}
	longNonces     = []ilnp.Nonce{longNonce, {Len: 12, Bytes: [12]byte{3: 7, 11: 9}}}
)

// The second link of the host that the cases are on, the near end of a veth pair whose
// other end nobody listens to, and the pair that stands for the segmentation device.
const (
	otherLink = roam.LinkID(2)
	segLink   = roam.LinkID(4)
)

// gen draws worlds and packets.
type gen struct {
	*rand.Rand
	now  uint64
	last []byte // that left, as on the wire; nil: none
}

func pick[T any](g *gen, list ...T) T { return list[g.IntN(len(list))] }

// in reports true once in n times.
func (g *gen) in(n int) bool { return g.IntN(n) == 0 }

// ago is a moment in the past, never close to where a decision turns; or never.
func (g *gen) ago() uint64 {
	if g.in(4) {
		return 0
	}
	return g.now - pick[uint64](g, 5, 120, 380, 1200, 2500, 4000, 8000, 40000)*1e6
}

func (g *gen) nonce() ilnp.Nonce {
	if g.in(5) {
		return pick(g, longNonces...)
	}
	return pick(g, shortNonces...)
}

// few is a small number, mostly.
func (g *gen) few() uint64 { return pick[uint64](g, 0, 1, 2, 3, 7, 15, 100, 5000, 100000) }

func pairs() (ks []bpfSessionKey) {
	for _, o := range ownNIDs {
		for _, r := range slices.Concat(remoteNIDs, aliasNIDs) {
			ks = append(ks, bpfSessionKey{Local: half(uint64(o)), Remote: half(uint64(r))})
		}
	}
	return ks
}

// world draws what the maps hold. h has what is not drawn.
func (g *gen) world(h bpfHost) *world {
	w := newWorld()
	w.host = g.host(h)
	for i := range 4 {
		w.uplinks[i] = g.uplink(i)
	}
	for i := range g.IntN(4) {
		g.session(w, i)
	}
	for _, n := range remoteNIDs {
		if g.in(2) {
			w.known[half(uint64(n))] = pick[uint8](g, 1, 1, 2)
		}
		for _, l := range remoteLocators[:4] {
			if g.in(3) {
				w.places[bpfAddr{L64: half(uint64(l)), Nid: half(uint64(n))}] = 1
			}
		}
	}
	for _, l := range ownLocators {
		if g.in(4) {
			w.obstructed[bpfObstructionKey{LocalL64: half(uint64(l))}] = 1
		}
		for _, r := range remoteLocators[:5] {
			if g.in(4) {
				k := bpfObstructionKey{LocalL64: half(uint64(l)), Remote: bpfAddr{L64: half(uint64(r)), Nid: half(uint64(theirs))}}
				w.obstructed[k] = uint8(g.IntN(2))
			}
		}
	}
	g.counted(w)
	for _, k := range pairs() {
		if g.in(6) {
			w.pending[k] = g.pendingPeer()
		}
		if g.in(5) {
			w.plainNodes[k] = 1
		}
	}
	for i := range w.windows {
		w.windows[i] = bpfRateWindow{Since: g.now - pick[uint64](g, 5, 150, 1000, 9000)*1e6, Last: pick[uint32](g, 0, 0, 0, 0, 50, 5000), Now: pick[uint32](g, 0, 0, 99, 1599, 1700)}
	}
	w.marks = g.marks()
	for i, p := range w.sessions {
		g.line(p, &w.lives[i])
	}
	return w
}

// counted draws what went along some paths.
func (g *gen) counted(w *world) {
	for _, l := range ownLocators {
		for _, r := range remoteLocators[:3] {
			if g.in(3) {
				k := bpfPathKey{
					Near: bpfAddr{L64: half(uint64(l)), Nid: half(uint64(ours))},
					Far:  bpfAddr{L64: half(uint64(r)), Nid: half(uint64(theirs))},
				}
				w.counts[k] = bpfPathCounts{Epoch: 7, RxPackets: g.few(), RxBytes: g.Uint64(), TxPackets: g.few(), TxBytes: g.few()}
			}
		}
	}
}

// marks draws where sockets may be, whatever sockets there are: those of the test were made
// without hooks.
func (g *gen) marks() decide.Marks {
	m := decide.Marks{Of: map[uint16]uint32{}, Valid: pick[uint32](g, 0, 3)}
	for _, port := range ownPorts {
		m.Of[port] = pick[uint32](g, 0, 0, 2, 3, 4)
	}
	for _, nid := range remoteNIDs {
		m.Of[decide.NodeMark(nid)] = pick[uint32](g, 0, 0, 2, 3, 4)
	}
	return m
}

func (g *gen) host(h bpfHost) bpfHost {
	h.Nids = [4]bpfHalf{half(uint64(ownNIDs[0])), half(uint64(ownNIDs[1]))}
	for i := range h.Secret {
		h.Secret[i] = g.Uint64()
	}
	h.Epoch = uint32(g.IntN(2))
	h.Flags = bpfHostFlags(g.IntN(16))
	if g.in(4) {
		h.Flags &^= bpfHostFlagsHOST_OBSTRUCTED
	}
	h.NonceLen = pick[uint8](g, 4, 4, 12)
	h.Segdev = pick(g, 0, uint32(segLink))
	h.Reals = [8]bpfAddr{}
	for i := range g.IntN(4) {
		h.Reals[i] = bpfAddr{L64: half(uint64(ownLocators[i])), Nid: half(uint64(pick(g, ours, ours, 5)))}
	}
	return h
}

func (g *gen) uplink(i int) bpfUplink {
	if i == 3 {
		return bpfUplink{}
	}
	u := bpfUplink{L64: half(uint64(ownLocators[i])), Ifindex: uint32(loopback), Mtu: pick[uint32](g, 1500, 1500, 1280, 9000)}
	if i == 1 {
		u.Ifindex = uint32(otherLink)
	}
	if !g.in(9) {
		u.Flags |= bpfUplinkFlagsUPLINK_USABLE
	}
	if g.in(4) {
		u.Flags |= bpfUplinkFlagsUPLINK_PHYSICAL
	}
	return u
}

// session adds a session, with what was seen of it, and what leads to it.
func (g *gen) session(w *world, i int) {
	// The first two correspondents may have one NID.
	p := bpfSessionEntry{
		Slot: uint32(i), Seq: uint32(1 + g.IntN(3)), Birth: uint32(1 + g.IntN(2)),
		LocalNid: half(uint64(ours)), RemoteNid: half(uint64(pick(g, remoteNIDs[0], remoteNIDs[i]))),
	}
	p.Alias = nidsOf(p)
	used := slices.ContainsFunc(w.sessions, func(o bpfSessionEntry) bool { return o.Alias == p.Alias || nidsOf(o) == nidsOf(p) })
	if used || g.in(4) {
		p.Alias.Remote = half(uint64(aliasNIDs[0] + roam.NID(i)))
		p.Flags |= bpfEntryFlagsENTRY_BY_ALIAS
		if !used && g.in(2) {
			p.Flags |= bpfEntryFlagsENTRY_NAMED
		}
	}
	g.flags(&p)
	g.remotes(w, &p)
	g.paths(&p)
	p.NonceUntil = nonceUntil(pick(g, 0, g.now-5e9, g.now, g.now+60e9))
	p.Grace = pick[uint16](g, 20, 200, 2000)
	p.LocalNonce = nonce(g.nonce())
	if p.Flags&bpfEntryFlagsENTRY_INITIATED == 0 || g.in(4) {
		p.RemoteNonce = nonce(g.nonce())
	}
	delta := ip6.Add(sum(p.RemoteNid.uint64()), ^sum(p.Alias.Remote.uint64()))
	p.NidDelta = [2]uint8{uint8(delta >> 8), uint8(delta)}
	if p.Flags&bpfEntryFlagsENTRY_BY_ALIAS != 0 {
		for _, k := range collisionKeys(p, remoteLocators[:g.IntN(4)]) {
			w.collisions[k] = p.Alias
		}
	}
	for range g.IntN(4) {
		k := bpfFlowKey{Alias: p.Alias}
		binary.BigEndian.PutUint16(k.Ports[:], pick(g, ownPorts...))
		binary.BigEndian.PutUint16(k.Ports[2:], pick(g, remotePorts...))
		w.flows = append(w.flows, k)
		w.plainFlows[k] = bpfFlowEnds{LocalL64: half(uint64(pick(g, ownLocators...))), RemoteL64: half(uint64(pick(g, remoteLocators...)))}
	}
	for range g.IntN(3) {
		k := bpfAllowanceKey{L64: half(uint64(pick(g, remoteLocators...))), Slot: p.Slot, Birth: p.Birth}
		w.allowances[k] = bpfAllowance{Since: g.ago(), RxBytes: g.few() * 20, TxBytes: g.few() * 20, TxPackets: g.few(), RxPackets: g.few()}
	}
	if g.in(2) {
		g.tightAllowances(w, p)
	}
	g.placed(w, &p)
	g.keyed(w, &p)
	g.fragmented(w, p)
	w.sessions = append(w.sessions, p)
	w.lives = append(w.lives, g.live(p))
}

// tightAllowances has the unvalidated locators of a session permit about one packet more: by
// the bytes that came from there, or by the packets.
func (g *gen) tightAllowances(w *world, p bpfSessionEntry) {
	for i := range p.N_remote {
		if p.Unvalidated>>i&1 == 0 {
			continue
		}
		a := bpfAllowance{Since: g.now - 380e6, RxBytes: 1e6, RxPackets: 1, TxPackets: uint64(g.IntN(3))}
		if g.in(2) {
			a.RxBytes, a.RxPackets = uint64(pick(g, 30, 50, 800, 1600)), 1e6
		}
		w.allowances[bpfAllowanceKey{L64: p.Remote[i], Slot: p.Slot, Birth: p.Birth}] = a
	}
}

// flagOdds says how rare each flag of an entry is.
var flagOdds = []struct {
	flag bpfEntryFlags
	odds int
}{
	{bpfEntryFlagsENTRY_DEAD, 8}, {bpfEntryFlagsENTRY_RFC6741, 3}, {bpfEntryFlagsENTRY_RULE_SOUGHT, 3},
	{bpfEntryFlagsENTRY_NONCE_ALWAYS, 4}, {bpfEntryFlagsENTRY_REAL_SOCKETS, 3}, {bpfEntryFlagsENTRY_ENCAP, 5},
	{bpfEntryFlagsENTRY_PREINSTALLED, 4}, {bpfEntryFlagsENTRY_PER_FLOW, 4}, {bpfEntryFlagsENTRY_UNCONFIRMED, 6},
	{bpfEntryFlagsENTRY_PLAIN_FLOWS, 2}, {bpfEntryFlagsENTRY_ICMP_RFC6741, 5}, {bpfEntryFlagsENTRY_UNRECORDED, 4},
	{bpfEntryFlagsENTRY_COUNTED, 3}, {bpfEntryFlagsENTRY_NARROW, 3}, {bpfEntryFlagsENTRY_HELD, 8},
	{bpfEntryFlagsENTRY_CUT, 3},
}

func (g *gen) flags(p *bpfSessionEntry) {
	if g.in(5) { // a session whose correspondent has not answered yet
		p.Flags |= bpfEntryFlagsENTRY_INITIATED
		return
	}
	p.Flags |= pick(g, 0, 0, 0, bpfEntryFlagsENTRY_INITIATED, bpfEntryFlagsENTRY_INITIATED, bpfEntryFlagsENTRY_PLAIN)
	for _, f := range flagOdds {
		if g.in(f.odds) {
			p.Flags |= f.flag
		}
	}
}

func (g *gen) remotes(w *world, p *bpfSessionEntry) {
	order := g.Perm(len(remoteLocators))
	p.N_remote = uint8(1 + g.IntN(4))
	p.N_accept = uint8(g.IntN(5))
	for i := range p.N_remote + p.N_accept {
		p.Remote[i] = half(uint64(remoteLocators[order[i]]))
	}
	if g.in(2) {
		p.Unvalidated = uint8(g.IntN(256))
		p.Given = uint8(g.IntN(256))
	}
	if g.in(4) {
		p.N_sources = 1
		w.sources[bpfAllowanceKey{L64: half(uint64(remoteLocators[order[9]])), Slot: p.Slot, Birth: p.Birth}] = 1
	}
}

func (g *gen) paths(p *bpfSessionEntry) {
	p.N_paths = pick[uint8](g, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 6)
	p.N_reserve = uint8(g.IntN(3))
	for i := range p.N_paths + p.N_reserve {
		p.Paths[i] = uint8(g.IntN(3))<<4 | uint8(g.IntN(int(p.N_remote)))
	}
	p.First = p.Paths[0]
	if g.in(3) {
		p.Costs = g.Uint64() & pick[uint64](g, 0x3333_3333_3333_3333, 0xffff_ffff_ffff_ffff)
	}
}

// agoTicks is ago in ticks.
func (g *gen) agoTicks() uint32 { return uint32(g.ago() >> 20) }

// tally draws packets and bytes as a line has them.
func (g *gen) tally() uint64 { return g.few()<<tallyPackets | g.few() }

// The state in a line, as bpf/ilnp/types.h has it.
const (
	statePastNonces = 1 << iota
	stateHint
	stateReturned
	stateBare
	stateRule
)

// stateOf is state_of of bpf/ilnp/live.h.
func stateOf(p bpfSessionEntry, l noted, now uint64) uint32 {
	state := uint32(editionOf(p)) << stateEdition
	if l.Birth != p.Birth || l.bpfSessionDetails.Seq != p.Seq {
		return state
	}
	for bit, set := range map[uint32]bool{
		statePastNonces: now>>untilShift >= uint64(p.NonceUntil), stateHint: l.Hint != bpfHalf{},
		stateReturned: l.Returned != 0,
		stateBare:     l.Bare != 0, stateRule: isRuleSettled(p, l),
	} {
		if set {
			state |= bit
		}
	}
	return state
}

// isRuleSettled is is_rule_settled of bpf/ilnp/live.h.
func isRuleSettled(p bpfSessionEntry, l noted) bool {
	guess := bpfRuleFoundRULE_IPV6
	if p.Flags&bpfEntryFlagsENTRY_RFC6741 != 0 {
		guess = bpfRuleFoundRULE_RFC6741
	}
	return p.Flags&bpfEntryFlagsENTRY_RULE_SOUGHT == 0 || l.Rule == uint8(guess) ||
		l.Rule == 0 && l.Asks != 0 && p.Flags&bpfEntryFlagsENTRY_ENCAP == 0
}

// line makes the line of a session what its entry and its details say, but for what may not
// be there yet.
func (g *gen) line(p bpfSessionEntry, l *noted) {
	said := lineOf(p)
	l.LocalNid, l.RemoteNid, l.Remote, l.Settled = said.LocalNid, said.RemoteNid, said.Remote, said.Settled
	state := stateOf(p, *l, g.now)
	const most = statePastNonces | stateBare | stateRule
	l.State = state
	if g.in(6) {
		l.State = pick(g, 0, state&^statePastNonces, state&^stateBare, g.Uint32()|most)
	}
	if uint16(l.State>>stateEdition) == editionOf(p) && l.State&^state != 0 {
		l.State = state
	}
	if g.in(25) {
		l.Settled = 0
	}
}

func (g *gen) live(p bpfSessionEntry) (l noted) {
	l.Birth, l.bpfSessionDetails.Seq = p.Birth, p.Seq
	if g.in(4) {
		return l
	}
	ms := func() uint32 { return pick(g, 0, uint32(g.now/1e6)-pick[uint32](g, 5, 120, 500, 5000, 40000)) }
	ticks := func() uint32 { return pick(g, 0, uint32(g.now>>20)-pick[uint32](g, 10, 1000, 4000, 20000)) }
	l.bpfSessionLive = bpfSessionLive{
		UnansweredTx: g.agoTicks(), LastTx: g.agoTicks(), Tx: g.tally() | pick(g, 0, uint64(tallyRated)),
		LastRx: g.agoTicks(), Rx: g.tally(),
	}
	l.bpfSessionDetails = bpfSessionDetails{
		Birth: pick(g, p.Birth, p.Birth, p.Birth, p.Birth+1), Seq: pick(g, p.Seq, p.Seq, p.Seq-1), LifeTold: uint8(g.IntN(2)),
		TxPackets: g.few(), TxBytes: g.few(), RateLast: uint32(g.few()), RxPackets: g.few(), RxBytes: g.few(),
		SilenceTold: ticks(), Returned: ticks(), Rule: pick[uint8](g, 0, 0, 1, 2), Cuts: uint8(g.IntN(2)),
		SoughtSince: ms(), CopySent: ms(), ToldUntil: uint32(g.share() >> 16), UpdatesUntil: uint32(g.share() >> 16),
		Asks: pick[uint8](g, 0, 0, 1, 3), CopyOpen: uint8(g.IntN(2)), CopyAnswers: uint8(g.IntN(2)),
		CopyPorts: [2]uint16{hostToNet16(pick(g, remotePorts...)), hostToNet16(pick(g, ownPorts...))},
	}
	if p.Flags&bpfEntryFlagsENTRY_RULE_SOUGHT != 0 && g.in(2) { // a probe copy is on its way
		l.Rule, l.CopyOpen, l.CopySent = 0, 1, uint32(g.now/1e6)-2
	}
	if g.in(12) { // as much as a line has room for without the next packet
		l.Rx |= 1<<62 | 1<<(tallyPackets-1)
	}
	if g.in(2) {
		l.Hint = half(uint64(pick(g, remoteLocators...)))
	}
	if g.in(4) {
		l.Retried = 1
	}
	if g.in(3) {
		l.Learned = nonce(g.nonce())
	}
	if g.in(2) {
		l.WithNonce, l.Bare = uint32(g.IntN(3)), uint8(g.IntN(2))
	}
	for i := range l.Turns.Bytes {
		l.Turns.Bytes[i] = pick(g, uint32(g.few()), uint32(g.few()), g.Uint32())
	}
	return l
}

// share is until when a session has used its share of the ring: hardly, as much as it may,
// almost, or more.
func (g *gen) share() uint64 {
	// The edge is at 628 ms. The clock of the programs may be ahead by as long as the machine stood still while
	// they were loaded.
	return pick(g, 0, g.now+200e6, g.now+625e6, g.now+660e6, g.now+900e6, g.now+30e9)
}

func (g *gen) pendingPeer() bpfPendingPeer {
	e := bpfPendingPeer{
		RemoteL64: half(uint64(pick(g, remoteLocators[:4]...))), LocalL64: half(uint64(pick(g, ownLocators...))),
		Also:    half(uint64(pick(g, 0, remoteLocators[0], remoteLocators[1]))),
		Heard:   g.now - pick[uint64](g, 5, 900, 1500)*1e6,
		Ifindex: pick(g, 1, uint32(otherLink)), Epoch: uint16(g.IntN(2)), Encap: pick[uint8](g, 0, 0, 0, 2, 3), Cuts: uint8(g.IntN(2)),
		Since: g.now - pick[uint64](g, 5, 1500, 5000, 40000)*1e6, RxBytes: g.few() * 50, RxPackets: g.few(), TxBytes: g.few() * 20, TxPackets: g.few(),
		Rule: bpfRuleFound(g.IntN(3)), Given: uint32(g.IntN(2)), Next: uint32(g.IntN(4)), SynAck: pick(g, 0, g.Uint64()|1), Guesses: pick[uint32](g, 0, 63),
	}
	if !g.in(5) {
		e.RemoteNonce = nonce(g.nonce())
	}
	if g.in(3) { // it may be answered
		e.RxBytes, e.RxPackets, e.TxBytes, e.TxPackets = 9000, 9, 100, 1
	}
	for i := range e.Others {
		if g.in(3) {
			e.Others[i].Nonce = nonceWord(g.nonce())
			e.Others[i].L64 = half(uint64(pick(g, remoteLocators[:4]...)))
			e.Others[i].Encap = uint64(g.IntN(2))
		}
	}
	return e
}

// nonceWord is nonce_id of bpf/lib/session.h.
func nonceWord(n ilnp.Nonce) uint64 {
	first, rest := binary.LittleEndian.Uint64(n.Bytes[:]), binary.LittleEndian.Uint32(n.Bytes[8:])
	return first ^ uint64(rest)<<16 ^ uint64(n.Len)<<56 | 1
}

// shot draws a packet and where it is.
func (g *gen) shot(w *world) shotAt {
	if s, ok := g.answer(w); ok && !g.in(3) {
		return s
	}
	if s, ok := g.sealed(w); ok {
		return s
	}
	switch {
	case g.in(60):
		return g.atUplink()
	case g.in(3):
		return g.outward(w)
	}
	return g.inward(w)
}

// atUplink draws a packet that leaves by an uplink, with none or one address of a session.
func (g *gen) atUplink() shotAt {
	src, dst := at(here, ours), at(there, theirs)
	if g.in(2) {
		src = session(ours)
	} else if g.in(2) {
		dst = session(theirs)
	}
	k := decide.NewPacket(packet(src, dst, ip6.UDP, udp(9)), uint32(otherLink))
	k.Arrived = pick(g, 0, uint32(otherLink), uint32(loopback)) // an answer of a program has arrived there
	return shotOf(shotAt{outward: true}, k)
}

// shotOf frames a packet for the link that it is on.
func shotOf(s shotAt, k *decide.Packet) shotAt {
	s.packet, s.frame = k, frame(k.Bytes)
	if roam.LinkID(k.Link) == otherLink {
		copy(s.frame, otherMAC)
	}
	if k.Astray {
		copy(s.frame, theirMAC)
	}
	if k.Other {
		s.frame[12], s.frame[13] = 8, 0
	}
	return s
}

var otherMAC = []byte{2, 0, 0, 0, 0, 1}
