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

// The options of a resync. The experimental option (RFC 6994) identifies it; its 32-bit
// identifier is not registered. The option of the maximum segment size comes first,
// where firewalls that lower it look for it:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| TCP header without options, SYN or SYN with ACK (20 bytes)    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Kind = 2    |  Length = 4   |          MSS = 1220           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Kind = 253   | Length=10, 18 |      ExID = "roam"            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       ExID, continued         |  Nonce (32 or 96 bits)        .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Kind = 3    |  Length = 3   |  Shift = 14   |   Kind = 4    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Length = 2   |  Kind = 1 (no operation), to 4 bytes          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	optNoOperation  = 1
	optMSS          = 2
	optWindowScale  = 3
	optSACK         = 4
	optExperimental = 253

	mssLen      = 4
	scaleLen    = 3
	sackLen     = 2
	exIDAt      = 2 // in the experimental option
	exNonceAt   = 6 // likewise
	leastNonce  = 4
	resyncOptAt = ip6.TCPHeaderLen + mssLen // the experimental option, in the segment

	resyncMSS = 1220 // fits the least MTU of 1280; no stack ever reads it
	// resyncScale makes firewalls allow the largest windows (RFC 7323), whatever the
	// real ones are.
	resyncScale = 14
)

// resyncMark is the ExID of the experimental option.
var resyncMark = [4]byte{'r', 'o', 'a', 'm'}

// ErrResync is wrapped by errors about a TCP segment that is no Resync.
var ErrResync = errors.New("no resync of a firewall")

// Resync is one of the two segments that make the firewalls of a path track a connection
// again: a SYN in the name of one end, with the sequence numbers that the connection has
// reached, and the other end's SYN with ACK. No RFC defines it. No stack receives them:
// the data planes recognize the mark and the nonce, and consume them. A host that does
// not know the mark sees a SYN in a synchronized connection and answers it with an ACK
// (RFC 9293 §3.10.7.4).
type Resync struct {
	From, To uint16 // ports
	Seq      uint32 // one less than the sender's next sequence number
	Ack      uint32 // of an answer: the SYN's sequence number plus one
	Answer   bool
	Nonce    Nonce // of the sender; required
}

// Build makes the whole packet, between the session addresses of the connection.
func (o Resync) Build(src, dst roam.ILV) ([]byte, error) {
	if !o.Nonce.Present() {
		return nil, fmt.Errorf("build resync: without nonce: %w", ErrNonceLength)
	}
	options := []byte{optMSS, mssLen, resyncMSS >> 8, resyncMSS & 0xff, optExperimental, exNonceAt + o.Nonce.Len}
	options = append(append(options, resyncMark[:]...), o.Nonce.Value()...)
	options = append(options, optWindowScale, scaleLen, resyncScale, optSACK, sackLen)
	for len(options)%4 != 0 {
		options = append(options, optNoOperation)
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

// ParseResync reads the TCP segment of a packet. A segment that Build cannot have made is
// an ErrResync. ParseResync does not verify the checksum, which covers other addresses.
func ParseResync(t []byte) (Resync, error) {
	const opt = resyncOptAt
	if len(t) < opt+exNonceAt+leastNonce ||
		t[ip6.TCPFlagsAt]&(ip6.TCPFin|ip6.TCPSyn|ip6.TCPRst) != ip6.TCPSyn {
		return Resync{}, fmt.Errorf("tcp segment of %d bytes: %w", len(t), ErrResync)
	}
	size, header := int(t[opt+1]), int(t[ip6.TCPDataOffsetAt]>>4)*4
	if t[opt] != optExperimental || !bytes.Equal(t[opt+exIDAt:opt+exNonceAt], resyncMark[:]) ||
		header > len(t) || size < exNonceAt || opt+size > header {
		return Resync{}, fmt.Errorf("options of a tcp segment: %w", ErrResync)
	}
	n, err := NewNonce(t[opt+exNonceAt : opt+size])
	if err != nil {
		return Resync{}, fmt.Errorf("resync: %w", err)
	}
	return Resync{
		From: binary.BigEndian.Uint16(t[ip6.SrcPortAt:]), To: binary.BigEndian.Uint16(t[ip6.DstPortAt:]),
		Seq: binary.BigEndian.Uint32(t[ip6.TCPSeqAt:]), Ack: binary.BigEndian.Uint32(t[ip6.TCPAckAt:]),
		Answer: t[ip6.TCPFlagsAt]&ip6.TCPAck != 0, Nonce: n,
	}, nil
}
