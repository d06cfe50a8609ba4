package ilnphost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"

	"roam"
	"roam/wire/xlate/decide"
)

// These read rows of maps as the model has them.

func (h bpfHalf) l64() roam.L64 { return roam.L64(h.uint64()) }
func (h bpfHalf) nid() roam.NID { return roam.NID(h.uint64()) }

func modelKey(k bpfSessionKey) decide.Key {
	return decide.Key{Local: k.Local.nid(), Remote: k.Remote.nid()}
}

func modelHost(h bpfHost) decide.Host {
	m := decide.Host{
		SessionPrefix: h.SessionPrefix.l64(), Secret: h.Secret, Epoch: h.Epoch,
		AcceptAny:  h.Flags&bpfHostFlagsHOST_ACCEPT_ANY != 0,
		Collisions: h.Flags&bpfHostFlagsHOST_NID_COLLISIONS != 0,
		RealNIDs:   h.Flags&bpfHostFlagsHOST_REAL_NIDS != 0,
		Obstructed: h.Flags&bpfHostFlagsHOST_OBSTRUCTED != 0,
		ProbeID:    hostToNet16(h.ProbeId), NonceLen: h.NonceLen, Segdev: h.Segdev,
		SegdevEnd: h.SegdevEnd, Device: h.Device, EncapPort: encapPort,
		SilenceAfter: 2e9, SilenceAgain: 15e9,
	}
	for i, n := range h.Nids {
		m.NIDs[i] = n.nid()
	}
	for _, r := range h.Reals {
		if r != (bpfAddr{}) {
			m.Reals = append(m.Reals, r.ilv())
		}
	}
	return m
}

func modelUplink(u bpfUplink) decide.Uplink {
	return decide.Uplink{
		L64: u.L64.l64(), Link: u.Ifindex, MTU: u.Mtu,
		Usable: u.Flags&bpfUplinkFlagsUPLINK_USABLE != 0, Physical: u.Flags&bpfUplinkFlagsUPLINK_PHYSICAL != 0,
	}
}

func modelSession(p bpfSessionEntry, l noted) *decide.Session {
	live := modelLive(l)
	m := &decide.Session{
		Flags: decide.Flags(p.Flags), Slot: p.Slot, Seq: p.Seq, Birth: p.Birth,
		LocalNID: p.LocalNid.nid(), RemoteNID: p.RemoteNid.nid(), Alias: modelKey(p.Alias),
		NonceUntil: uint64(p.NonceUntil) << untilShift,
		NRemote:    int(p.N_remote), NPaths: int(p.N_paths), NReserve: int(p.N_reserve),
		Unvalidated: p.Unvalidated, Given: p.Given,
		Sources: int(p.N_sources), NRuled: int(p.N_ruled), Rules: p.Rules, Costs: p.Costs, Grace: uint32(p.Grace) * 1e6,
		LocalNonce: p.LocalNonce.nonce(), RemoteNonce: p.RemoteNonce.nonce(), Live: &live,
	}
	for i, r := range p.Remote {
		m.Remote[i] = r.l64()
	}
	for _, b := range p.Paths[:p.N_paths+p.N_reserve+p.N_ruled] {
		m.Paths = append(m.Paths, decide.Path{Uplink: b >> 4, Remote: b & 7})
	}
	return m
}

// placed draws whether connections go by a table, apart from all else.
func (g *gen) placed(w *world, p *bpfSessionEntry) {
	own := *g
	own.Rand = rand.New(rand.NewPCG(g.now, p.Alias.Remote.uint64()+uint64(p.Costs)))
	if own.in(3) {
		p.Flags |= bpfEntryFlagsENTRY_PLACED
	}
	if !own.in(4) {
		w.tables[tableKey(tableUserOf(*p), 0)] = own.table()
		own.crossings(w, *p)
	}
	own.ruled(w, p)
}

// ruled draws whether rules match flows of a session, and where these go.
func (g *gen) ruled(w *world, p *bpfSessionEntry) {
	if !g.in(3) {
		return
	}
	p.Flags |= bpfEntryFlagsENTRY_RULED
	p.Rules, p.RulesAt = uint32(g.IntN(4)), uint8(g.IntN(2))*maxRules
	p.N_ruled = uint8(g.IntN(3))
	for i := range p.N_ruled {
		p.Paths[p.N_paths+p.N_reserve+i] = uint8(g.IntN(3))<<4 | uint8(g.IntN(int(p.N_remote)))
	}
	p.First = p.Paths[0]
	for i := range uint32(2) {
		if !g.in(4) {
			w.tables[tableKey(tableUserOf(*p), 1+uint32(p.RulesAt)+i)] = g.table()
		}
	}
}

// table draws where connections go.
func (g *gen) table() (t bpfFlowTable) {
	t.Alone, t.Several = g.Uint64(), pick[uint16](g, 1, 2, 4, 5, 6, 7, 0xffff, 0xfff0)
	t.Crossed, t.Across = g.Uint64(), pick[uint16](g, 1, 3, 6, 7, 0xffff)
	for i := range t.Waits {
		t.Waits[i] = pick[uint16](g, 1, 40, 90)
	}
	t.Longs = pick[uint16](g, 0, 1, 2, 4, 6)
	for b := range t.Ways {
		t.Ways[b], t.Bytes[b] = pick[uint8](g, 0, 0, 1, 2, 3, 15)|pick[uint8](g, 0, 1, 2, 15)<<4, uint32(g.few())
	}
	for i := range t.Costs {
		t.Costs[i] = pick[uint16](g, 2, 3, 80, 320, 0xffff)
	}
	for i := range t.Turns.Bytes {
		t.Turns.Bytes[i] = pick(g, uint32(g.few()), uint32(g.few()), g.Uint32())
	}
	return t
}

func modelLive(l noted) decide.Live {
	const bytes = 1<<tallyPackets - 1
	return decide.Live{
		Written: bpfSettledFlags(l.Settled>>settledFlags)&bpfSettledFlagsSETTLED_WRITTEN != 0,
		Birth:   l.Birth, Seq: l.Seq, LifeTold: l.LifeTold != 0, UnansweredTx: l.UnansweredTx, LastTx: l.LastTx,
		TxPackets: l.TxPackets + l.Tx&^tallyRated>>tallyPackets, TxBytes: l.TxBytes + l.Tx&bytes,
		RxPackets: l.RxPackets + l.Rx>>tallyPackets, RxBytes: l.RxBytes + l.Rx&bytes,
		RateLast: l.RateLast, RateNow: l.Tx & bytes, Rated: l.Tx&tallyRated != 0,
		LastRx: l.LastRx, LastNonceRx: l.LastNonceRx,
		WithNonce: l.WithNonce, Bare: l.Bare != 0, SilenceTold: l.SilenceTold, Returned: l.Returned,
		Hint: l.Hint.l64(), Rule: decide.Found(l.Rule), Cuts: l.Cuts != 0, Retried: l.Retried != 0,
		Asked: l.Asks&uint8(bpfAskedASKED) != 0, AskedPerFlow: l.Asks&uint8(bpfAskedASKED_PER_FLOW) != 0,
		AskedCounts: l.Asks&uint8(bpfAskedASKED_COUNTS) != 0, AskedAnswers: l.Asks&uint8(bpfAskedASKED_ANSWERS) != 0,
		PathBytes: l.Turns.Bytes, Learned: l.Learned.nonce(), SoughtSince: l.SoughtSince, CopySent: l.CopySent,
		ToldUntil: l.ToldUntil, UpdatesUntil: l.UpdatesUntil, StallTold: l.StallTold, QueueTold: l.QueueTold,
		NonceAt: l.NonceAt.l64(), CopyPorts: [2]uint16{hostToNet16(l.CopyPorts[0]), hostToNet16(l.CopyPorts[1])},
		CopyOpen: l.CopyOpen != 0, CopyAnswers: l.CopyAnswers,
	}
}

func modelPending(e bpfPendingPeer) *decide.Pending {
	m := &decide.Pending{
		RemoteL64: e.RemoteL64.l64(), LocalL64: e.LocalL64.l64(), Also: e.Also.l64(), Heard: e.Heard,
		RemoteNonce: e.RemoteNonce.nonce(), Link: e.Ifindex, Epoch: e.Epoch,
		EncapCame: e.Encap&1 != 0, EncapSpoke: e.Encap&2 != 0, Cuts: e.Cuts != 0, Since: e.Since, SynAck: e.SynAck,
		RxBytes: e.RxBytes, RxPackets: e.RxPackets, TxBytes: e.TxBytes, TxPackets: e.TxPackets,
		Rule: decide.Found(e.Rule), Given: e.Given != 0, Next: e.Next, Guesses: e.Guesses,
	}
	for i, o := range e.Others {
		m.Others[i] = decide.Other{Nonce: o.Nonce, L64: o.L64.l64(), Encap: o.Encap != 0}
	}
	return m
}

func modelAllowance(a bpfAllowance) *decide.Allowance {
	return &decide.Allowance{Since: a.Since, RxBytes: a.RxBytes, TxBytes: a.TxBytes, TxPackets: a.TxPackets, RxPackets: a.RxPackets}
}

func modelAllowanceKey(k bpfAllowanceKey) decide.AllowanceKey {
	return decide.AllowanceKey{L64: k.L64.l64(), Slot: k.Slot, Birth: k.Birth}
}

func modelFlow(k bpfFlowKey) decide.FlowKey {
	return decide.FlowKey{
		Alias: modelKey(k.Alias), Own: binary.BigEndian.Uint16(k.Ports[:]), Foreign: binary.BigEndian.Uint16(k.Ports[2:]),
	}
}

// modelEvent is an event as the model has it, of the ring that it came in.
func modelEvent(e Event, ring decide.Ring) decide.Event {
	return decide.Event{
		Kind: decide.EventKind(e.Kind), Ring: ring, Link: uint32(e.Link),
		Key: decide.Key{Local: e.Key.Local, Remote: e.Key.Remote}, Remote: e.Remote, Local: e.Local,
		Nonce: e.Nonce, OwnNonce: e.OwnNonce, Found: decide.Found(e.Found), Encapsulated: e.Encapsulated,
		Bytes: e.Bytes, Packets: e.Packets, Whole: e.Packet != nil,
	}
}

// between says where what a program has written differs from what the model has: a
// number has to lie between that of the model at the moment before the program ran and
// that of the moment after, everything else to be as at one of them.
func between(name string, got, before, after reflect.Value) (wrong []string) {
	switch got.Kind() {
	case reflect.Pointer:
		if got.IsNil() || before.IsNil() || after.IsNil() {
			if got.IsNil() != before.IsNil() {
				return []string{fmt.Sprintf("%s: there is %v, want %v", name, !got.IsNil(), !before.IsNil())}
			}
			return nil
		}
		return between(name, got.Elem(), before.Elem(), after.Elem())
	case reflect.Struct:
		for i := range got.NumField() {
			wrong = append(wrong, between(name+"."+got.Type().Field(i).Name, got.Field(i), before.Field(i), after.Field(i))...)
		}
		return wrong
	case reflect.Uint64, reflect.Uint32:
		v, a, b := got.Uint(), before.Uint(), after.Uint()
		if v == a || v == b || a <= v && v <= b {
			return nil
		}
	default:
		if got.Equal(before) || got.Equal(after) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %v, want %v", name, got, before)}
}

func modelCrossedFlow(v bpfCrossedFlow) decide.CrossedFlow {
	return decide.CrossedFlow{
		Both: v.Both, At: v.At, Wait: v.Wait, Ack: v.Ack, Moved: v.Moved, Newest: v.Newest, Came: v.Came != 0,
	}
}

// wrongCrossed is what differs of the connections that are crossed: they are as at one of two moments, or between.
func wrongCrossed(now, before, after *decide.State) (wrong []string) {
	if len(now.Crossed) != len(before.Crossed) {
		return []string{fmt.Sprintf("crossed flows %v, want %v", now.Crossed, before.Crossed)}
	}
	between := func(x, a, b uint32) bool { // numbers that wrap
		if int32(b-a) < 0 {
			a, b = b, a
		}
		return x-a <= b-a
	}
	for k, got := range now.Crossed {
		a, known := before.Crossed[k]
		b, same := after.Crossed[k], got
		same.Both, same.At, same.Moved = a.Both, a.At, a.Moved
		isIn := between(got.At, a.At, b.At) && between(got.Moved, a.Moved, b.Moved) && between(got.Both, a.Both, b.Both)
		if !known || got != b && (same != a || !isIn) {
			wrong = append(wrong, fmt.Sprintf("crossed flow %v is %+v, want %+v or until %+v", k, got, a, b))
		}
	}
	return wrong
}

func modelCrossed(k bpfCrossedKey) decide.CrossedKey {
	return decide.CrossedKey{
		Slot: k.Slot, Birth: k.Birth, NearPort: swapped(k.NearPort), FarPort: swapped(k.FarPort),
	}
}

// swapped is a number in network order, or one that is taken from it.
func swapped(v uint16) uint16 { return bits.ReverseBytes16(v) }

// crossings draws of which connections acknowledgements are crossed.
func (g *gen) crossings(w *world, p bpfSessionEntry) {
	for _, own := range ownPorts[:3] {
		for _, remote := range remotePorts[:2] {
			if !g.in(3) {
				continue
			}
			k := bpfCrossedKey{Slot: p.Slot, Birth: p.Birth, NearPort: swapped(own), FarPort: swapped(remote)}
			now := uint32(g.now / 1e6)
			w.crossed[k] = bpfCrossedFlow{
				Both: now - pick[uint32](g, 0, 0, 900, 1100),
				At:   now - pick[uint32](g, 0, 500, 900, 1100, 1<<31), Wait: pick[uint32](g, 0, 70, 2000),
				Ack: pick[uint32](g, 0, 1, 3), Moved: now - pick[uint32](g, 0, 500, 1100, 1<<31),
				Newest: uint32(g.IntN(6)), Came: uint32(g.IntN(2)),
			}
		}
	}
}

func modelTable(t bpfFlowTable) *decide.FlowTable {
	return &decide.FlowTable{
		Alone: t.Alone, Several: t.Several, Ways: t.Ways, Costs: t.Costs, Bytes: t.Bytes, Turns: t.Turns.Bytes,
		Crossed: t.Crossed, Across: t.Across, Longs: t.Longs, Waits: t.Waits,
	}
}

// generatedRules are those of all worlds, in both halves of their map.
var generatedRules = []decide.Rule{{Port: 40000, OnePath: true}, {Port: 5000}}

// writeRules makes the rules of all worlds known to the programs.
func (r *decideRig) writeRules() {
	for i, rule := range generatedRules {
		row := bpfFlowRule{Flags: bpfFlowRuleFlagsFLOW_RULE_PORTS}
		if rule.OnePath {
			row.Flags |= bpfFlowRuleFlagsFLOW_RULE_ONE_PATH
		}
		row.Ports[0].First, row.Ports[0].Last = rule.Port, rule.Port
		r.must(r.objs.FlowRules.Put(uint32(i), &row))
		r.must(r.objs.FlowRules.Put(uint32(maxRules+i), &row))
	}
}

// labelled returns a packet as it is once it is marked; label 0: it is not.
func labelled(packet []byte, label uint32) []byte {
	if label == 0 {
		return packet
	}
	b := bytes.Clone(packet)
	binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)&^0xfffff|label)
	return b
}
