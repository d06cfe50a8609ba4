package ilnphost

import (
	"bytes"
	"testing"
	"unsafe"
)

// FuzzEvent reads any record of a ring buffer: what is handed on lies within
// the record.
func FuzzEvent(f *testing.F) {
	const head = int(unsafe.Sizeof(bpfEvent{}))
	f.Add([]byte(nil))
	f.Add(make([]byte, head-1))
	f.Add(make([]byte, head))
	f.Add(bytes.Repeat([]byte{0xff}, head+40))
	f.Add(append(bytes.Repeat([]byte{0}, head), 0x60))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ev, ok := decodeEvent(raw)
		switch {
		case ok != (len(raw) >= head):
			t.Errorf("%d bytes, of which the head takes %d: read %t", len(raw), head, ok)
		case len(ev.Packet) > max(len(raw)-head, 0):
			t.Errorf("a packet of %d bytes out of %d", len(ev.Packet), len(raw))
		case int(ev.Nonce.Len) > len(ev.Nonce.Bytes):
			// The core gets it as it is: reading its value must not fail.
			_ = ev.Nonce.Present()
		}
	})
}
