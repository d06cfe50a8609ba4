package interop

import (
	"encoding/binary"
	"fmt"
)

// entry is one locator of a Locator Update.
type entry struct {
	l64        uint64
	preference uint16 // lower is preferred
	lifetime   uint32 // seconds
}

// form is one of the layouts that Locator Updates have on the wire.
type form uint8

const (
	formRFC   form = iota // code 0, entries of 12 bytes (RFC 6743 §2)
	formDraft             // codes 1 to 7, entries of 16 bytes
	formLE                // code 0, entries of 16 bytes, values of 32 bits, little-endian
)

// locatorUpdate is the ICMPv6 message 156.
type locatorUpdate struct {
	form            form
	code, operation byte
	entries         []entry
}

const (
	codeRFC, codeReplaceSoft       = 0, 7
	opAdvertise, opAcknowledgement = 1, 2
)

// newUpdate makes an advertisement of a form.
func newUpdate(f form, entries []entry) locatorUpdate {
	u := locatorUpdate{form: f, code: codeRFC, operation: opAdvertise, entries: entries}
	if f == formDraft {
		u.code = codeReplaceSoft
	}
	return u
}

func (f form) size() int {
	if f == formRFC {
		return 12
	}
	return 16
}

func (u locatorUpdate) bytes() []byte {
	b := []byte{icmpUpdate, u.code, 0, 0, byte(len(u.entries)), u.operation, 0, 0}
	for _, e := range u.entries {
		b = binary.BigEndian.AppendUint64(b, e.l64)
		switch u.form {
		case formLE:
			b = binary.LittleEndian.AppendUint32(b, uint32(e.preference))
			b = binary.LittleEndian.AppendUint32(b, e.lifetime)
		case formDraft:
			b = binary.BigEndian.AppendUint16(b, e.preference)
			b = binary.BigEndian.AppendUint32(append(b, 0, 0), e.lifetime)
		default:
			b = binary.BigEndian.AppendUint16(b, e.preference)
			b = binary.BigEndian.AppendUint16(b, uint16(min(e.lifetime, 0xffff)))
		}
	}
	return b
}

// parseUpdate reads a message of the RFC's form or the draft's. With
// littleEndian it takes code 0 with entries of 16 bytes too, and of any form
// with code 0 only the first locator.
func parseUpdate(b []byte, littleEndian bool) (u locatorUpdate, err error) {
	if len(b) < 8 || b[4] == 0 {
		return u, fmt.Errorf("locator update of %d bytes: %w", len(b), errForeign)
	}
	u.code, u.operation = b[1], b[5]
	switch {
	case u.code != codeRFC:
		u.form = formDraft
	case littleEndian && len(b) == 8+formLE.size()*int(b[4]):
		u.form = formLE
	}
	size := u.form.size()
	if len(b) != 8+size*int(b[4]) {
		return u, fmt.Errorf("locator update of %d bytes and %d locators: %w", len(b), b[4], errForeign)
	}
	for b = b[8:]; len(b) > 0; b = b[size:] {
		u.entries = append(u.entries, readEntry(u.form, b))
	}
	if littleEndian && u.code == codeRFC {
		u.form, u.entries = formLE, u.entries[:1]
	}
	return u, nil
}

func readEntry(f form, b []byte) entry {
	e := entry{l64: binary.BigEndian.Uint64(b), preference: binary.BigEndian.Uint16(b[8:])}
	switch f {
	case formLE:
		e.preference = uint16(binary.LittleEndian.Uint32(b[8:]))
		e.lifetime = binary.LittleEndian.Uint32(b[12:])
	case formDraft:
		e.lifetime = binary.BigEndian.Uint32(b[12:])
	default:
		e.lifetime = uint32(binary.BigEndian.Uint16(b[10:]))
	}
	return e
}
