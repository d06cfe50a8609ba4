package peergen

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// Forger makes control messages and data of every kind, form and checksum rule, like an
// off-path attacker who knows all public fields but no nonce.
type Forger struct {
	Random  *rand.Rand
	Victims []roam.ILV // the claimed senders of most packets, at each of their locators
	Own     roam.ILV   // where the attacker itself is
	Targets []roam.ILV // the host under attack, at each of its locators
	Port    uint16     // of a service there; the next port is closed
	UDPPort uint16     // of UDP encapsulation
}

// Next returns a packet, whole.
func (f *Forger) Next() ([]byte, error) {
	src, dst := f.Victims[f.Random.IntN(len(f.Victims))], f.Targets[f.Random.IntN(len(f.Targets))]
	switch f.Random.IntN(8) {
	case 0:
		src = f.Own
	case 1:
		src.L64 = f.Own.L64 // the victim's NID, from elsewhere
	}
	b, nonce, err := f.message(src, dst)
	if err == nil && f.Random.IntN(2) == 0 {
		err = sumOverNIDs(b, src, dst)
	}
	if err != nil {
		return nil, fmt.Errorf("forge a message: %w", err)
	}
	switch f.Random.IntN(6) {
	case 0, 1: // the checksum does not cover the option
		b = without(b, nonce)
	case 2:
		b = beside(b, nonce)
	case 3:
		if b[ip6.HeaderLen] == ip6.ICMPv6 {
			b, err = ilnpwire.Encapsulate(b, f.UDPPort)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("carry a forged message: %w", err)
	}
	return b, nil
}

func (f *Forger) nonce() ilnpwire.Nonce {
	n := ilnpwire.Nonce{Len: 4 + 8*uint8(f.Random.IntN(2))}
	for i := range n.Len {
		n.Bytes[i] = byte(f.Random.Uint32())
	}
	return n
}

func (f *Forger) message(src, dst roam.ILV) (b []byte, n ilnpwire.Nonce, err error) {
	n = f.nonce()
	switch f.Random.IntN(7) {
	case 0, 1:
		b, err = ilnpwire.BuildUpdate(src, dst, n, f.update(dst))
	case 2:
		b, err = ilnpwire.BuildEcho(src, dst, n, true, uint16(f.Random.Uint32()), 1, f.token())
	case 3:
		b, err = ilnpwire.BuildEcho(src, dst, n, false, uint16(f.Random.Uint32()), 1, f.token())
	case 4:
		b, err = f.fault(src, dst, n)
	default:
		b, err = f.data(src, dst, n)
	}
	return b, n, err
}

func (f *Forger) token() []byte {
	b := binary.BigEndian.AppendUint64(nil, f.Random.Uint64())
	return binary.BigEndian.AppendUint64(b, f.Random.Uint64())
}

// update is a Locator Update or an acknowledgement, in each form and with each code.
func (f *Forger) update(dst roam.ILV) ilnpwire.LocatorUpdate {
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Form: ilnpwire.Form(f.Random.IntN(3))}
	if f.Random.IntN(3) == 0 {
		lu.Operation = ilnpwire.Acknowledgement
	}
	if lu.Form == ilnpwire.FormDraft {
		lu.Code = 1 + uint8(f.Random.IntN(7))
	}
	for _, l := range []roam.L64{f.Own.L64, f.Victims[0].L64, dst.L64}[:1+f.Random.IntN(3)] {
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{
			L64:        l,
			Preference: uint32(f.Random.IntN(50)),
			Lifetime:   uint32(f.Random.IntN(2) * 600),
		})
	}
	return lu
}

// fault is an ICMPv6 error of each type about a probe with a guessed token, in UDP or
// not, or about data.
func (f *Forger) fault(src, dst roam.ILV, n ilnpwire.Nonce) ([]byte, error) {
	guess := f.nonce()
	quoted, err := ilnpwire.BuildEcho(dst, src, guess, true, uint16(f.Random.Uint32()), 1, f.token())
	switch f.Random.IntN(3) {
	case 0:
		quoted, err = ilnpwire.Encapsulate(quoted, f.UDPPort)
	case 1:
		quoted, err = f.data(dst, src, guess)
	}
	if err != nil {
		return nil, fmt.Errorf("quote: %w", err)
	}
	m := ilnpwire.ErrorMessage{Type: 1 + uint8(f.Random.IntN(4)), Code: uint8(f.Random.IntN(5)), Quoted: quoted}
	switch m.Type {
	case ilnpwire.TypePacketTooBig:
		m.Code, m.Param = 0, 1280
	case ilnpwire.TypeParameterProblem:
		m.Code, m.Param = ilnpwire.CodeUnknownOption, ip6.HeaderLen+2
	}
	return ilnpwire.BuildError(src, dst, n, m)
}

// data is a datagram, a first segment, an acknowledgement of a SYN-ACK with guessed
// numbers, or a reset.
func (f *Forger) data(src, dst roam.ILV, n ilnpwire.Nonce) ([]byte, error) {
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, 1024+uint16(f.Random.IntN(60000))), f.Port)
	proto, head := ip6.UDP, append(ports, 0, 28, 0, 0)
	if flags := []byte{0, 2, 0x10, 4}[f.Random.IntN(4)]; flags != 0 {
		proto, head = ip6.TCP, binary.BigEndian.AppendUint64(ports, f.Random.Uint64())
		head = append(head, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	} else {
		head = append(head, make([]byte, 20)...)
		binary.BigEndian.PutUint16(head[2:], f.Port+1)
	}
	h := ip6.Header{
		NextHeader: ip6.DestOpts,
		HopLimit:   64,
		Src:        src.Addr(),
		Dst:        dst.Addr(),
		PayloadLen: uint16(n.HeaderLen() + len(head)),
	}
	b, err := h.AppendTo(nil)
	if err == nil {
		b, err = n.AppendHeader(b, proto)
	}
	if b = append(b, head...); err == nil {
		err = ip6.FinishL4(b)
	}
	return b, err
}

// sumOverNIDs replaces the checksum by one that counts locators as zero.
func sumOverNIDs(b []byte, src, dst roam.ILV) error {
	c, err := ip6.Walk(b)
	if err != nil {
		return err
	}
	at := map[uint8]int{ip6.TCP: 16, ip6.UDP: 6, ip6.ICMPv6: 2}[c.Upper]
	field := b[c.UpperOffset+at:]
	binary.BigEndian.PutUint16(field, 0)
	sum := ip6.Checksum(roam.ILV{NID: src.NID}.Addr(), roam.ILV{NID: dst.NID}.Addr(), c.Upper, b[c.UpperOffset:c.End])
	binary.BigEndian.PutUint16(field, sum)
	return nil
}

// without removes the option.
func without(b []byte, n ilnpwire.Nonce) []byte {
	next := b[ip6.HeaderLen]
	b = append(b[:ip6.HeaderLen:ip6.HeaderLen], b[ip6.HeaderLen+n.HeaderLen():]...)
	b[6] = next
	return sized(b)
}

// beside adds an unknown option, which receivers must skip, and padding.
func beside(b []byte, n ilnpwire.Nonce) []byte {
	at := ip6.HeaderLen + n.HeaderLen()
	b = append(append(b[:at:at], 0x1e, 2, 0, 0, 1, 2, 0, 0), b[at:]...)
	b[ip6.HeaderLen+1]++
	return sized(b)
}

func sized(b []byte) []byte {
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ip6.HeaderLen))
	return b
}
