package xlate

import (
	"encoding/binary"
	"fmt"

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
// want if both are present. The kernel can take room away only right behind the
// IPv6 header; a nonce that stands further on becomes padding.
func stripExpected(b []byte, c ip6.Chain, want ilnp.Nonce) ([]byte, error) {
	f, err := ilnp.FindNonce(b, c)
	if err != nil {
		return nil, err
	}
	if f.Ext >= 0 && want.Present() && f.Nonce != want {
		return nil, fmt.Errorf("nonce option at offset %d: %w", f.Offset, ErrNonce)
	}
	f.Alone = f.Alone && f.Ext == 0
	out, _ := stripNonce(b, c, f)
	return out, nil
}

// stripNonce returns a copy of b without the Nonce option that was found, and
// how many octets went. Its header goes with it unless it holds other options;
// then padding of the same size takes the option's place.
func stripNonce(b []byte, c ip6.Chain, f ilnp.Found) ([]byte, int) {
	if f.Ext < 0 {
		return append([]byte(nil), b...), 0
	}
	x := c.Exts[f.Ext]
	if !f.Alone {
		out := append([]byte(nil), b...)
		pad := ip6.AppendPadding(nil, 2+int(f.Nonce.Len))
		copy(out[f.Offset:], pad)
		return out, 0
	}
	out := append(make([]byte, 0, len(b)-x.Len), b[:x.Offset]...)
	out = append(out, b[x.Offset+x.Len:]...)
	out[x.NextOff] = b[x.Offset]
	binary.BigEndian.PutUint16(out[4:], c.Header.PayloadLen-uint16(x.Len))
	return out, x.Len
}
