package decide

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// Octets returns a packet as it goes on by its outcome. It fails on a packet that was
// dropped, and on one that package xlate refuses though the programs let it through, as
// they look at no more of it than they need.
func (h *Host) Octets(k *Packet, o *Outcome) ([]byte, error) {
	switch {
	case o.Verdict == Shot || o.Verdict == Consumed:
		return nil, fmt.Errorf("octets of a packet that goes nowhere: %w", xlate.ErrUnsupported)
	case o.Action == Sent:
		return h.sent(k, o)
	case o.Action == Answered:
		return h.answered(k, o)
	case o.Action == Delivered || o.Action == Rebuilt:
		return h.delivered(k, o)
	}
	return bytes.Clone(k.Bytes), nil
}

// rules sets both rules of an entry.
func rules(e xlate.Entry, overNIDs bool) xlate.Entry {
	if overNIDs {
		e.Rule, e.ICMPRule = xlate.RuleRFC6741, xlate.RuleRFC6741
	}
	return e
}

func (h *Host) sent(k *Packet, o *Outcome) ([]byte, error) {
	e := rules(xlate.Entry{
		SessionPrefix: h.SessionPrefix, LocalAlias: ilvAt(k.Bytes[8:]).NID, RemoteAlias: ilvAt(k.Bytes[24:]).NID,
		LocalNID: o.Src.NID, LocalL64: o.Src.L64, RemoteNID: o.Dst.NID, RemoteL64: o.Dst.L64, Nonce: o.Nonce,
	}, o.OverNIDs)
	b, err := xlate.Outward(k.Bytes, e)
	if err == nil && o.Encap {
		if b, err = ilnp.Encapsulate(b, h.EncapPort); err == nil {
			finishEncap(b, o.Nonce.HeaderLen())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("octets of a packet that leaves: %w", err)
	}
	return b, nil
}

// finishEncap writes the UDP checksum of an encapsulated message as the programs do: they
// look at the option header alone, of n bytes, as a message and its pseudo-header sum to
// zero. So one that is damaged stays so.
func finishEncap(b []byte, n int) {
	udp := b[ip6.HeaderLen:]
	size := uint16(len(udp))
	message := ip6.Add(size-udpLen-uint16(n), uint16(ip6.ICMPv6))
	sum := ip6.Add(ip6.Sum(udp[udpLen:udpLen+n]), ^message)
	sum = ip6.Add(ip6.Add(sum, ip6.Sum(udp[:6])), ip6.Add(size, uint16(ip6.UDP)))
	binary.BigEndian.PutUint16(udp[6:], ^sum)
	noZero(udp[6:])
}

// answered turns an echo request into its reply. Neither the nonce nor the order of the
// addresses is in the checksum of the message.
func (h *Host) answered(k *Packet, o *Outcome) ([]byte, error) {
	b := bytes.Clone(k.Bytes)
	var c chain
	if c.parse(k, ip6.HeaderLen, b[6]) != 0 || c.openEncap(k, h.EncapPort, func(Counter) {}) != 0 {
		return nil, fmt.Errorf("octets of an echo reply: %w", ip6.ErrMalformed)
	}
	putEnds(b, o.Src, o.Dst)
	b[7] = ilnp.HopLimit
	b[c.at] = ilnp.TypeEchoReply
	adjustAt(b[c.at+2:], uint16(ilnp.TypeEchoRequest)<<8, uint16(ilnp.TypeEchoReply)<<8)
	old := ip6.Sum(b[c.optionAt+2 : c.optionAt+2+int(c.nonce.Len)])
	copy(b[c.optionAt+2:], o.Nonce.Value())
	if c.encap {
		udp := b[c.nonceAt-udpLen:]
		udp[0], udp[1], udp[2], udp[3] = udp[2], udp[3], udp[0], udp[1]
		if binary.BigEndian.Uint16(udp[6:]) != 0 {
			adjustAt(udp[6:], old, ip6.Sum(o.Nonce.Value()))
			noZero(udp[6:])
		}
	}
	return b, nil
}

func (h *Host) delivered(k *Packet, o *Outcome) ([]byte, error) {
	was, b := k.Bytes, k.Bytes
	var c chain
	if c.parse(k, ip6.HeaderLen, b[6]) == 0 && c.openEncap(k, h.EncapPort, func(Counter) {}) == 0 && c.encap {
		b = append(bytes.Clone(b[:c.nonceAt-udpLen]), b[c.nonceAt:]...)
		b[6] = ip6.DestOpts
		binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(b[4:])-udpLen)
	}
	src, dst := ilvAt(b[8:]), ilvAt(b[24:])
	b, err := xlate.Inward(b, xlate.Entry{
		SessionPrefix: h.SessionPrefix, LocalAlias: o.Dst.NID, RemoteAlias: o.Src.NID,
		LocalNID: dst.NID, LocalL64: dst.L64, RemoteNID: src.NID, RemoteL64: src.L64,
	})
	if err != nil {
		return nil, fmt.Errorf("octets of a packet that arrives: %w", err)
	}
	w, err := ip6.Walk(b)
	if err != nil {
		return nil, fmt.Errorf("octets of a packet that arrives: %w", err)
	}
	upper := b[w.UpperOffset:w.End]
	if off, _, ok := ip6.ChecksumOffset(w.Upper); ok && !w.Later() {
		// By the rule of the outcome: package xlate looks at longer packets than the programs.
		copy(upper[off:off+2], was[c.at+off:])
		old, new := ends(src, dst), ends(o.Src, o.Dst)
		if o.OverNIDs {
			old = ends(roam.ILV{NID: src.NID}, roam.ILV{NID: dst.NID})
		}
		if isUDP := w.Upper == ip6.UDP || w.Upper == ip6.UDPLite; !isUDP {
			adjustAt(upper[off:], old, new)
		} else if binary.BigEndian.Uint16(upper[off:]) != 0 {
			adjustAt(upper[off:], old, new)
			noZero(upper[off:])
		}
	}
	putEnds(b, o.Src, o.Dst)
	if o.MSS != 0 && len(upper) < 24 || o.Forgot && len(upper) < 32 {
		// The programs look as far as the frame goes, which may be longer than the packet.
		return nil, fmt.Errorf("octets of a packet whose options end behind it: %w", ip6.ErrTruncated)
	}
	if o.MSS != 0 {
		adjustAt(upper[16:], binary.BigEndian.Uint16(upper[22:]), o.MSS)
		binary.BigEndian.PutUint16(upper[22:], o.MSS)
	}
	if o.Forgot {
		adjustAt(upper[16:], ip6.Sum(upper[28:32]), 0)
		clear(upper[28:32])
	}
	return b, nil
}

// noZero has a UDP checksum that has become zero not look like none.
func noZero(field []byte) {
	if binary.BigEndian.Uint16(field) == 0 {
		field[0], field[1] = 0xff, 0xff
	}
}

func adjustAt(field []byte, old, new uint16) {
	binary.BigEndian.PutUint16(field, ip6.Adjust(binary.BigEndian.Uint16(field), old, new))
}

func ends(src, dst roam.ILV) uint16 {
	srcL, srcN := sumOf(src)
	dstL, dstN := sumOf(dst)
	return ip6.Add(ip6.Add(srcL, srcN), ip6.Add(dstL, dstN))
}

func putEnds(b []byte, src, dst roam.ILV) {
	for at, v := range map[int]roam.ILV{8: src, 24: dst} {
		binary.BigEndian.PutUint64(b[at:], uint64(v.L64))
		binary.BigEndian.PutUint64(b[at+8:], uint64(v.NID))
	}
}
