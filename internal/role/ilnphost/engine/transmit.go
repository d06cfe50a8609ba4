package engine

import (
	"crypto/rand"
	"encoding/binary"
	"errors"

	"roam"
	"roam/ilnp"
	"roam/internal/rawio"
	"roam/wire/ip6"
)

// leastMTU is what every IPv6 path carries (RFC 8200 §5).
const leastMTU = 1280

// transmit sends a control packet. One with very many locators goes in
// fragments that any path carries; each repeats the nonce.
func (u *uplinks) transmit(o ilnp.Transmit) {
	if len(o.Behind) > 0 {
		u.report("send train", u.cfg.Sender.SendTrain(o.Link, append([][]byte{o.Packet}, o.Behind...)))
		return
	}
	parts := [][]byte{o.Packet}
	if len(o.Packet) > leastMTU && !o.Whole {
		var id [4]byte
		rand.Read(id[:]) // never fails
		var err error
		if parts, err = ip6.Split(o.Packet, leastMTU, binary.BigEndian.Uint32(id[:])); err != nil {
			u.report("send control packet", err)
			return
		}
	}
	for _, p := range parts {
		u.send("send control packet", o.Link, p)
	}
}

// send sends a packet out of a link. The kernel has no route there for a moment
// when a manager puts a default route in the place of another; hostnet holds that
// one, and data goes on to its router. So does this. Where nobody knows the way
// the packet is counted: whatever needs an answer is retransmitted.
func (u *uplinks) send(what string, link roam.LinkID, packet []byte) {
	err := u.cfg.Sender.Send(link, packet)
	if errors.Is(err, rawio.ErrNoRoute) {
		at := u.links[link]
		if !at.Routed || !at.NextHopValid || !at.HasMAC {
			u.refused[noRoute]++
			return
		}
		err = u.cfg.Sender.SendTo(link, at.NextHopMAC, packet)
	}
	u.report(what, err)
}

// noRoute is the reason in Refused for a packet of ours on a link without a route.
const noRoute = "packet of ours on a link without a route"
