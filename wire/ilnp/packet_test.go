package ilnp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

func must(t testing.TB) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestBuildUpdate(t *testing.T) {
	for _, n := range []int{4, 12} {
		for _, lu := range []ilnp.LocatorUpdate{rfcUpdate, draftUpdate} {
			b := must(t)(ilnp.BuildUpdate(src, dst, nonce(t, n), lu))
			p, err := ilnp.ParsePacket(b)
			if err != nil {
				t.Fatal(err)
			}
			want := ilnp.Packet{Src: src, Dst: dst, TrafficClass: 0xc0, HopLimit: 64, Nonce: nonce(t, n),
				Proto: ip6.ICMPv6, Type: 156, Code: lu.Code, Payload: p.Payload}
			if !reflect.DeepEqual(p, want) {
				t.Errorf("parsed %+v, want %+v", p, want)
			}
			got, err := ilnp.ParseLocatorUpdate(p.Payload)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, lu) {
				t.Errorf("update %+v, want %+v", got, lu)
			}
		}
	}
}

func TestBuildUpdateRefusals(t *testing.T) {
	if _, err := ilnp.BuildUpdate(src, dst, ilnp.Nonce{}, rfcUpdate); !errors.Is(err, ilnp.ErrNonceLength) {
		t.Errorf("without nonce: %v", err)
	}
	if _, err := ilnp.BuildUpdate(src, dst, nonce(t, 4), ilnp.LocatorUpdate{Operation: 1}); !errors.Is(err,
		ilnp.ErrNoLocators) {
		t.Errorf("without locators: %v", err)
	}
	if _, err := ilnp.BuildUpdate(src, dst, ilnp.Nonce{Len: 5}, rfcUpdate); !errors.Is(err, ilnp.ErrNonceLength) {
		t.Errorf("nonce of 5 bytes: %v", err)
	}
}

func TestBuildEcho(t *testing.T) {
	token := []byte("sixteen bytes..")
	for _, n := range []ilnp.Nonce{{}, nonce(t, 4), nonce(t, 12)} {
		for _, request := range []bool{true, false} {
			b := must(t)(ilnp.BuildEcho(src, dst, n, request, 0x1234, 7, token))
			p, err := ilnp.ParsePacket(b)
			if err != nil {
				t.Fatal(err)
			}
			if p.Nonce != n || p.Nonce.Present() != (n.Len != 0) {
				t.Errorf("nonce of %d bytes, want %d", p.Nonce.Len, n.Len)
			}
			e, err := ilnp.ParseEcho(p.Payload)
			if err != nil {
				t.Fatal(err)
			}
			if want := (ilnp.Echo{Request: request, ID: 0x1234, Seq: 7, Data: token}); !reflect.DeepEqual(e, want) {
				t.Errorf("echo %+v, want %+v", e, want)
			}
		}
	}
	if _, err := ilnp.BuildEcho(src, dst, ilnp.Nonce{}, true, 1, 1, make([]byte, 65535)); !errors.Is(err,
		ip6.ErrMalformed) {
		t.Errorf("payload beyond 65535 bytes: %v", err)
	}
}

func TestBuildError(t *testing.T) {
	about := must(t)(ilnp.BuildEcho(dst, src, nonce(t, 4), true, 1, 2, make([]byte, 3000)))
	for _, n := range []ilnp.Nonce{{}, nonce(t, 4), nonce(t, 12)} {
		b := must(t)(ilnp.BuildError(src, dst, n, ilnp.ErrorMessage{
			Type: ilnp.TypeParameterProblem, Code: ilnp.CodeUnknownOption, Param: 42, Quoted: about}))
		if len(b) != 1280 {
			t.Errorf("packet of %d bytes, want 1280", len(b))
		}
		p, err := ilnp.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ilnp.ParseError(p.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if m.Type != 4 || m.Code != 2 || m.Param != 42 || !bytes.HasPrefix(about, m.Quoted) {
			t.Errorf("error type %d code %d parameter %d", m.Type, m.Code, m.Param)
		}
		q, err := ilnp.ParseQuoted(m.Quoted)
		if err != nil {
			t.Fatal(err)
		}
		if q.Src != dst || q.Dst != src || q.Nonce != nonce(t, 4) || q.Type != 128 {
			t.Errorf("quoted %+v", q)
		}
	}
	if _, err := ilnp.BuildError(src, dst, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 128}); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("type 128: %v", err)
	}
}

func TestParsePacketTruncation(t *testing.T) {
	b := must(t)(ilnp.BuildUpdate(src, dst, nonce(t, 12), rfcUpdate))
	for n := range b {
		_, err := ilnp.ParsePacket(b[:n])
		if !errors.Is(err, ip6.ErrTruncated) || !strings.Contains(err.Error(), "offset") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// Truncated with a payload length that agrees: the checksum tells, or the
	// headers end too early.
	for n := 40; n < len(b); n++ {
		c := bytes.Clone(b[:n])
		binary.BigEndian.PutUint16(c[4:], uint16(n-40))
		if _, err := ilnp.ParsePacket(c); err == nil {
			t.Errorf("%d bytes of a shorter packet pass", n)
		}
	}
}

func TestParsePacketChecksum(t *testing.T) {
	b := must(t)(ilnp.BuildEcho(src, dst, nonce(t, 4), true, 1, 1, []byte{1, 2, 3}))
	b[len(b)-1] ^= 0x10
	_, err := ilnp.ParsePacket(b)
	if !errors.Is(err, ilnp.ErrChecksum) || !strings.Contains(err.Error(), "offset 50") {
		t.Errorf("damaged packet: %v", err)
	}
}

func TestParsePacketFragments(t *testing.T) {
	h := ip6.Header{NextHeader: ip6.Fragment, HopLimit: 1, Src: src.Addr(), Dst: dst.Addr(), PayloadLen: 16}
	first := append(must(t)(h.AppendTo(nil)), 58, 0, 0, 1, 0, 0, 0, 9, 128, 0, 0xba, 0xad, 0, 1, 0, 1)
	p, err := ilnp.ParsePacket(first)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Fragmented || p.Later || p.Type != 128 {
		t.Errorf("first fragment: %+v", p)
	}
	later := bytes.Clone(first)
	copy(later[42:], []byte{0x01, 0x00})
	if p, err = ilnp.ParsePacket(later); err != nil {
		t.Fatal(err)
	}
	if !p.Fragmented || !p.Later || p.Type != 0 {
		t.Errorf("later fragment: %+v", p)
	}
}

func TestParsePacketCutsPadding(t *testing.T) {
	b := must(t)(ilnp.BuildEcho(src, dst, nonce(t, 4), true, 1, 1, []byte{1, 2, 3}))
	p, err := ilnp.ParsePacket(append(b, 0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Payload) != 11 {
		t.Errorf("payload of %d bytes, want 11", len(p.Payload))
	}
}

func TestShortMessages(t *testing.T) {
	for n := range 8 {
		b := append([]byte{128}, make([]byte, 7)...)[:n]
		if _, err := ilnp.ParseEcho(b); !errors.Is(err, ip6.ErrTruncated) || !strings.Contains(err.Error(), "offset") {
			t.Errorf("echo of %d bytes: %v", n, err)
		}
		b = append([]byte{1}, make([]byte, 7)...)[:n]
		if _, err := ilnp.ParseError(b); !errors.Is(err, ip6.ErrTruncated) || !strings.Contains(err.Error(), "offset") {
			t.Errorf("error of %d bytes: %v", n, err)
		}
	}
	for _, typ := range []uint8{0, 5, 127} {
		if _, err := ilnp.ParseError([]byte{typ, 0, 0, 0, 0, 0, 0, 0}); !errors.Is(err, ip6.ErrMalformed) {
			t.Errorf("error of type %d: %v", typ, err)
		}
	}
	if _, err := ilnp.ParseEcho([]byte{130, 0, 0, 0, 0, 0, 0, 0}); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("echo of type 130: %v", err)
	}
}

func TestParseQuotedTruncation(t *testing.T) {
	b := must(t)(ilnp.BuildEcho(src, dst, nonce(t, 4), true, 1, 1, []byte{1, 2, 3}))
	for n := range b {
		_, err := ilnp.ParseQuoted(b[:n])
		if n >= 48 {
			if err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		if !errors.Is(err, ip6.ErrTruncated) || !strings.Contains(err.Error(), "quoted packet") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A checksum over NIDs alone is right too, but only with a nonce: without one the
// packet is one of plain IPv6.
func TestChecksumOverNIDs(t *testing.T) {
	for _, n := range []int{4, 12} {
		ordinary := must(t)(ilnp.BuildUpdate(src, dst, nonce(t, n), rfcUpdate))
		b := bytes.Clone(ordinary)
		if err := ilnp.FinishOverNIDs(b); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(b, ordinary) {
			t.Fatal("both rules give one checksum")
		}
		for _, c := range []struct {
			packet []byte
			want   bool
		}{{ordinary, false}, {b, true}} {
			if p, err := ilnp.ParsePacket(c.packet); err != nil || p.OverNIDs != c.want {
				t.Errorf("over NIDs %v (%v), want %v", p.OverNIDs, err, c.want)
			}
			encap := must(t)(ilnp.Encapsulate(c.packet, port))
			if p, err := ilnp.ParseControl(encap, port); err != nil || p.OverNIDs != c.want || !p.Encapsulated {
				t.Errorf("in UDP: over NIDs %v (%v), want %v", p.OverNIDs, err, c.want)
			}
		}
		b[len(b)-1] ^= 0x10
		if _, err := ilnp.ParsePacket(b); !errors.Is(err, ilnp.ErrChecksum) {
			t.Errorf("damaged packet: %v", err)
		}
	}
	plain := must(t)(ilnp.BuildEcho(src, dst, ilnp.Nonce{}, true, 1, 1, []byte{1, 2, 3}))
	if err := ilnp.FinishOverNIDs(plain); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("without nonce: %v", err)
	}
	sum := ip6.Checksum(roam.ILV{NID: src.NID}.Addr(), roam.ILV{NID: dst.NID}.Addr(), ip6.ICMPv6,
		append([]byte{128, 0, 0, 0}, plain[44:]...))
	binary.BigEndian.PutUint16(plain[42:], sum)
	if _, err := ilnp.ParsePacket(plain); !errors.Is(err, ilnp.ErrChecksum) {
		t.Errorf("over NIDs without nonce: %v", err)
	}
}

// An error may quote a probe in any form, cut off behind the token.
func TestParseQuotedEcho(t *testing.T) {
	token := []byte("0123456789abcdef")
	for name, b := range map[string][]byte{
		"option": must(t)(ilnp.BuildEcho(src, dst, nonce(t, 4), true, 3, 4, token)),
		"udp": must(t)(ilnp.BuildEncapsulatedEcho(src, dst, nonce(t, 12),
			ilnp.Echo{Request: true, ID: 3, Seq: 4, Data: token}, ilnp.EncapsulatedEcho{Port: port})),
		"padded": must(t)(ilnp.BuildEncapsulatedEcho(src, dst, nonce(t, 4),
			ilnp.Echo{Request: true, ID: 3, Seq: 4, Data: token}, ilnp.EncapsulatedEcho{Port: port, Padded: true, Size: 1400})),
	} {
		end := bytes.Index(b, token) + len(token)
		for _, n := range []int{len(b), end, end - 1} {
			p, e, err := ilnp.ParseQuotedEcho(b[:n], port)
			if err != nil || !e.Request || e.ID != 3 || e.Seq != 4 || p.Src != src || p.Dst != dst ||
				p.Encapsulated != (name != "option") {
				t.Fatalf("%s, %d bytes: %+v %+v (%v)", name, n, p, e, err)
			}
			if whole := bytes.HasPrefix(e.Data, token); whole != (n >= end) {
				t.Errorf("%s, %d of %d bytes: data %q", name, n, end, e.Data)
			}
		}
		if _, _, err := ilnp.ParseQuotedEcho(b, 0); (err == nil) != (name == "option") {
			t.Errorf("%s without a port: %v", name, err)
		}
		for n := range end - len(token) {
			if _, _, err := ilnp.ParseQuotedEcho(b[:n], port); err == nil {
				t.Errorf("%s, %d bytes are an echo", name, n)
			}
		}
	}
	if _, _, err := ilnp.ParseQuotedEcho(must(t)(ilnp.BuildUpdate(src, dst, nonce(t, 4), rfcUpdate)), port); err == nil {
		t.Error("an update is an echo")
	}
}
