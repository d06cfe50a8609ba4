package ip6_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"roam/wire/ip6"
)

// inPieces is a packet with a destination options header and its fragments.
func inPieces(t *testing.T) (whole []byte, parts [][]byte) {
	t.Helper()
	body := make([]byte, 3000)
	for i := range body {
		body[i] = byte(i * 7)
	}
	h := ip6.Header{
		Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
		NextHeader: ip6.DestOpts, HopLimit: 64, PayloadLen: uint16(8 + len(body)),
	}
	b, err := h.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, ip6.ICMPv6, 0, 0x8b, 4, 1, 2, 3, 4)
	whole = append(b, body...)
	if parts, err = ip6.Split(whole, 1280, 99); err != nil || len(parts) != 3 {
		t.Fatalf("%d fragments, %v", len(parts), err)
	}
	return whole, parts
}

// Fragments in any order, also twice, are the packet that was split; without one of them they are none.
func TestJoin(t *testing.T) {
	whole, parts := inPieces(t)
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 1, 2, 2}} {
		var list [][]byte
		for _, i := range order {
			list = append(list, parts[i])
		}
		if got, ok, err := ip6.Join(list); !ok || err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%v: %v, %v, %d bytes", order, ok, err, len(got))
		}
	}
	for i := range parts {
		if _, ok, err := ip6.Join(slices.Delete(slices.Clone(parts), i, i+1)); ok || err != nil {
			t.Errorf("without fragment %d: %v, %v", i, ok, err)
		}
	}
	atomic := slices.Concat(whole[:48], []byte{ip6.ICMPv6, 0, 0, 0, 0, 0, 0, 9}, whole[48:])
	atomic[40] = ip6.Fragment
	binary.BigEndian.PutUint16(atomic[4:], uint16(len(atomic)-40))
	if got, ok, err := ip6.Join([][]byte{atomic}); !ok || err != nil || !bytes.Equal(got, whole) {
		t.Errorf("an atomic fragment: %v, %v", ok, err)
	}
}

// Fragments that overlap, have another nonce or an odd length are refused, and no fragment.
func TestJoinRefuses(t *testing.T) {
	whole, parts := inPieces(t)
	if _, ok, err := ip6.Join(nil); ok || err != nil {
		t.Errorf("nothing: %v, %v", ok, err)
	}
	for name, change := range map[string]func(b []byte){
		"overlap":     func(b []byte) { b[48+3] -= 8 },
		"other nonce": func(b []byte) { b[44]++ },
		"odd length":  func(b []byte) { binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40-3)) },
		"not a fragment": func(b []byte) {
			copy(b, whole[:len(b)])
			binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		},
		"truncated": func(b []byte) { binary.BigEndian.PutUint16(b[4:], uint16(len(b))) },
	} {
		list := slices.Clone(parts)
		list[1] = bytes.Clone(parts[1])
		change(list[1])
		if _, ok, err := ip6.Join(list); ok || err == nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}
