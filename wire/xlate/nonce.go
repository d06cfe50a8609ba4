package xlate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// insertNonce returns a copy of b with a Destination Options header for the
// nonce, if there is one. It goes behind Hop-by-Hop and Routing headers, so
// that routers find those where they look, and ahead of a Fragment header, so
// that every fragment carries it. It never joins a Destination Options header
// that the application put there: that would need padding anew.
func insertNonce(b []byte, c ip6.Chain, n ilnp.Nonce) ([]byte, error) {
	if !n.Present() {
		return append([]byte(nil), b...), nil
	}
	at, nextOff := ip6.HeaderLen, 6
	for _, x := range c.Exts {
		if x.Proto == ip6.Fragment {
			break
		}
		if x.Proto == ip6.HopByHop || x.Proto == ip6.Routing {
			at, nextOff = x.Offset+x.Len, x.Offset
		}
	}
	payload := int(c.Header.PayloadLen) + n.HeaderLen()
	if payload > 0xffff {
		return nil, fmt.Errorf("payload length %d at offset 4 with nonce exceeds 65535: %w", payload, ErrUnsupported)
	}
	out := append(make([]byte, 0, len(b)+n.HeaderLen()), b[:at]...)
	out, err := n.AppendHeader(out, b[nextOff])
	if err != nil {
		return nil, err
	}
	out = append(out, b[at:]...)
	out[nextOff] = ip6.DestOpts
	binary.BigEndian.PutUint16(out[4:], uint16(payload))
	return out, nil
}

// stripExpected returns a copy of b without its Nonce option, which must be
// want if both are present.
func stripExpected(b []byte, c ip6.Chain, want ilnp.Nonce) ([]byte, error) {
	f, err := ilnp.FindNonce(b, c)
	if err != nil {
		return nil, err
	}
	if f.Ext >= 0 && want.Present() && f.Nonce != want {
		return nil, fmt.Errorf("nonce option at offset %d: %w", f.Offset, ErrNonce)
	}
	out, _, _ := stripNonce(b, c, f)
	return out, nil
}

// stripNonce returns a copy of b without the Nonce option that was found, how many
// bytes went, and where. Of the option and the padding next to it, whole multiples of
// 8 bytes go, so that the other options keep their alignment, and padding takes what is
// left: Linux drops packets with more than 7 bytes of padding in a row. A header that
// would hold nothing else goes whole. Behind a Fragment header nothing may go, as the
// other fragments say where they belong: padding takes the option's place.
func stripNonce(b []byte, c ip6.Chain, f ilnp.Found) (out []byte, gone, goneAt int) {
	if f.Ext < 0 {
		return append([]byte(nil), b...), 0, 0
	}
	x, whole := c.Exts[f.Ext], false
	from, to := f.Offset, f.Offset+2+int(f.Nonce.Len)
	if !slices.ContainsFunc(c.Exts[:f.Ext], func(x ip6.Ext) bool { return x.Proto == ip6.Fragment }) {
		from, to = withPadding(b[x.Offset:x.Offset+x.Len], x.Offset, f.Offset)
		gone, whole = (to-from)&^7, to-from == x.Len-2
	}
	if whole {
		from, gone = x.Offset, x.Len
	}
	out = append(make([]byte, 0, len(b)-gone), b[:from]...)
	out = ip6.AppendPadding(out, to-from-gone)
	out = append(out, b[to:]...)
	if whole {
		out[x.NextOff] = b[x.Offset]
	} else {
		out[x.Offset+1] -= uint8(gone / 8)
	}
	binary.BigEndian.PutUint16(out[4:], c.Header.PayloadLen-uint16(gone))
	return out, gone, from
}

// withPadding returns where the option at a packet's offset begins and ends together
// with the padding next to it, in the header ext that stands at the offset at.
func withPadding(ext []byte, at, option int) (from, to int) {
	list, _ := ip6.Options(ext, at) // it was read before
	from, to = -1, at+len(ext)
	for _, o := range list {
		switch {
		case o.Type <= ip6.PadN || o.Offset == option:
			if from < 0 {
				from = o.Offset
			}
		case o.Offset < option:
			from = -1
		default:
			return from, o.Offset
		}
	}
	return from, to
}
