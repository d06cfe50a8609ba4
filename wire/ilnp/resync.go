package ilnp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"roam"
	"roam/wire/ip6"
)

const (
	resyncMSS = 1220 // what a minimal MTU of 1280 leaves; no stack ever reads it
	// resyncScale makes firewalls reckon with the largest windows there are
	// (RFC 7323), whatever the real ones.
	resyncScale = 14
)

// resyncMark begins our option in a TCP header: an experimental kind with an
// identifier of 32 bits (RFC 6994), which is not registered.
var resyncMark = [4]byte{'r', 'o', 'a', 'm'}

// ErrResync is wrapped by errors about a TCP segment that is none of an Opening.
var ErrResync = errors.New("no resync of a firewall")

// Resync is one of the two segments that show a connection to the firewalls of
// its path once more: a SYN in the name of the one end, at the sequence numbers
// that the connection has reached, and the other end's SYN with ACK. No RFC has
// this. No stack sees them: the data planes take them out by the mark and the
// nonce. To a host that does not know the mark they are a SYN in a
// synchronized connection, which is answered with an ACK (RFC 9293 §3.10.7.4).
type Resync struct {
	From, To uint16 // ports
	Seq      uint32 // one less than the byte that the sender sends next
	Ack      uint32 // of an answer: the byte behind the SYN
	Answer   bool
	Nonce    Nonce // of the sender; required
}

// Build makes the whole packet, between the session addresses of the connection.
func (o Resync) Build(src, dst roam.ILV) ([]byte, error) {
	if !o.Nonce.Present() {
		return nil, fmt.Errorf("build opening: without nonce: %w", ErrNonceLength)
	}
	const mss, scale, selective, experimental, none = 2, 3, 4, 253, 1
	// The largest segment comes first, where firewalls look for it to lower it.
	options := []byte{mss, 4, resyncMSS >> 8, resyncMSS & 0xff, experimental, 6 + o.Nonce.Len}
	options = append(append(options, resyncMark[:]...), o.Nonce.Value()...)
	options = append(options, scale, 3, resyncScale, selective, 2)
	for len(options)%4 != 0 {
		options = append(options, none)
	}
	flags := ip6.TCPSyn
	if o.Answer {
		flags |= ip6.TCPAck
	}
	return ip6.TCPSegment{
		Src: netip.AddrPortFrom(src.Addr(), o.From), Dst: netip.AddrPortFrom(dst.Addr(), o.To),
		Seq: o.Seq, Ack: o.Ack, Flags: flags, Options: options,
	}.AppendTo(nil)
}

// ParseResync reads the TCP segment of a packet. What Build does not make is
// ErrResync. The checksum is not looked at: it is over other addresses.
func ParseResync(t []byte) (Resync, error) {
	const mark = ip6.TCPHeaderLen + 4 // offset of our option
	if len(t) < mark+6+4 || t[13]&(ip6.TCPFin|ip6.TCPSyn|ip6.TCPRst) != ip6.TCPSyn {
		return Resync{}, fmt.Errorf("tcp segment of %d bytes: %w", len(t), ErrResync)
	}
	size, header := int(t[mark+1]), int(t[12]>>4)*4
	if t[mark] != 253 || !bytes.Equal(t[mark+2:mark+6], resyncMark[:]) || header > len(t) || size < 6 || mark+size > header {
		return Resync{}, fmt.Errorf("options of a tcp segment: %w", ErrResync)
	}
	n, err := NewNonce(t[mark+6 : mark+size])
	if err != nil {
		return Resync{}, fmt.Errorf("opening: %w", err)
	}
	return Resync{
		From: binary.BigEndian.Uint16(t), To: binary.BigEndian.Uint16(t[2:]),
		Seq: binary.BigEndian.Uint32(t[4:]), Ack: binary.BigEndian.Uint32(t[8:]),
		Answer: t[13]&ip6.TCPAck != 0, Nonce: n,
	}, nil
}
