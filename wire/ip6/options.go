package ip6

import "fmt"

// The two padding options of RFC 8200 §4.2.
const (
	Pad1 uint8 = 0
	PadN uint8 = 1
)

// Option is one TLV-encoded option of a Hop-by-Hop or Destination Options
// header, known or not. Data is a part of the buffer that was parsed; a Pad1
// has none.
type Option struct {
	Type   uint8
	Data   []byte
	Offset int // of the type byte, from the start of the packet
}

// size is the length of the option on the wire.
func (o Option) size() int {
	if o.Type == Pad1 {
		return 1
	}
	return OptionDataAt + len(o.Data)
}

// Options returns the options of a Hop-by-Hop or Destination Options header in their
// order, padding and unknown options included. ext is the whole header and at its offset
// in the packet; errors and Option.Offset count from the packet's start.
func Options(ext []byte, at int) ([]Option, error) { return OptionsIn(make([]Option, 0, 4), ext, at) }

// OptionsIn is Options for callers that have space for the list: it is appended to list.
func OptionsIn(list []Option, ext []byte, at int) ([]Option, error) {
	if len(ext) < OptionsAt {
		return nil, truncated("options header", "length", at+len(ext), at+OptionsAt)
	}
	for i := OptionsAt; i < len(ext); {
		o := Option{Type: ext[i], Offset: at + i}
		if o.Type != Pad1 {
			if i+OptionLenAt == len(ext) {
				return nil, truncated(fmt.Sprintf("option %#02x", o.Type), "length", at+len(ext), at+i+OptionDataAt)
			}
			end := i + OptionDataAt + int(ext[i+OptionLenAt])
			if end > len(ext) {
				return nil, truncated(fmt.Sprintf("option %#02x", o.Type), "data", at+len(ext), at+end)
			}
			o.Data = ext[i+OptionDataAt : end : end]
		}
		list = append(list, o)
		i += o.size()
	}
	return list, nil
}

// AppendOptions appends an options header with the given Next Header value to
// b and pads its end to a multiple of 8 bytes. It does not align the options: a caller
// that needs alignment passes padding between them.
func AppendOptions(b []byte, next uint8, list []Option) ([]byte, error) {
	n := OptionsAt
	for _, o := range list {
		if len(o.Data) > 255 {
			return nil, fmt.Errorf("option %#02x: %d bytes of data, at most 255: %w", o.Type, len(o.Data), ErrMalformed)
		}
		if o.Type == Pad1 && len(o.Data) != 0 {
			return nil, fmt.Errorf("option 0x00: padding of one byte has %d bytes of data: %w", len(o.Data), ErrMalformed)
		}
		n += o.size()
	}
	total := (n + extUnit - 1) &^ (extUnit - 1)
	if total > extUnit*256 {
		return nil, fmt.Errorf("options header: %d bytes, at most %d: %w", total, extUnit*256, ErrMalformed)
	}
	b = append(b, next, uint8(total/extUnit-1))
	for _, o := range list {
		b = append(b, o.Type)
		if o.Type != Pad1 {
			b = append(append(b, uint8(len(o.Data))), o.Data...)
		}
	}
	return AppendPadding(b, total-n), nil
}

// AppendPadding appends n bytes of padding options, 0 <= n <= 257.
func AppendPadding(b []byte, n int) []byte {
	switch {
	case n <= 0:
		return b
	case n == 1:
		return append(b, Pad1)
	}
	b = append(b, PadN, uint8(n-2))
	return append(b, make([]byte, n-2)...)
}
