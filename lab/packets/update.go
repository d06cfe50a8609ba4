package packets

import (
	"encoding/binary"
	"slices"
	"time"

	"roam"
)

// typeUpdate is the ICMPv6 type of the Locator Update (RFC 6743 §2).
const typeUpdate = 156

// Locator is an entry of a Locator Update.
type Locator struct {
	L64        roam.L64
	Preference uint16
	Lifetime   uint16 // seconds
}

// Update is a Locator Update or its acknowledgement, in the form of RFC 6743.
type Update struct {
	Ack      bool
	Locators []Locator
}

// Update decodes the packet as a Locator Update.
func (p Packet) Update() (u Update, ok bool) {
	b := p.Data
	if p.Proto != ICMPv6 || len(b) < 8 || b[0] != typeUpdate || len(b) < 8+12*int(b[4]) {
		return u, false
	}
	u.Ack = b[5] == 2
	for i := range int(b[4]) {
		e := b[8+12*i:]
		u.Locators = append(u.Locators, Locator{roam.L64(binary.BigEndian.Uint64(e)), binary.BigEndian.Uint16(e[8:]),
			binary.BigEndian.Uint16(e[10:])})
	}
	return u, true
}

// Lists reports whether a locator is in the update.
func (u Update) Lists(l roam.L64) bool {
	return slices.ContainsFunc(u.Locators, func(e Locator) bool { return e.L64 == l })
}

// SameSet reports whether two updates have the same locators with the same preferences,
// whatever their lifetimes.
func (u Update) SameSet(v Update) bool {
	if len(u.Locators) != len(v.Locators) {
		return false
	}
	for _, e := range u.Locators {
		if !slices.ContainsFunc(v.Locators, func(f Locator) bool { return e.L64 == f.L64 && e.Preference == f.Preference }) {
			return false
		}
	}
	return true
}

// least returns the shortest lifetime of the update, in seconds.
func (u Update) least() uint16 {
	least := uint16(0xffff)
	for _, e := range u.Locators {
		least = min(least, e.Lifetime)
	}
	return least
}

// Exchange is one Locator Update with its acknowledgement. The same message sent
// again before it was acknowledged belongs to the same exchange.
type Exchange struct {
	Update
	Sent     Packet   // the first of its messages
	Messages int      // sent, acknowledgements not counted
	Acks     []Packet // in order of arrival
	Refresh  bool     // tells of the same set as the one before
	// Repeat marks a refresh that renews no lifetime before half of the announced one was over:
	// a host that hears nothing on a path complains by one.
	Repeat bool
	// Early marks a refresh that renews lifetimes before half of the announced one was over, unless
	// it repeats an update that left before the one before it was acknowledged: the two may have
	// arrived in either order.
	Early    bool
	overtook bool      // left while the one before was not acknowledged
	renewed  time.Time // when the lifetimes that the correspondent has were announced
	least    uint16    // the shortest of these, in seconds
}

// Exchanges matches the updates that a host sent to one correspondent with the received
// acknowledgements; list is the capture at that host, in order of time.
func Exchanges(list []Packet, own, peer roam.NID) (out []Exchange) {
	for _, p := range list {
		u, ok := p.Update()
		if !ok {
			continue
		}
		from, to := nid(p.Src.As16()), nid(p.Dst.As16())
		switch {
		case !u.Ack && from == own && to == peer:
			out = note(out, p, u)
		case u.Ack && from == peer && to == own:
			for i := len(out) - 1; i >= 0; i-- {
				if slices.Equal(out[i].Locators, u.Locators) {
					out[i].Acks = append(out[i].Acks, p)
					break
				}
			}
		}
	}
	return out
}

// note adds a message that was sent.
func note(out []Exchange, p Packet, u Update) []Exchange {
	if len(out) == 0 {
		return append(out, newExchange(p, u))
	}
	last := &out[len(out)-1]
	if last.SameSet(u) && len(last.Acks) == 0 {
		last.Messages++
		last.Update = u // lifetimes have decreased; the acknowledgement echoes them
		return out
	}
	e := newExchange(p, u)
	e.Refresh, e.overtook = last.SameSet(u), len(last.Acks) == 0
	if e.Refresh && !last.overtook {
		soon := p.At.Sub(last.renewed).Seconds() < float64(last.least)/2
		if e.Repeat = soon && !last.isRenewedBy(e); e.Repeat {
			e.renewed, e.least = last.renewed, last.least
		}
		e.Early = soon && !e.Repeat
	}
	return append(out, e)
}

func newExchange(p Packet, u Update) Exchange {
	return Exchange{Update: u, Sent: p, Messages: 1, renewed: p.At, least: u.least()}
}

// rounding is by how much the ends of a lifetime differ at most that was announced twice, in
// whole seconds.
const rounding = time.Second

// isRenewedBy reports whether a later exchange of the same set has a locator end later.
func (e Exchange) isRenewedBy(later Exchange) bool {
	return slices.ContainsFunc(later.Locators, func(l Locator) bool {
		i := slices.IndexFunc(e.Locators, func(o Locator) bool { return o.L64 == l.L64 })
		return later.Sent.At.Sub(e.Sent.At)+time.Duration(int(l.Lifetime)-int(e.Locators[i].Lifetime))*time.Second > rounding
	})
}

func nid(a [16]byte) roam.NID { return roam.NID(binary.BigEndian.Uint64(a[8:])) }

// SourceNID and SourceL64 are the halves of the packet's source address.
func (p Packet) SourceNID() roam.NID { return nid(p.Src.As16()) }

// SourceL64 is the upper half of the source address.
func (p Packet) SourceL64() roam.L64 { return l64(p.Src.As16()) }

// DestL64 is the upper half of the destination address.
func (p Packet) DestL64() roam.L64 { return l64(p.Dst.As16()) }

func l64(a [16]byte) roam.L64 { return roam.L64(binary.BigEndian.Uint64(a[:])) }
