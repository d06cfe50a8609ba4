package ilnp

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

const (
	forgedSeeds   = 300
	forgedPackets = 120 // of each seed
)

// honest is the correspondent of a core: it speaks in one form, by one rule, and
// answers whatever bears its own nonce home.
type honest struct {
	form     ilnpwire.Form
	overNIDs bool // of its control messages
	rule     FoundRule
	mute     bool // for now
	hasNone  bool // it has no ILNP, and answers nothing
	moved    bool // it has announced its second locator
	silent   bool // it sends nothing of itself
	read     int  // of the core's packets
	with     uint32
}

// stages bring a core to a state. Each returns how the correspondent goes on.
var stages = map[string]func(b *bench, h *honest){
	"known": func(b *bench, h *honest) { b.isTold(); h.mute, h.silent = true, true },
	"initiated": func(b *bench, h *honest) {
		b.isTold()
		b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	},
	"established": func(b *bench, h *honest) {
		b.isTold()
		h.establish(b)
	},
	"pending": func(b *bench, h *honest) {
		o := pending(netP, peerNonce)
		o.Found, h.mute = h.rule, true
		b.see(o)
	},
	"plain": func(b *bench, h *honest) {
		b.isTold()
		h.mute, h.hasNone = true, true
		b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
		b.see(Observation{Trigger: SeenRefusal, Key: theKey})
	},
	"recalled": func(b *bench, h *honest) {
		b.isTold()
		h.establish(b)
		n := b.rebooted(b.t, time.Minute)
		b.Core, b.now = n.Core, n.now
		b.forget()
		h.read = 0
		b.prefix(1, netA, roam.Infinite)
		b.prefix(2, netB, roam.Infinite)
	},
}

// isTold makes the correspondent known.
func (b *bench) isTold() {
	b.AddPeer(b.now, Peer{NID: peerNID, Names: []string{"peer"}, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
}

func (h *honest) establish(b *bench) {
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	h.speak(b)
	lu := updateOf(entry(netP, 10, 0), entry(netQ, 20, 0))
	for i := range lu.Locators {
		lu.Locators[i].Lifetime = 600
	}
	if lu.Form = h.form; h.form == ilnpwire.FormDraft {
		lu.Code = ilnpwire.CodeReplaceSoft
	}
	h.moved = true
	h.send(b, b.update(netP, peerNonce, lu))
	h.settle(b, 2*lateNonce)
	for range 3 { // each of its packets has a nonce
		h.with++
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, WithNonce: h.with}})
		b.drain()
		b.pass(time.Second)
	}
}

// speak sends what a correspondent sends of itself: the data plane reports it by how
// it has the session.
func (h *honest) speak(b *bench) {
	p, ok := b.entries[theKey]
	o := pending(netP, peerNonce)
	o.OwnNonce, o.Found = p.LocalNonce, h.rule
	switch {
	case !ok || p.State == Plain:
		return
	case p.State == Initiated:
		b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: o.Remote, Nonce: peerNonce})
	case p.RemoteNonce != peerNonce:
		o.Trigger = SeenOtherNonce
		b.see(o)
		return
	}
	if b.entries[theKey].RuleSought {
		b.see(Observation{Trigger: SeenRule, Key: theKey, Found: h.rule})
	}
	h.with++
}

// send brings a control message by the correspondent's rule.
func (h *honest) send(b *bench, packet []byte) {
	if h.overNIDs {
		packet = overNIDs(b.t, packet)
	}
	b.receive(1, packet)
}

// settle lets the correspondent answer all that the core sends home, for a while.
func (h *honest) settle(b *bench, d time.Duration) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.pass(20 * time.Millisecond)
		h.answer(b)
	}
}

func (h *honest) answer(b *bench) {
	for ; h.read < len(b.sent); h.read++ {
		p, err := ilnpwire.ParseControl(b.sent[h.read].Packet, testPort)
		home := p.Dst == roam.ILV{NID: peerNID, L64: netP} || h.moved && p.Dst == roam.ILV{NID: peerNID, L64: netQ}
		if err != nil || !home || h.mute || p.Encapsulated || p.OverNIDs != h.overNIDs {
			continue
		}
		switch p.Type {
		case ilnpwire.TypeEchoRequest:
			e, _ := ilnpwire.ParseEcho(p.Payload)
			packet, _ := ilnpwire.BuildEcho(p.Dst, p.Src, peerNonce, false, e.ID, e.Seq, e.Data)
			h.send(b, packet)
		case ilnpwire.TypeLocatorUpdate:
			lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
			if err == nil && lu.Operation == ilnpwire.Advertisement {
				packet, _ := ilnpwire.BuildUpdate(p.Dst, p.Src, peerNonce, lu.Ack())
				h.send(b, packet)
			}
		}
	}
}

// forger is somebody off the path, who knows every public field.
type forger struct {
	*rand.Rand
	t        *testing.T
	received map[roam.ILV]int // bytes that its packets brought
	packets  map[roam.ILV]int
	without  uint32 // packets of data without a nonce
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// nonce is any but the right one.
func (f *forger) nonce() Nonce {
	n := peerNonce
	switch f.IntN(4) {
	case 0: // one bit off
		n.Bytes[f.IntN(4)] ^= 1 << f.IntN(8)
	case 1: // the right one, and more
		n.Len = 12
	default:
		n.Len = pick[uint8](f.Rand, 4, 12)
		for i := range n.Len {
			n.Bytes[i] = byte(f.Uint32()) | 0x40
		}
	}
	return n
}

// source is the correspondent's locators, somebody else's under its NID, or its own.
func (f *forger) source() roam.ILV {
	return pick(f.Rand, roam.ILV{NID: peerNID, L64: netP}, roam.ILV{NID: peerNID, L64: netP}, roam.ILV{NID: peerNID, L64: netQ},
		roam.ILV{NID: peerNID, L64: netS}, roam.ILV{NID: 0x0200_0000_0000_0bad, L64: netS})
}

// updateMessage is a Locator Update or an acknowledgement in any form and code.
func (f *forger) updateMessage() ilnpwire.LocatorUpdate {
	lu := ilnpwire.LocatorUpdate{
		Operation: pick(f.Rand, ilnpwire.Advertisement, ilnpwire.Acknowledgement),
		Form:      pick(f.Rand, ilnpwire.FormRFC, ilnpwire.FormDraft, ilnpwire.FormLinux),
	}
	if lu.Form == ilnpwire.FormDraft {
		lu.Code = 1 + uint8(f.IntN(7))
	}
	for range 1 + f.IntN(3) {
		lu.Locators = append(lu.Locators, entry(pick(f.Rand, netP, netQ, netR, netS, netA), uint16(f.IntN(100)), pick[uint32](f.Rand, 0, 1, 600, 65535)))
	}
	return lu
}

// quoted is a packet of ours that it makes up: a probe with a guessed token and nonce.
func (f *forger) quoted(src, dst roam.ILV) []byte {
	data := make([]byte, 16)
	binary.BigEndian.PutUint64(data, f.Uint64())
	b, _ := ilnpwire.BuildEcho(dst, src, f.nonce(), true, uint16(f.Uint32()), uint16(f.Uint32()), data)
	if f.IntN(2) == 0 {
		b, _ = ilnpwire.Encapsulate(b, testPort)
	}
	return b
}

// message is a control message of any kind, under either rule, with a wrong nonce or
// none, with options beside it, or in UDP.
func (f *forger) message(src, dst roam.ILV) []byte {
	var b []byte
	n := f.nonce()
	switch f.IntN(4) {
	case 0, 1:
		b, _ = ilnpwire.BuildUpdate(src, dst, n, f.updateMessage())
	case 2:
		e := f.quoted(dst, src)
		b, _ = ilnpwire.BuildEcho(src, dst, n, f.IntN(4) == 0, uint16(f.Uint32()), uint16(f.Uint32()), e[len(e)-16:])
	default:
		m := ilnpwire.ErrorMessage{Type: 1 + uint8(f.IntN(4)), Code: uint8(f.IntN(6)), Param: uint32(f.IntN(1500)), Quoted: f.quoted(src, dst)}
		b, _ = ilnpwire.BuildError(src, dst, n, m)
	}
	if f.IntN(2) == 0 {
		if err := ilnpwire.FinishOverNIDs(b); err != nil {
			f.t.Fatal(err)
		}
	}
	switch f.IntN(6) {
	case 0:
		b = withoutNonce(b, n)
	case 1:
		b = besideNonce(b, n)
	case 2:
		b, _ = ilnpwire.Encapsulate(b, testPort)
	}
	return b
}

// withoutNonce takes the header with the option out; the checksum does not cover it.
func withoutNonce(b []byte, n Nonce) []byte {
	out := append(append([]byte(nil), b[:ip6.HeaderLen]...), b[ip6.HeaderLen+n.HeaderLen():]...)
	out[6] = ip6.ICMPv6
	binary.BigEndian.PutUint16(out[4:], uint16(len(out)-ip6.HeaderLen))
	return out
}

// besideNonce adds an unknown option that is to be skipped, and padding.
func besideNonce(b []byte, n Nonce) []byte {
	out := append([]byte(nil), b[:ip6.HeaderLen+n.HeaderLen()]...)
	out = append(append(out, 0x1e, 2, 0, 0, 1, 2, 0, 0), b[ip6.HeaderLen+n.HeaderLen():]...)
	out[ip6.HeaderLen+1]++
	binary.BigEndian.PutUint16(out[4:], uint16(len(out)-ip6.HeaderLen))
	return out
}

// attack sends one packet; the data plane hands it over, or reports it, as it has the
// session.
func (f *forger) attack(b *bench) {
	src, dst := f.source(), roam.ILV{NID: ownNID, L64: pick(f.Rand, netA, netB)}
	if f.IntN(2) == 0 {
		packet := f.message(src, dst)
		f.note(src, len(packet))
		if b.HandleError(b.now, packet) {
			f.t.Error("a forged error answers a probe")
		}
		b.receive(pick[roam.LinkID](f.Rand, 1, 2), packet)
		return
	}
	p := b.entries[theKey]
	o := Observation{
		Trigger: SeenPending, Key: SessionKey{ownNID, src.NID}, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: src, Nonce: f.nonce(),
		OwnNonce: Nonce{Len: 4, Bytes: [12]byte{7}}, Found: FoundRule(f.IntN(4)), Encapsulated: f.IntN(4) == 0,
		Held: f.IntN(3) == 0, Bytes: 60 + f.IntN(200), Packets: f.IntN(2),
	}
	inPlace := src == roam.ILV{NID: peerNID, L64: netP}
	switch {
	case src.NID == peerNID && p.State == Initiated && p.Key == theKey && inPlace:
		o.Trigger = SeenNonce // it is the first
	case src.NID == peerNID && p.Unconfirmed && !o.Held: // by the nonce that it was first with
		o.Nonce = p.RemoteNonce
		o.Trigger = pick(f.Rand, SeenLocator, SeenRule, SeenPerFlow)
		if o.Trigger == SeenLocator && inPlace || o.Nonce == peerNonce {
			return
		}
	case src.NID == peerNID && p.Key == theKey:
		o.Trigger = SeenOtherNonce
	}
	if inPlace && p.Key == theKey {
		o.OwnNonce = p.LocalNonce
	}
	f.without++
	f.note(src, o.Bytes)
	b.see(o)
}

func (f *forger) note(src roam.ILV, bytes int) {
	f.received[src] += bytes
	f.packets[src]++
}

// spent fails if more went to an address that is not validated than may.
func (f *forger) spent(b *bench, began time.Time) {
	bytes, packets := map[roam.ILV]int{}, map[roam.ILV]int{}
	for _, s := range b.sent {
		if h, err := ip6.Parse(s.Packet); err == nil {
			dst := roam.ILVFromAddr(h.Dst)
			bytes[dst] += len(s.Packet)
			packets[dst]++
		}
	}
	for dst, n := range bytes {
		validated := dst.NID == peerNID && (dst.L64 == netP || dst.L64 == netQ)
		if validated {
			continue
		}
		if n > f.received[dst]+allowedBytes || packets[dst] > f.packets[dst]+allowedPackets {
			f.t.Errorf("%d bytes in %d packets went to %v, where %d in %d came from", n, packets[dst], dst, f.received[dst], f.packets[dst])
		}
	}
}

// essence is what is known of correspondents, and how: no times, no counts, nor where the answers of one came.
func (b *bench) essence() (out savedState) {
	st, err := parseState(b.Export())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, k := range st.Known {
		k.PlainUntil = time.Time{}
		out.Known = append(out.Known, k)
	}
	for _, v := range st.Sessions {
		if v.RemoteNID != peerNID || v.Preinstalled {
			continue
		}
		v.Seq, v.RTT, v.LastMoveRTT, v.Told, v.Update, v.WithNonce, v.Arrivals = 0, 0, 0, nil, 0, 0, nil
		for _, t := range []*time.Time{&v.Started, &v.LastRx, &v.LastTx, &v.LastMove, &v.ToldAt, &v.NonceUntil} {
			*t = time.Time{}
		}
		for i := range v.Remotes {
			v.Remotes[i].Expires, v.Remotes[i].Until = time.Time{}, v.Remotes[i].Until.Truncate(24*time.Hour)
		}
		out.Sessions = append(out.Sessions, v)
	}
	return out
}

// TestForgedMessages attacks a core in every state by somebody off the path who does not
// know the nonce: it ends as its probe copy does, which was left alone.
func TestForgedMessages(t *testing.T) {
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(forgedSeeds) {
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { forgeAll(t, stage, seed, name == "known") }) {
					return
				}
			}
		})
	}
}

func forgeAll(t *testing.T, stage func(*bench, *honest), seed uint64, begins bool) {
	r := rand.New(rand.NewPCG(seed, 6743))
	peer := honest{
		form:     pick(r, ilnpwire.FormRFC, ilnpwire.FormDraft, ilnpwire.FormLinux),
		overNIDs: r.IntN(2) == 0, rule: pick(r, FoundIPv6, FoundRFC6741),
	}
	var ends [2]savedState
	for i := range ends {
		h, b := peer, newBench(t, func(c *Config) { c.UDPPort = testPort })
		b.prefix(1, netA, roam.Infinite)
		b.prefix(2, netB, roam.Infinite)
		stage(b, &h)
		began, read := b.now, h.read
		f := forger{rand.New(rand.NewPCG(seed, 6744)), t, map[roam.ILV]int{}, map[roam.ILV]int{}, 0}
		for range forgedPackets {
			if i == 0 {
				f.attack(b)
			}
			b.pass(4 * time.Millisecond)
		}
		h.read = read
		h.mute = h.hasNone
		if !h.moved { // what came before the session is not counted for it
			f.without = 0
		}
		h.goOn(b, f.without)
		if ends[i] = b.essence(); i == 0 {
			f.spent(b, began)
		}
	}
	if peer := ends[0].Known; begins { // a forged first packet may show that it is there, and what its answer shows
		for i := range peer {
			peer[i].ICMP, peer[i].NonceAlways, peer[i].FormShown = 0, false, false
		}
		for _, s := range ends[0].Sessions {
			if !s.Sought || s.Asks || !bytes.Equal(s.RemoteNonce, peerNonce.Value()) {
				t.Errorf("a session with %+v, nonce %x", s.savedProfile, s.RemoteNonce)
			}
		}
		ends[0].Sessions, ends[1].Sessions = nil, nil
	}
	peer.agree(&ends[0], &ends[1])
	if !reflect.DeepEqual(ends[0], ends[1]) {
		t.Errorf("with %+v: attacked, and left alone:\n%s", peer, differences(ends[0], ends[1]))
	}
}

// agree makes equal what either core has found of the correspondent's control messages,
// if it is true: an attack may lead to an exchange more with the correspondent itself, or
// one less within the time.
func (h *honest) agree(a, b *savedState) {
	for i := range min(len(a.Known), len(b.Known)) {
		h.agreeOn(&a.Known[i].savedProfile, &b.Known[i].savedProfile)
	}
	for i := range min(len(a.Sessions), len(b.Sessions)) {
		h.agreeOn(&a.Sessions[i].savedProfile, &b.Sessions[i].savedProfile)
	}
}

func (h *honest) agreeOn(a, b *savedProfile) {
	formHolds := func(v *savedProfile) bool { return !v.FormShown || v.Form == h.form }
	ruleHolds := func(v *savedProfile) bool {
		over := v.ICMP == icmpOverNIDs || v.ICMP == icmpTakesNIDs
		return v.ICMP == icmpSought || over == h.overNIDs
	}
	if formHolds(a) && formHolds(b) {
		a.Form, a.FormShown, a.Draft = b.Form, b.FormShown, b.Draft
	}
	if ruleHolds(a) && ruleHolds(b) {
		a.ICMP = b.ICMP
	}
}

// differences lists what two states have different.
func differences(a, b savedState) string {
	x, y := fields(a), fields(b)
	var out []string
	for name := range x {
		if _, there := y[name]; !there {
			y[name] = "-"
		}
	}
	for name, v := range y {
		if w, there := x[name]; !there || v != w {
			out = append(out, fmt.Sprintf("%s: %v, %v", name, w, v))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// fields returns the values of a state by their places.
func fields(st savedState) map[string]any {
	var tree any
	b, _ := json.Marshal(st)
	_ = json.Unmarshal(b, &tree)
	out := map[string]any{}
	var walk func(string, any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, v := range v {
				walk(at+"."+name, v)
			}
		case []any:
			for i, v := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), v)
			}
		default:
			out[at] = v
		}
	}
	walk("", tree)
	return out
}

// goOn has the correspondent speak and answer after the attack, and the data plane
// report what came.
func (h *honest) goOn(b *bench, without uint32) {
	for range 8 {
		if !h.silent {
			h.speak(b)
		}
		h.settle(b, time.Second)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, LastNonceRx: b.now, WithNonce: h.with, WithoutNonce: without}})
		b.drain()
	}
}
