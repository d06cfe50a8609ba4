package xlate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// insertNonce returns a copy of b with a Destination Options header for the nonce, if
// present. It inserts the header behind Hop-by-Hop and Routing headers, where routers
// look for those, and in front of a Fragment header, so that every fragment carries the
// nonce. It never merges the option into a Destination Options header of the
// application, which would need new padding.
func insertNonce(b []byte, c ip6.Chain, n ilnp.Nonce) ([]byte, error) {
	if !n.Present() {
		return append([]byte(nil), b...), nil
	}
	at, nextOff := ip6.HeaderLen, ip6.NextHeaderAt
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
	binary.BigEndian.PutUint16(out[ip6.PayloadLenAt:], uint16(payload))
	return out, nil
}

// stripExpected returns a copy of b without its Nonce option. If both are present, the
// option must equal want.
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

// stripNonce returns a copy of b without the Nonce option f, the number of bytes removed,
// and their offset. It removes a multiple of 8 bytes of the option and the padding next
// to it, so that other options keep their alignment, and pads the rest: Linux drops
// packets with more than 7 bytes of padding in a row. It removes a header that holds
// nothing else. Behind a Fragment header it removes nothing but pads over the option,
// since the other fragments' offsets count those bytes.
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
	binary.BigEndian.PutUint16(out[ip6.PayloadLenAt:], c.Header.PayloadLen-uint16(gone))
	return out, gone, from
}

// withPadding returns the start and end, in the packet, of the option at offset option
// together with the padding next to it. ext is its header, at the offset at.
func withPadding(ext []byte, at, option int) (from, to int) {
	list, _ := ip6.Options(ext, at) // FindNonce parsed it without error
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
