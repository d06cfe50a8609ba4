package ilnp_test

import (
	"bytes"
	"errors"
	"testing"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

const port = 6740

func TestEncapRoundTrip(t *testing.T) {
	for _, n := range []int{4, 12} {
		plain := must(t)(ilnp.BuildUpdate(src, dst, nonce(t, n), rfcUpdate))
		b := must(t)(ilnp.Encapsulate(plain, port))
		c, err := ip6.Walk(b)
		if err != nil || c.Upper != ip6.UDP || len(b) != len(plain)+8 {
			t.Fatalf("%d bytes, protocol %d, %v", len(b), c.Upper, err)
		}
		if ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.UDP, b[ip6.HeaderLen:]) != 0 {
			t.Error("the checksum of the datagram is wrong")
		}
		if got := must(t)(ilnp.Decapsulate(b, port)); !bytes.Equal(got, plain) {
			t.Errorf("comes out as %x, want %x", got, plain)
		}
		p, err := ilnp.ParseControl(b, port)
		if err != nil || !p.Encapsulated || p.Nonce != nonce(t, n) || p.Type != ilnp.TypeLocatorUpdate {
			t.Errorf("parsed %+v, %v", p, err)
		}
		if p, err := ilnp.ParseControl(plain, port); err != nil || p.Encapsulated {
			t.Errorf("not in UDP: parsed %+v, %v", p, err)
		}
	}
}

func TestBuildEncapsulatedEcho(t *testing.T) {
	e := ilnp.Echo{Request: true, ID: 1, Seq: 2, Data: []byte("sixteen bytes..")}
	for _, o := range []ilnp.EncapsulatedEcho{{Port: port}, {Port: port, Padded: true, FlowLabel: 0xabcde},
		{Port: port, Size: 1500}, {Port: port, Size: 1280, Padded: true}} {
		b := must(t)(ilnp.BuildEncapsulatedEcho(src, dst, nonce(t, 4), e, o))
		if o.Size != 0 && len(b) != o.Size {
			t.Errorf("%+v: %d bytes", o, len(b))
		}
		p, err := ilnp.ParseControl(b, port)
		if err != nil || !p.Encapsulated || p.FlowLabel != o.FlowLabel {
			t.Errorf("%+v: parsed %+v, %v", o, p, err)
		}
		got, err := ilnp.ParseEcho(p.Payload)
		if err != nil || !bytes.HasPrefix(got.Data, e.Data) {
			t.Errorf("%+v: echo %+v, %v", o, got, err)
		}
		if c, err := ip6.Walk(b); err != nil || len(c.Exts) == 1 != o.Padded {
			t.Errorf("%+v: %d extension headers, %v", o, len(c.Exts), err)
		}
	}
}

func TestDecapsulateRefuses(t *testing.T) {
	good := must(t)(ilnp.Encapsulate(must(t)(ilnp.BuildUpdate(src, dst, nonce(t, 4), rfcUpdate)), port))
	for name, change := range map[string]func(b []byte) []byte{
		"another port":        func(b []byte) []byte { b[43]++; return b },
		"another header":      func(b []byte) []byte { b[48] = ip6.TCP; return b },
		"another option":      func(b []byte) []byte { b[50] = 1; return b },
		"a changed byte":      func(b []byte) []byte { b[len(b)-1]++; return b },
		"a datagram too long": func(b []byte) []byte { b[45]++; return b },
		"too short":           func(b []byte) []byte { return b[:50] },
		"an empty datagram":   func(b []byte) []byte { b[5] = 8; return b[:48] },
	} {
		if _, err := ilnp.Decapsulate(change(bytes.Clone(good)), port); err == nil {
			t.Errorf("%s: taken for one of ours", name)
		}
	}
	if _, err := ilnp.Decapsulate(good, 0); !errors.Is(err, ilnp.ErrNotEncapsulated) {
		t.Errorf("without a port: %v", err)
	}
	for name, b := range map[string][]byte{
		"no nonce":          must(t)(ilnp.BuildEcho(src, dst, ilnp.Nonce{}, true, 1, 1, nil)),
		"encapsulated once": good,
		"no packet":         good[:20],
	} {
		if _, err := ilnp.Encapsulate(b, port); err == nil {
			t.Errorf("%s: encapsulated", name)
		}
	}
}
