package ilnp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// Flags of a TCP header.
const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	_
	tcpACK
)

const (
	tcpHeaderLen = 20
	resyncMSS    = 1220 // what a minimal MTU of 1280 leaves; no stack ever reads it
	// resyncScale makes firewalls reckon with the largest windows there are
	// (RFC 7323), whatever the real ones.
	resyncScale  = 14
	resyncWindow = 0xffff
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
	flags := byte(tcpSYN)
	if o.Answer {
		flags |= tcpACK
	}
	return tcpSegment(src, dst, o, flags, options), nil
}

// OldSegment makes the whole packet of an empty segment to a connection that has
// received all before wanted long since: its stack discards it and answers with
// an ACK at once (RFC 9293 §3.10.7.4).
func OldSegment(src, dst roam.ILV, from, to uint16, wanted, acked uint32) []byte {
	const old = 1 << 16 // bytes
	return tcpSegment(src, dst, Resync{From: from, To: to, Seq: wanted - old, Ack: acked}, tcpACK, nil)
}

func tcpSegment(src, dst roam.ILV, o Resync, flags byte, options []byte) []byte {
	t := make([]byte, tcpHeaderLen, tcpHeaderLen+len(options))
	binary.BigEndian.PutUint16(t, o.From)
	binary.BigEndian.PutUint16(t[2:], o.To)
	binary.BigEndian.PutUint32(t[4:], o.Seq)
	binary.BigEndian.PutUint32(t[8:], o.Ack)
	t[12] = byte((tcpHeaderLen + len(options)) / 4 << 4)
	t[13] = flags
	binary.BigEndian.PutUint16(t[14:], resyncWindow)
	t = append(t, options...)
	binary.BigEndian.PutUint16(t[16:], ip6.Checksum(src.Addr(), dst.Addr(), ip6.TCP, t))
	b := make([]byte, ip6.HeaderLen, ip6.HeaderLen+len(t))
	b[0], b[6], b[7] = 6<<4, ip6.TCP, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(t)))
	s, d := src.Addr().As16(), dst.Addr().As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	return append(b, t...)
}

// ParseResync reads the TCP segment of a packet. What Build does not make is
// ErrResync. The checksum is not looked at: it is over other addresses.
func ParseResync(t []byte) (Resync, error) {
	const mark = tcpHeaderLen + 4 // offset of our option
	if len(t) < mark+6+4 || t[13]&(tcpFIN|tcpSYN|tcpRST) != tcpSYN {
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
		Answer: t[13]&tcpACK != 0, Nonce: n,
	}, nil
}
