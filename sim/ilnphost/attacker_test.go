package ilnphost

import (
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// Networks of a siege. Nobody is in the last three: who sends there was told to by
// the attacker.
const (
	homeNet   roam.L64 = 0x2001_0db8_0100_0000 // the owner's by its record: so many
	awayNet   roam.L64 = 0x2001_0db8_0200_0000 // others that it visits
	peerNet   roam.L64 = 0x2001_0db8_0300_0000
	scriptNet roam.L64 = 0x2001_0db8_0400_0000 // where the attacker answers by hand
	stockNet  roam.L64 = 0x2001_0db8_0500_0000 // where it runs what everybody runs
	spoofNet  roam.L64 = 0x2001_0db8_0600_0000 // victims that it names as sources
	listNet   roam.L64 = 0x2001_0db8_0700_0000 // victims that its Locator Updates list
	netMask   roam.L64 = 0xffff_ffff_ff00_0000
)

// attacker is off the paths of two hosts. It knows everything of them but the nonces
// that they show each other.
type attacker struct {
	*siege
	own    []roam.L64               // where it answers by hand
	nonces map[roam.ILV]Nonce       // that it shows, by place and claim
	seen   []Nonce                  // that were shown to it
	echoes []ilnpwire.Echo          // that it was asked
	lists  []ilnpwire.LocatorUpdate // that it was told
	stock  *Node                    // with the owner's NID (nil)
	junk   *Flow                    // what it sends from its own places
	forged *Flow                    // what it sends from others'
	every  time.Duration
	calm   bool // it only answers
}

func newAttacker(s *siege) *attacker {
	r := s.Rand()
	x := &attacker{siege: s, nonces: map[roam.ILV]Nonce{}, junk: &Flow{Brief: true}, forged: &Flow{Brief: true}}
	n := 1 + r.IntN(3)
	if r.IntN(8) == 0 {
		n = 12
	}
	for i := range n {
		x.own = append(x.own, scriptNet+roam.L64(i)<<16)
	}
	for _, nid := range []roam.NID{s.b.nid, s.a.nid, unlistedNID} {
		h := s.AddScript("x", nid, x.answer)
		for i, l := range x.own {
			h.Up(roam.LinkID(i+1), l, near, roam.Infinite)
		}
	}
	if r.IntN(5) < 2 {
		x.stock = s.AddNode("stock", ilnp.Config{NIDs: []roam.NID{s.b.nid}, Accept: ilnp.Any, Mode: ilnp.Mode(r.IntN(3))})
		x.bootStock()
	}
	x.every = []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, time.Second}[r.IntN(3)]
	return x
}

// unlistedNID is one that nobody knows.
const unlistedNID roam.NID = 0x0200_0000_0000_0066

// bootStock has the attacker's own host know where to find the other one.
func (x *attacker) bootStock() {
	x.stock.Up(1, stockNet+roam.L64(x.Rand().IntN(4))<<16, near, roam.Infinite)
	x.stock.Know(x.a, x.places[x.a]...)
}

// attack does something, again and again, more rarely where little happens.
func (x *attacker) attack() {
	if x.ended {
		return
	}
	r := x.Rand()
	if !x.calm {
		x.message()
		if x.stock != nil && r.IntN(8) == 0 {
			x.moveStock()
		}
	}
	wait := time.Duration(r.Int64N(int64(2*x.every)) + 1)
	if x.slow {
		wait *= 20
	}
	x.After(wait, x.attack)
}

// moveStock has the attacker's own host speak, move or forget.
func (x *attacker) moveStock() {
	switch r := x.Rand(); r.IntN(6) {
	case 0:
		x.stock.Up(1, stockNet+roam.L64(r.IntN(4))<<16, near, roam.Infinite)
	case 1:
		x.stock.Reboot()
		x.stock.Know(x.a, x.places[x.a]...)
	default:
		f := x.stock.Connect(x.a)
		x.After(time.Duration(1+r.IntN(5))*time.Second, f.Stop)
	}
}

// place draws a locator that may be anybody's.
func (x *attacker) place(nets ...roam.L64) roam.L64 {
	r := x.Rand()
	switch net := nets[r.IntN(len(nets))]; net {
	case scriptNet:
		return x.own[r.IntN(len(x.own))]
	case peerNet:
		return x.places[x.a][r.IntN(len(x.places[x.a]))]
	case listNet:
		return net + roam.L64(r.IntN(3))<<16 + roam.L64(r.IntN(64))
	case spoofNet:
		return net + roam.L64(r.IntN(8))
	default:
		return net + roam.L64(r.IntN(awayNets))
	}
}

// nonce draws one to show: its own at that place, a random one, one that was shown to
// it, or none.
func (x *attacker) nonce(at roam.ILV) Nonce {
	switch r := x.Rand(); r.IntN(10) {
	case 0:
		return Nonce{}
	case 1:
		return x.random()
	case 2:
		if len(x.seen) > 0 {
			return x.seen[r.IntN(len(x.seen))]
		}
		return x.random()
	}
	return x.shown(at)
}

func (x *attacker) random() Nonce {
	n := Nonce{Len: uint8(4 + 8*x.Rand().IntN(2))}
	for i := range n.Bytes[:n.Len] {
		n.Bytes[i] = byte(x.Rand().IntN(256))
	}
	return n
}

// shown returns the nonce of a place, now and then a new one.
func (x *attacker) shown(at roam.ILV) Nonce {
	n, ok := x.nonces[at]
	if !ok || x.Rand().IntN(50) == 0 {
		n = x.random()
		x.nonces[at] = n
	}
	return n
}

// message sends what is drawn, some of it more than once.
func (x *attacker) message() {
	r := x.Rand()
	victim, claimed := x.a, x.b
	if r.IntN(5) == 0 {
		victim, claimed = x.b, x.a
	}
	src := roam.ILV{NID: claimed.nid, L64: x.place(scriptNet, scriptNet, scriptNet, homeNet, awayNet, peerNet, spoofNet, stockNet)}
	if r.IntN(20) == 0 {
		src.NID = unlistedNID
	}
	dst := roam.ILV{NID: victim.nid, L64: x.placeOf(victim)}
	nonce := x.nonce(src)
	p := Packet{Src: src, Dst: dst, Nonce: nonce}
	if kind := r.IntN(10); kind < 3 {
		flow := x.forged
		if src.L64&netMask == scriptNet {
			flow = x.junk
		}
		p.Data = Datagram{Size: r.IntN(1400), flow: flow}
	} else if p.Control = x.control(kind, src, dst, nonce); p.Control == nil {
		return
	}
	x.inject(p)
	for r.IntN(3) == 0 {
		x.inject(p)
	}
}

// placeOf draws a locator of a host: where it is, or may be.
func (x *attacker) placeOf(h *Node) roam.L64 {
	if n := len(h.attachments); n > 0 && x.Rand().IntN(4) > 0 {
		return h.attachments[x.Rand().IntN(n)].l64
	}
	return x.places[h][x.Rand().IntN(len(x.places[h]))]
}

// control makes a control packet; nil: it has nothing to make it of.
func (x *attacker) control(kind int, src, dst roam.ILV, nonce Nonce) (b []byte) {
	r := x.Rand()
	switch kind {
	case 3, 4:
		b, _ = ilnpwire.BuildEcho(src, dst, nonce, true, uint16(r.IntN(1<<16)), 1, make([]byte, 16+r.IntN(64)))
	case 5:
		e := ilnpwire.Echo{Data: make([]byte, 16)}
		if len(x.echoes) > 0 {
			e = x.echoes[r.IntN(len(x.echoes))]
			if src.L64&netMask == scriptNet { // where it was asked
				x.answered(Packet{Src: src, Dst: dst})
			}
		}
		b, _ = ilnpwire.BuildEcho(src, dst, nonce, false, e.ID, e.Seq, e.Data)
	case 6, 7:
		b, _ = ilnpwire.BuildUpdate(src, dst, nonce, x.update())
	case 8:
		lu := x.update()
		if len(x.lists) > 0 && r.IntN(2) == 0 {
			lu = x.lists[r.IntN(len(x.lists))]
		}
		b, _ = ilnpwire.BuildUpdate(src, dst, nonce, lu.Ack())
	default:
		quoted, _ := ilnpwire.BuildEcho(dst, src, nonce, true, 1, 1, make([]byte, 16))
		b, _ = ilnpwire.BuildError(src, dst, Nonce{}, ilnpwire.ErrorMessage{
			Type: []uint8{ilnpwire.TypeParameterProblem, ilnpwire.TypeUnreachable, ilnpwire.TypePacketTooBig}[r.IntN(3)],
			Code: uint8(r.IntN(4)), Param: 42, Quoted: quoted,
		})
	}
	if b != nil && b[len(b)-1]&3 == 0 || r.IntN(4) == 0 {
		_ = ilnpwire.FinishOverNIDs(b) // what has no nonce stays as it is
	}
	return b
}

// update draws a Locator Update.
func (x *attacker) update() ilnpwire.LocatorUpdate {
	r := x.Rand()
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Form: []ilnpwire.Form{7: ilnpwire.FormLinux, 6: ilnpwire.FormDraft}[r.IntN(8)]}
	if lu.Form == ilnpwire.FormDraft {
		lu.Code = []uint8{ilnpwire.CodeReplaceSoft, ilnpwire.CodeAddSoft, ilnpwire.CodeDeleteHard}[r.IntN(3)]
	}
	for range 1 + r.IntN(8) {
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{
			L64:        x.place(scriptNet, homeNet, awayNet, peerNet, listNet, listNet, listNet),
			Preference: uint32(r.IntN(3) * 10), Lifetime: []uint32{0, 1, 30, 3600}[r.IntN(4)],
		})
	}
	return lu
}

// inject sends a packet after a while, now and then in UDP.
func (x *attacker) inject(p Packet) {
	r := x.Rand()
	if p.Control != nil && r.IntN(4) == 0 {
		if b, err := ilnpwire.Encapsulate(p.Control, udpPort); err == nil {
			p.Control, p.Encapsulated = b, true
		}
	}
	delay := time.Duration(r.Int64N(int64(20 * time.Millisecond)))
	if r.IntN(10) == 0 {
		delay = time.Duration(r.Int64N(int64(3 * time.Second)))
	}
	x.After(delay, func() { x.Inject(p) })
}

// answer takes what comes to one of its places: most often it answers as a host does.
func (x *attacker) answer(p Packet) {
	r := x.Rand()
	if p.Nonce.Present() && len(x.seen) < 64 {
		x.seen = append(x.seen, p.Nonce)
	}
	if p.Control == nil {
		return
	}
	q, err := ilnpwire.ParseControl(p.Control, udpPort)
	if err != nil || r.IntN(8) == 0 {
		return
	}
	back := Packet{Src: p.Dst, Dst: p.Src, Nonce: x.shown(p.Dst), Encapsulated: p.Encapsulated}
	switch q.Type {
	case ilnpwire.TypeEchoRequest:
		e, _ := ilnpwire.ParseEcho(q.Payload)
		e.Data = append([]byte(nil), e.Data...)
		x.echoes = append(x.echoes, e)
		if r.IntN(8) == 0 {
			x.relay(p, e)
		}
		back.Control, _ = ilnpwire.BuildEcho(back.Src, back.Dst, back.Nonce, false, e.ID, e.Seq, e.Data)
		x.answered(back)
	case ilnpwire.TypeLocatorUpdate:
		lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
		if err != nil || lu.Operation != ilnpwire.Advertisement {
			return
		}
		x.lists = append(x.lists, lu)
		back.Control, _ = ilnpwire.BuildUpdate(back.Src, back.Dst, back.Nonce, lu.Ack())
		x.answered(back) // several of these prove as much as the answer to a probe
	default:
		return
	}
	if back.Encapsulated {
		back.Control, _ = ilnpwire.Encapsulate(back.Control, udpPort)
	}
	x.After(5*time.Millisecond+time.Duration(r.Int64N(int64(5*time.Millisecond))), func() { x.Inject(back) })
}

// relay has the owner of the NID answer what the attacker was asked.
func (x *attacker) relay(p Packet, e ilnpwire.Echo) {
	owner := x.b
	if p.Dst.NID == x.a.nid {
		owner = x.a
	} else if p.Dst.NID != x.b.nid {
		return
	}
	dst := roam.ILV{NID: owner.nid, L64: x.placeOf(owner)}
	if b, err := ilnpwire.BuildEcho(p.Src, dst, p.Nonce, true, e.ID, e.Seq, e.Data); err == nil {
		x.Inject(Packet{Src: p.Src, Dst: dst, Nonce: p.Nonce, Control: b})
	}
}

// meets notes that the owner answers at home with a nonce, and that it is received.
func (s *siege) meets(h *Node, leaves bool, p Packet) {
	switch {
	case !p.Nonce.Present() || messageType(p) != ilnpwire.TypeEchoReply:
	case leaves && h == s.b && slices.Contains(s.places[s.b], p.Src.L64):
		s.shown[p.Nonce] = true
	case !leaves && h == s.a && s.shown[p.Nonce]:
		s.met = true
	}
}
