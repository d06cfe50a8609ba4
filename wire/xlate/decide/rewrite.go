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

// Rewrite returns the packet after its outcome. It fails for a dropped packet, and for one
// that package xlate refuses although the programs pass it, since they parse less.
func (h *Host) Rewrite(k *Packet, o *Outcome) ([]byte, error) {
	b, err := h.rewritten(k, o)
	if err == nil && o.Withheld.Is {
		w, err := ip6.Walk(b)
		if err != nil {
			return nil, fmt.Errorf("bytes of a segment without blocks: %w", err)
		}
		o.Withheld.hideBlocks(b[w.UpperOffset:w.End])
	}
	if err == nil && o.Label != 0 {
		word := binary.BigEndian.Uint32(b)&^labelMask | o.Label
		binary.BigEndian.PutUint32(b, word)
	}
	return b, err
}

func (h *Host) rewritten(k *Packet, o *Outcome) ([]byte, error) {
	switch {
	case o.Verdict == Shot || o.Verdict == Consumed:
		return nil, fmt.Errorf("bytes of a packet that goes nowhere: %w", xlate.ErrUnsupported)
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
		SessionPrefix: h.SessionPrefix, LocalAlias: ilvAt(k.Bytes[ip6.SrcAt:]).NID,
		RemoteAlias: ilvAt(k.Bytes[ip6.DstAt:]).NID,
		LocalNID:    o.Src.NID, LocalL64: o.Src.L64, RemoteNID: o.Dst.NID, RemoteL64: o.Dst.L64, Nonce: o.Nonce,
	}, o.OverNIDs)
	b, err := xlate.Outward(k.Bytes, e)
	if err == nil && o.Encap {
		if b, err = ilnp.Encapsulate(b, h.EncapPort); err == nil {
			finishEncap(b, o.Nonce.HeaderLen())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bytes of a packet that leaves: %w", err)
	}
	return b, nil
}

// finishEncap writes the UDP checksum of an encapsulated message as the programs do: from
// the n bytes of the option header alone, since a valid message and its pseudo-header sum
// to zero. So damage stays detectable.
func finishEncap(b []byte, n int) {
	udp := b[ip6.HeaderLen:]
	size := uint16(len(udp))
	message := ip6.Add(size-udpLen-uint16(n), uint16(ip6.ICMPv6))
	sum := ip6.Add(ip6.Sum(udp[udpLen:udpLen+n]), ^message)
	sum = ip6.Add(ip6.Add(sum, ip6.Sum(udp[:6])), ip6.Add(size, uint16(ip6.UDP)))
	binary.BigEndian.PutUint16(udp[ip6.UDPChecksumAt:], ^sum)
	noZero(udp[ip6.UDPChecksumAt:])
}

// answered turns an echo request into its reply. The checksum of the message covers neither
// the nonce nor the order of the addresses.
func (h *Host) answered(k *Packet, o *Outcome) ([]byte, error) {
	b := bytes.Clone(k.Bytes)
	var c chain
	if c.parse(k, ip6.HeaderLen, b[ip6.NextHeaderAt]) != 0 || c.openEncap(k, h.EncapPort, func(Counter) {}) != 0 {
		return nil, fmt.Errorf("bytes of an echo reply: %w", ip6.ErrMalformed)
	}
	putEnds(b, o.Src, o.Dst)
	b[ip6.HopLimitAt] = ilnp.HopLimit
	b[c.at] = ilnp.TypeEchoReply
	adjustAt(b[c.at+2:], uint16(ilnp.TypeEchoRequest)<<8, uint16(ilnp.TypeEchoReply)<<8)
	if o.Report != nil {
		data := b[c.at+8:]
		filled := o.Report.AppendReply(nil, [16]byte(data))
		if o.Report.Sealed {
			mac := ilnp.ReportMAC(o.ReportKey, filled, o.Report.Near, o.Report.Far)
			copy(filled[ilnp.ReportLen:], mac[:])
		}
		adjustAt(b[c.at+2:], ip6.Sum(data[:len(filled)]), ip6.Sum(filled))
		copy(data, filled)
	}
	old := ip6.Sum(b[c.optionAt+2 : c.optionAt+2+int(c.nonce.Len)])
	copy(b[c.optionAt+2:], o.Nonce.Value())
	if c.encap {
		udp := b[c.nonceAt-udpLen:]
		udp[0], udp[1], udp[2], udp[3] = udp[2], udp[3], udp[0], udp[1]
		if binary.BigEndian.Uint16(udp[ip6.UDPChecksumAt:]) != 0 {
			adjustAt(udp[ip6.UDPChecksumAt:], old, ip6.Sum(o.Nonce.Value()))
			noZero(udp[ip6.UDPChecksumAt:])
		}
	}
	return b, nil
}

func (h *Host) delivered(k *Packet, o *Outcome) ([]byte, error) {
	was, b := k.Bytes, k.Bytes
	var c chain
	if c.parse(k, ip6.HeaderLen, b[ip6.NextHeaderAt]) == 0 && c.openEncap(k, h.EncapPort, func(Counter) {}) == 0 &&
		c.encap {
		b = append(bytes.Clone(b[:c.nonceAt-udpLen]), b[c.nonceAt:]...)
		b[ip6.NextHeaderAt] = ip6.DestOpts
		binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], binary.BigEndian.Uint16(b[ip6.PayloadLenAt:])-udpLen)
	}
	src, dst := ilvAt(b[ip6.SrcAt:]), ilvAt(b[ip6.DstAt:])
	b, err := xlate.Inward(b, xlate.Entry{
		SessionPrefix: h.SessionPrefix, LocalAlias: o.Dst.NID, RemoteAlias: o.Src.NID,
		LocalNID: dst.NID, LocalL64: dst.L64, RemoteNID: src.NID, RemoteL64: src.L64,
	})
	if err != nil {
		return nil, fmt.Errorf("bytes of a packet that arrives: %w", err)
	}
	w, err := ip6.Walk(b)
	if err != nil {
		return nil, fmt.Errorf("bytes of a packet that arrives: %w", err)
	}
	upper := b[w.UpperOffset:w.End]
	if off, _, ok := ip6.ChecksumOffset(w.Upper); ok && !w.Later() {
		// By the rule of the outcome: package xlate sums longer packets than the programs
		// do.
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
		// The programs read up to the end of the frame, which may be behind the packet's.
		return nil, fmt.Errorf("bytes of a packet whose options end behind it: %w", ip6.ErrTruncated)
	}
	if o.MSS != 0 {
		adjustAt(upper[ip6.TCPChecksumAt:], binary.BigEndian.Uint16(upper[22:]), o.MSS)
		binary.BigEndian.PutUint16(upper[22:], o.MSS)
	}
	if o.Forgot {
		adjustAt(upper[ip6.TCPChecksumAt:], ip6.Sum(upper[28:32]), 0)
		clear(upper[28:32])
	}
	return b, nil
}

// noZero replaces a UDP checksum of zero, which would mean none.
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
		binary.BigEndian.PutUint64(b[at+ip6.NIDAt:], uint64(v.NID))
	}
}
