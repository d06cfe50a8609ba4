package interop

import "fmt"

const (
	optPad1  = 0
	optPadN  = 1
	optNonce = 0x8b // RFC 6744 §2
)

// Options are the bytes that a stack puts around the nonce. The zero value is a header with
// a nonce of 4 bytes and nothing else.
type Options struct {
	Before, Behind string // options in the nonce's own header, see Pad1, PadN and Unknown
	First, Last    string // options of a further destination-options header before or behind it
	LongNonce      bool   // own nonces have 12 bytes (RFC 6744 §2)
}

// Pad1 is one byte of padding, Unknown an option that a receiver which does
// not know it skips (RFC 8200 §4.2).
const (
	Pad1    = "\x00"
	Unknown = "\x1e\x04\xde\xad\xbe\xef"
)

// PadN is padding of 2 or more bytes.
func PadN(nbytes int) string {
	return string(append([]byte{optPadN, byte(nbytes - 2)}, make([]byte, nbytes-2)...))
}

// headers writes the destination-options headers of a packet with a nonce.
func (o Options) headers(proto byte, nonce string) []byte {
	own := o.Before + string([]byte{optNonce, byte(len(nonce))}) + nonce + o.Behind
	var b []byte
	all := []string{o.First, own, o.Last}
	for i, options := range all {
		if options == "" {
			continue
		}
		next := proto
		for _, more := range all[i+1:] {
			if more != "" {
				next = nextOpts
				break
			}
		}
		b = append(b, optionsHeader(next, options)...)
	}
	return b
}

// optionsHeader makes one header, padded to a multiple of 8 bytes.
func optionsHeader(next byte, options string) []byte {
	switch missing := (8 - (2+len(options))%8) % 8; missing {
	case 0:
	case 1:
		options += Pad1
	default:
		options += PadN(missing)
	}
	return append([]byte{next, byte((2+len(options))/8 - 1)}, options...)
}

// findNonce returns the nonce among options, or "".
func findNonce(options []byte) (nonce string, err error) {
	for len(options) > 0 {
		if options[0] == optPad1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || len(options) < 2+int(options[1]) {
			return "", fmt.Errorf("option ends early: %w", errForeign)
		}
		if options[0] == optNonce {
			nonce = string(options[2 : 2+int(options[1])])
		}
		options = options[2+int(options[1]):]
	}
	return nonce, nil
}
