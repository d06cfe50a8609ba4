// Package ilnp reads and writes the messages of ILNPv6: the Nonce option (RFC 6744), the
// Locator Update and its acknowledgement (RFC 6743 §2, and two other forms with 16-byte
// entries), echoes with a nonce, and the whole packets that carry them.
//
// It omits the Identifier option that RFC 6743 §2 mentions, which no RFC defines for
// ILNPv6, nonces of other lengths than 4 and 12 bytes, and the site border messages of
// RFC 6748.
//
// The package is pure; importers that also use the core of the same name call it
// ilnpwire. It is driven by ilnp, wire/xlate, internal/role/ilnphost/engine and sim.
package ilnp

import (
	"errors"
	"fmt"

	"roam/wire/ip6"
)

// OptionNonce is the type of the Nonce destination option (RFC 6744 §2). Its two high
// bits make a node without ILNP discard the packet and answer with Parameter Problem,
// code 2 (RFC 8200 §4.2). A Destination Options header that holds the option alone:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  | Hdr Ext Len   |  Option Type  |  Opt Data Len |
//	|               |   0 or 1      |    = 0x8b     |   4 or 12     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	/                     Nonce Value (32 or 96 bits)               /
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const OptionNonce uint8 = 0x8b

// nonceOverhead is the length of the fields in front of the nonce value.
const nonceOverhead = ip6.OptionsAt + ip6.OptionDataAt

// ErrTwoNonces marks a packet with more than one Nonce option. Receivers discard it as
// "Authentication Failed" (RFC 6744 §2).
var ErrTwoNonces = errors.New("more than one nonce option")

// ErrNonceLength marks a Nonce option of other than 4 or 12 bytes.
var ErrNonceLength = errors.New("nonce length is neither 4 nor 12")

// Nonce is the value of a Nonce option of 4 or 12 bytes; Len is 0 without one. It is
// comparable; bytes beyond Len are zero.
type Nonce struct {
	Len   uint8
	Bytes [12]byte
}

// NewNonce makes a Nonce of 4 or 12 bytes; other lengths are ErrNonceLength.
func NewNonce(b []byte) (Nonce, error) {
	if len(b) != 4 && len(b) != 12 {
		return Nonce{}, fmt.Errorf("nonce of %d bytes: %w", len(b), ErrNonceLength)
	}
	n := Nonce{Len: uint8(len(b))}
	copy(n.Bytes[:], b)
	return n, nil
}

// Value returns the bytes of the nonce.
func (n Nonce) Value() []byte { return n.Bytes[:min(int(n.Len), len(n.Bytes))] }

// Present reports whether there is a nonce.
func (n Nonce) Present() bool { return n.Len != 0 }

// HeaderLen is the length in bytes of a Destination Options header that
// holds only this nonce: 8 or 16, and 0 without a nonce.
func (n Nonce) HeaderLen() int {
	if n.Len == 0 {
		return 0
	}
	return nonceOverhead + int(n.Len)
}

// String returns the length, never the value: a nonce is a secret, and no format verb may
// write it to a log.
func (n Nonce) String() string { return fmt.Sprintf("nonce of %d bytes", n.Len) }

// GoString returns String, for the verb %#v.
func (n Nonce) GoString() string { return n.String() }

// AppendHeader appends a Destination Options header with this nonce alone,
// which needs no padding, and next as its Next Header value.
func (n Nonce) AppendHeader(b []byte, next uint8) ([]byte, error) {
	if n.Len != 4 && n.Len != 12 {
		return nil, fmt.Errorf("nonce option: %d bytes: %w", n.Len, ErrNonceLength)
	}
	b = append(b, next, uint8(n.HeaderLen()/8-1), OptionNonce, n.Len)
	return append(b, n.Value()...), nil
}

// Found is the Nonce option of a packet and its place.
type Found struct {
	Nonce  Nonce
	Ext    int  // index of its header in Chain.Exts, -1 if the packet has no nonce
	Offset int  // of the option's type byte in the packet
	Alone  bool // its header holds no other option, not even padding
}

// FindNonce looks for the Nonce option in every Destination Options header
// ahead of the upper layer. A packet without one is no error.
func FindNonce(packet []byte, c ip6.Chain) (Found, error) {
	none := Found{Ext: -1}
	f := none
	var space [4]ip6.Option // on the stack: this is called for every packet
	for i, e := range c.Exts {
		if e.Proto != ip6.DestOpts {
			continue
		}
		list, err := ip6.OptionsIn(space[:0], packet[e.Offset:e.Offset+e.Len], e.Offset)
		if err != nil {
			return none, fmt.Errorf("destination options header: %w", err)
		}
		for _, o := range list {
			if o.Type != OptionNonce {
				continue
			}
			if f.Ext >= 0 {
				return none, fmt.Errorf("nonce option: second one at offset %d: %w", o.Offset, ErrTwoNonces)
			}
			n, err := NewNonce(o.Data)
			if err != nil {
				return none, fmt.Errorf("nonce option: length at offset %d: %w", o.Offset+ip6.OptionLenAt, err)
			}
			f = Found{Nonce: n, Ext: i, Offset: o.Offset, Alone: e.Len == n.HeaderLen()}
		}
	}
	return f, nil
}
