package engine

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/rawio"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// leastMTU is what every IPv6 path carries (RFC 8200 §5).
const leastMTU = 1280

// transmit sends a control packet. One with very many locators goes in
// fragments that any path carries; each repeats the nonce.
func (e *Engine) transmit(o ilnp.Transmit) {
	parts := [][]byte{o.Packet}
	if len(o.Packet) > leastMTU && !o.Whole {
		var id [4]byte
		rand.Read(id[:]) // never fails
		var err error
		if parts, err = ip6.Split(o.Packet, leastMTU, binary.BigEndian.Uint32(id[:])); err != nil {
			e.report("send control packet", err)
			return
		}
	}
	for _, p := range parts {
		e.send("send control packet", o.Link, p)
	}
}

// send sends a packet out of a link. The kernel has no route there for a moment
// when a manager puts a default route in the place of another; hostnet holds that
// one, and data goes on to its router. So does this. Where nobody knows the way
// the packet is counted: whatever needs an answer is retransmitted.
func (e *Engine) send(what string, link roam.LinkID, packet []byte) {
	err := e.cfg.Sender.Send(link, packet)
	if errors.Is(err, rawio.ErrNoRoute) {
		u := e.links[link]
		if !u.Routed || !u.NextHopValid || !u.HasMAC {
			e.refused[noRoute]++
			return
		}
		err = e.cfg.Sender.SendTo(link, u.NextHopMAC, packet)
	}
	e.report(what, err)
}

// noRoute is the reason in Refused for a packet of ours on a link without a route.
const noRoute = "packet of ours on a link without a route"

// handleReassembled takes a Locator Update that came in fragments. The data
// plane let each one pass because of its nonce, and turned its addresses into
// session addresses; the core gets the packet as if it had come whole.
func (e *Engine) handleReassembled(now time.Time, m rawio.Message) {
	src, dst := roam.ILVFromAddr(m.Src), roam.ILVFromAddr(m.Dst)
	if src.L64 != e.cfg.SessionPrefix || dst.L64 != e.cfg.SessionPrefix {
		e.refused["Locator Update in fragments from outside of a session"]++
		return
	}
	p, ok := e.session(ilnp.SessionKey{Local: dst.NID, Remote: src.NID})
	if !ok || len(p.Paths) == 0 {
		e.refused["Locator Update in fragments without a session"]++
		return
	}
	path := p.Paths[0]
	packet, err := ilnpwire.Reassembled(roam.ILV{NID: p.RemoteNID, L64: path.Remote}, roam.ILV{NID: p.LocalNID, L64: path.Local.L64}, p.RemoteNonce, m.Body)
	if err != nil {
		e.refused["Locator Update in fragments that cannot be put together"]++
		return
	}
	e.core.HandlePacket(now, path.Local.Link, packet)
}
