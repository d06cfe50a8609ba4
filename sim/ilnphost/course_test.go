package ilnphost

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc64"

	"roam"
	"roam/ilnp"
)

// course is the digest of what has happened in a soak: of each packet that a host has sent or
// received, and of each event of a core. Builds that decide alike have the same one for a seed.
type course struct {
	hash.Hash64
	soak   *Soak
	packet []byte
}

// follow digests what happens in a soak from now on.
func follow(k *Soak) *course {
	c := &course{Hash64: crc64.New(crc64.MakeTable(crc64.ECMA)), soak: k}
	k.Seen = c.seen
	told := k.Told
	k.Told = func(h *Node, e ilnp.Event) {
		lost := e.Lost
		e.Lost = nil // by its contents, not by its address
		fmt.Fprint(c, k.Elapsed(), h.order, e, lost != nil)
		if lost != nil {
			fmt.Fprint(c, *lost)
		}
		e.Lost = lost
		told(h, e)
	}
	return c
}

func (c *course) seen(h *Node, link roam.LinkID, leaves bool, p Packet) {
	b := c.packet[:0]
	for _, v := range []uint64{
		uint64(c.soak.Elapsed()), uint64(h.order), uint64(link)<<1 | uint64(boolCount(leaves)),
		uint64(p.Src.L64), uint64(p.Src.NID), uint64(p.Dst.L64), uint64(p.Dst.NID),
		uint64(p.Data.Number), uint64(p.size()), uint64(p.label), uint64(boolCount(p.Encapsulated)),
	} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = append(append(b, p.Nonce.Value()...), p.Control...)
	c.Write(b) // never fails
	c.packet = b
}
