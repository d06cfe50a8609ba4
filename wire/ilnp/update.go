package ilnp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// ICMPv6 types and codes that ILNPv6 uses.
const (
	TypeUnreachable      uint8 = 1
	TypePacketTooBig     uint8 = 2
	TypeTimeExceeded     uint8 = 3
	TypeParameterProblem uint8 = 4
	TypeEchoRequest      uint8 = 128
	TypeEchoReply        uint8 = 129
	TypeLocatorUpdate    uint8 = 156 // RFC 6743 §2

	CodeUnknownOption uint8 = 2 // of a Parameter Problem (RFC 4443 §3.4)
	CodeNoAddress     uint8 = 3 // of Destination Unreachable (RFC 4443 §3.1)

	CodePortUnreachable uint8 = 4 // likewise
)

// Operation distinguishes an advertisement from its acknowledgement (RFC 6743 §2).
type Operation uint8

// The operations; all other values are reserved.
const (
	Advertisement   Operation = 1
	Acknowledgement Operation = 2
)

// Codes of a Locator Update. RFC 6743 defines CodeNone only; the others belong to
// FormDraft.
const (
	CodeNone        uint8 = 0
	CodeUnused      uint8 = 1 // reserved; ParseLocatorUpdate accepts it, its caller refuses it
	CodeAddHard     uint8 = 2
	CodeAddSoft     uint8 = 3
	CodeDeleteHard  uint8 = 4
	CodeDeleteSoft  uint8 = 5
	CodeReplaceHard uint8 = 6
	CodeReplaceSoft uint8 = 7
)

// MaxLocators bounds a Locator Update: its count has 8 bits.
const MaxLocators = 255

// ErrNoLocators marks a Locator Update without locators, which RFC 6743 §2 forbids.
var ErrNoLocators = errors.New("no locators")

// A Locator Update (RFC 6743 §2), with its fields' offsets in the message and in an entry:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Type = 156   |     Code      |          Checksum             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Num of Locs |   Operation   |           Reserved            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	/                  Entries, of one of the forms                 /
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// An entry of FormRFC:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                                                               |
//	+                       Locator (64 bits)                       +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Preference          |           Lifetime            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Behind the locator FormDraft has a preference of 16 bits, 16 reserved bits and a lifetime
// of 32 bits; FormLinux has a preference and a lifetime of 32 bits, both little-endian:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Preference   (FormLinux: 32) |    Reserved (FormDraft)       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           Lifetime                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	countAt     = 4
	operationAt = 5
	updateFixed = 8

	preferenceAt   = 8
	lifetimeAt     = 10 // of FormRFC
	longLifetimeAt = 12 // of FormDraft and FormLinux
	entryRFC       = 12
	entryLong      = 16 // of FormDraft and FormLinux
)

// LocatorEntry is one locator of a Locator Update.
type LocatorEntry struct {
	L64        roam.L64
	Preference uint32 // lower is preferred (RFC 6742 §2.3); at most 65,535 but in FormLinux
	Lifetime   uint32 // seconds; FormRFC holds at most 65,535
}

// Form is the layout of a Locator Update.
type Form uint8

// The forms. Codes 1 to 7 imply FormDraft. Code 0 implies one of the two others; the length
// decides which, since a message has at least one entry and no length fits both.
const (
	FormRFC   Form = iota // RFC 6743 §2: code 0, entries of 12 bytes
	FormDraft             // codes 1 to 7, entries of 16 bytes with a lifetime of 32 bits
	// FormLinux is code 0 with entries of 16 bytes. The ILNPv6 kernel of the University
	// of St Andrews sends it on x86, and ignores the values of preference and lifetime.
	FormLinux
)

// String returns the form's name in the configuration and in logs.
func (f Form) String() string {
	switch f {
	case FormRFC:
		return "rfc6743"
	case FormDraft:
		return "draft"
	case FormLinux:
		return "linux"
	}
	return fmt.Sprintf("form %d", uint8(f))
}

// LocatorUpdate is the ICMPv6 message of type 156.
type LocatorUpdate struct {
	Code      uint8
	Operation Operation
	Locators  []LocatorEntry // 1 to MaxLocators
	Form      Form
}

// Ack returns the acknowledgement of an advertisement: the same body with the
// other Operation value (RFC 6743 §2).
func (u LocatorUpdate) Ack() LocatorUpdate {
	u.Operation = Acknowledgement
	return u
}

// ParseLocatorUpdate reads a Locator Update from its ICMPv6 type field on, to the end of b.
// It ignores the checksum, which ParsePacket verifies, and reserved fields, as RFC 6743
// §2 requires.
func ParseLocatorUpdate(b []byte) (LocatorUpdate, error) {
	if len(b) < updateFixed {
		return LocatorUpdate{}, fmt.Errorf("locator update: %s ends at offset %d, want %d bytes: %w",
			updateField(len(b)), len(b), updateFixed, ip6.ErrTruncated)
	}
	typ, count := b[ip6.ICMPTypeAt], int(b[countAt])
	u := LocatorUpdate{Code: b[ip6.ICMPCodeAt], Operation: Operation(b[operationAt]), Form: formOf(b)}
	switch {
	case typ != TypeLocatorUpdate:
		return LocatorUpdate{}, fmt.Errorf("locator update: type %d at offset 0: %w", typ, ip6.ErrMalformed)
	case u.Code > CodeReplaceSoft:
		return LocatorUpdate{}, fmt.Errorf("locator update: code %d at offset 1: %w", u.Code, ip6.ErrMalformed)
	case count == 0:
		return LocatorUpdate{}, fmt.Errorf("locator update: count at offset 4: %w", ErrNoLocators)
	case u.Operation != Advertisement && u.Operation != Acknowledgement:
		return LocatorUpdate{}, fmt.Errorf("locator update: operation %d at offset 5: %w", u.Operation, ip6.ErrMalformed)
	}
	size := u.Form.entrySize()
	want := updateFixed + size*count
	if len(b) < want {
		i := (len(b) - updateFixed) / size
		return LocatorUpdate{}, fmt.Errorf("locator update: locator %d ends at offset %d, want %d bytes of code %d: %w",
			i+1, len(b), want, u.Code, ip6.ErrTruncated)
	}
	if len(b) > want {
		return LocatorUpdate{}, fmt.Errorf("locator update: %d bytes at offset %d behind %d locators of code %d: %w",
			len(b)-want, want, count, u.Code, ip6.ErrMalformed)
	}
	u.Locators = make([]LocatorEntry, count)
	for i := range u.Locators {
		u.Locators[i] = u.Form.parseEntry(b[updateFixed+i*size:])
	}
	return u, nil
}

// AppendTo appends the message to b with a checksum of zero: the caller computes it over
// the whole packet. FormRFC limits lifetimes to 65,535 s.
func (u LocatorUpdate) AppendTo(b []byte) ([]byte, error) {
	switch {
	case len(u.Locators) == 0:
		return nil, fmt.Errorf("locator update: count at offset 4: %w", ErrNoLocators)
	case len(u.Locators) > MaxLocators:
		return nil, fmt.Errorf("locator update: %d locators, at most %d: %w",
			len(u.Locators), MaxLocators, ip6.ErrMalformed)
	case u.Operation != Advertisement && u.Operation != Acknowledgement:
		return nil, fmt.Errorf("locator update: operation %d at offset 5: %w", u.Operation, ip6.ErrMalformed)
	case u.Code > CodeReplaceSoft, u.Form > FormLinux, (u.Form == FormDraft) != (u.Code != CodeNone):
		return nil, fmt.Errorf("locator update: code %d at offset 1 in the wrong form: %w", u.Code, ip6.ErrMalformed)
	}
	b = append(b, TypeLocatorUpdate, u.Code, 0, 0, uint8(len(u.Locators)), uint8(u.Operation), 0, 0)
	for _, e := range u.Locators {
		if e.Preference > 0xffff && u.Form != FormLinux {
			return nil, fmt.Errorf("locator update: preference %d of %v, at most 65535: %w",
				e.Preference, e.L64, ip6.ErrMalformed)
		}
		b = u.Form.appendEntry(b, e)
	}
	return b, nil
}

// formOf returns the form of a message that has its fixed part. A message that fits none is
// FormRFC, or FormDraft by its code.
func formOf(b []byte) Form {
	switch {
	case b[ip6.ICMPCodeAt] != CodeNone:
		return FormDraft
	case len(b) == updateFixed+entryLong*int(b[countAt]):
		return FormLinux
	}
	return FormRFC
}

func (f Form) entrySize() int {
	if f == FormRFC {
		return entryRFC
	}
	return entryLong
}

func (f Form) parseEntry(b []byte) LocatorEntry {
	e := LocatorEntry{
		L64:        roam.L64(binary.BigEndian.Uint64(b)),
		Preference: uint32(binary.BigEndian.Uint16(b[preferenceAt:])),
	}
	switch f {
	case FormDraft:
		e.Lifetime = binary.BigEndian.Uint32(b[longLifetimeAt:])
	case FormLinux:
		e.Preference = binary.LittleEndian.Uint32(b[preferenceAt:])
		e.Lifetime = binary.LittleEndian.Uint32(b[longLifetimeAt:])
	default:
		e.Lifetime = uint32(binary.BigEndian.Uint16(b[lifetimeAt:]))
	}
	return e
}

func (f Form) appendEntry(b []byte, e LocatorEntry) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.L64))
	switch f {
	case FormDraft:
		b = binary.BigEndian.AppendUint16(b, uint16(e.Preference))
		return binary.BigEndian.AppendUint32(append(b, 0, 0), e.Lifetime)
	case FormLinux:
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, e.Preference), e.Lifetime)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(e.Preference))
	return binary.BigEndian.AppendUint16(b, uint16(min(e.Lifetime, 0xffff)))
}

// updateField names the field of the fixed part that holds offset off.
func updateField(off int) string {
	fields := [updateFixed]string{"type", "code", "checksum", "checksum", "count", "operation", "reserved", "reserved"}
	return fields[off]
}
