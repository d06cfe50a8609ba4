package ilnp_test

import (
	"bytes"
	"reflect"
	"testing"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

func FuzzLocatorUpdate(f *testing.F) {
	f.Add(rfcBytes)
	f.Add(draftBytes)
	f.Add(linuxBytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := ilnp.ParseLocatorUpdate(b)
		if err != nil {
			return
		}
		out, err := u.AppendTo(dirty())
		if err != nil {
			t.Fatalf("parsed update cannot be emitted: %v", err)
		}
		if len(out) != len(b) {
			t.Fatalf("emitted %d bytes, parsed from %d", len(out), len(b))
		}
		got, err := ilnp.ParseLocatorUpdate(out)
		if err != nil || !reflect.DeepEqual(got, u) {
			t.Errorf("round trip gives %+v (%v), want %+v", got, err, u)
		}
	})
}

func FuzzParsePacket(f *testing.F) {
	lu, _ := ilnp.BuildUpdate(src, dst, nonce(f, 4), rfcUpdate)
	echo, _ := ilnp.BuildEcho(src, dst, nonce(f, 12), true, 1, 2, []byte("token"))
	f.Add(lu)
	f.Add(echo)
	overNIDs := bytes.Clone(lu)
	_ = ilnp.FinishOverNIDs(overNIDs)
	f.Add(overNIDs)
	f.Fuzz(func(t *testing.T, b []byte) {
		q, quotedErr := ilnp.ParseQuoted(b)
		p, err := ilnp.ParsePacket(b)
		if err != nil {
			return
		}
		if p.OverNIDs && (!p.Nonce.Present() || p.Proto != ip6.ICMPv6 || p.Fragmented) {
			t.Errorf("%+v has a checksum over NIDs", p)
		}
		q.OverNIDs = p.OverNIDs // ParseQuoted verifies no checksum
		if quotedErr != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("whole packet gives %+v, quoted %+v (%v)", p, q, quotedErr)
		}
		if !bytes.Contains(b, p.Payload) || p.Nonce.Present() && !bytes.Contains(b, p.Nonce.Value()) {
			t.Error("payload or nonce is not of the packet")
		}
	})
}

func FuzzICMP(f *testing.F) {
	f.Add([]byte{128, 0, 0, 0, 0, 1, 0, 2, 3})
	f.Add([]byte{4, 2, 0, 0, 0, 0, 0, 42, 0x60})
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := ilnp.ParseEcho(b); err == nil {
			out, err := e.AppendTo(nil)
			if err != nil || !bytes.Equal(out[4:], b[4:]) || out[0] != b[0] {
				t.Errorf("echo %x becomes %x (%v)", b, out, err)
			}
		}
		for _, port := range []uint16{0, 6740} {
			if p, e, err := ilnp.ParseQuotedEcho(b, port); err == nil && (p.Proto != ip6.ICMPv6 || p.Encapsulated && port == 0 ||
				!bytes.Contains(b, e.Data)) {
				t.Errorf("%x quotes echo %+v of %+v", b, e, p)
			}
		}
		if m, err := ilnp.ParseError(b); err == nil {
			out, err := m.AppendTo(nil)
			if err != nil || !bytes.Equal(out[4:], b[4:]) || !bytes.Equal(out[:2], b[:2]) {
				t.Errorf("error %x becomes %x (%v)", b, out, err)
			}
		}
	})
}
