package ilnp

import (
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// Reassembled makes the whole packet of an ICMPv6 message that arrived in fragments, each
// with the nonce: the packet as its sender had it before fragmentation.
func Reassembled(src, dst roam.ILV, n Nonce, message []byte) ([]byte, error) {
	size := n.HeaderLen() + len(message)
	if size > 0xffff {
		return nil, fmt.Errorf("put together packet of %d bytes: %w", size, ip6.ErrMalformed)
	}
	h := ip6.Header{PayloadLen: uint16(size), NextHeader: ip6.DestOpts, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	if b, err = n.AppendHeader(b, ip6.ICMPv6); err != nil {
		return nil, err
	}
	b = append(b, message...)
	return b, ip6.FinishL4(b)
}
