package ip6_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"roam/wire/ip6"
)

// chainOf returns a packet with the given payload.
func chainOf(next uint8, payload ...byte) []byte {
	b := bytes.Clone(headerBytes)
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b[6] = next
	return append(b, payload...)
}

// Extension headers, each with the next one's number in front.
func hop(next uint8) []byte     { return []byte{next, 0, 5, 2, 0, 0, 1, 0} }
func dest(next uint8) []byte    { return []byte{next, 0, 0x8b, 4, 1, 2, 3, 4} }
func routing(next uint8) []byte { return append([]byte{next, 2, 2, 0}, make([]byte, 20)...) }
func frag(next uint8, offset uint16, more uint8) []byte {
	return []byte{next, 0xee, uint8(offset >> 8), uint8(offset) | more, 9, 9, 9, 9}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// full has every extension header.
func full() []byte {
	return chainOf(ip6.HopByHop, join(hop(ip6.DestOpts), dest(ip6.Routing), routing(ip6.Fragment),
		frag(ip6.DestOpts, 0, 1), dest(ip6.UDP), make([]byte, 16))...)
}

func TestWalk(t *testing.T) {
	for name, c := range map[string]struct {
		packet      []byte
		protos      []uint8
		upper       uint8
		at, nextOff int
		later       bool
		whole       bool
	}{
		"no extension":   {chainOf(ip6.TCP, make([]byte, 20)...), nil, ip6.TCP, 40, 6, false, true},
		"empty":          {chainOf(ip6.NoNext), nil, ip6.NoNext, 40, 6, false, true},
		"unknown":        {chainOf(253, 1, 2, 3), nil, 253, 40, 6, false, true},
		"unknown behind": {chainOf(ip6.DestOpts, join(dest(140), []byte{1})...), []uint8{60}, 140, 48, 40, false, true},
		"esp": {chainOf(ip6.DestOpts, join(dest(ip6.ESP), make([]byte, 9))...), []uint8{60},
			ip6.ESP, 48, 40, false, true},
		"all": {full(), []uint8{0, 60, 43, 44, 60}, ip6.UDP, 96, 88, false, false},
		"atomic fragment": {chainOf(ip6.Fragment, join(frag(ip6.UDP, 0, 0), make([]byte, 8))...), []uint8{44},
			ip6.UDP, 48, 40, false, true},
		"later fragment": {chainOf(ip6.Fragment, join(frag(ip6.DestOpts, 1024, 1), []byte{9, 9, 9})...),
			[]uint8{44}, ip6.DestOpts, 48, 40, true, false},
		"last fragment": {chainOf(ip6.Fragment, join(frag(ip6.TCP, 8, 0), []byte{1})...), []uint8{44},
			ip6.TCP, 48, 40, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ip6.Walk(c.packet)
			if err != nil {
				t.Fatal(err)
			}
			var protos []uint8
			for _, x := range got.Exts {
				protos = append(protos, x.Proto)
			}
			if !bytes.Equal(protos, c.protos) {
				t.Errorf("headers %v, want %v", protos, c.protos)
			}
			if got.Upper != c.upper || got.UpperOffset != c.at || got.NextOff != c.nextOff {
				t.Errorf("upper %d at %d named at %d, want %d at %d named at %d",
					got.Upper, got.UpperOffset, got.NextOff, c.upper, c.at, c.nextOff)
			}
			if got.Later() != c.later || got.Whole() != c.whole {
				t.Errorf("later %v whole %v, want %v %v", got.Later(), got.Whole(), c.later, c.whole)
			}
			if got.End != len(c.packet) {
				t.Errorf("end %d, want %d", got.End, len(c.packet))
			}
			if c.packet[got.NextOff] != got.Upper {
				t.Errorf("byte %d is %d, not the upper protocol", got.NextOff, c.packet[got.NextOff])
			}
		})
	}
}

func TestWalkExtPlaces(t *testing.T) {
	c, err := ip6.Walk(full())
	if err != nil {
		t.Fatal(err)
	}
	want := []ip6.Ext{{0, 40, 8, 6}, {60, 48, 8, 40}, {43, 56, 24, 48}, {44, 80, 8, 56}, {60, 88, 8, 80}}
	for i, x := range c.Exts {
		if x != want[i] {
			t.Errorf("header %d is %+v, want %+v", i, x, want[i])
		}
	}
}

func TestWalkSegmentsLeft(t *testing.T) {
	r := routing(ip6.UDP)
	r[3] = 1
	c, err := ip6.Walk(chainOf(ip6.Routing, join(r, make([]byte, 8))...))
	if err != nil {
		t.Fatal(err)
	}
	if c.SegmentsLeft != 1 {
		t.Errorf("%d segments left, want 1", c.SegmentsLeft)
	}
}

func TestWalkIgnoresPadding(t *testing.T) {
	p := append(chainOf(ip6.UDP, make([]byte, 8)...), 0xaa, 0xbb)
	c, err := ip6.Walk(p)
	if err != nil {
		t.Fatal(err)
	}
	if c.End != 48 {
		t.Errorf("end %d, want 48", c.End)
	}
}

func TestWalkTruncation(t *testing.T) {
	p := full()
	for n := range p {
		_, err := ip6.Walk(p[:n])
		if !errors.Is(err, ip6.ErrTruncated) {
			t.Fatalf("%d bytes: %v, want truncation", n, err)
		}
		wantText(t, err, "offset")
	}
}

// A packet that says itself that it is shorter than its headers.
func TestWalkShortPayloadLength(t *testing.T) {
	names := []struct {
		upTo int
		name string
	}{{8, "hop-by-hop options header"}, {16, "destination options header"}, {40, "routing header"},
		{48, "fragment header"}, {56, "destination options header"}}
	for n := range 56 {
		p := full()[:40+n]
		binary.BigEndian.PutUint16(p[4:], uint16(n))
		_, err := ip6.Walk(p)
		if !errors.Is(err, ip6.ErrTruncated) {
			t.Fatalf("payload of %d: %v, want truncation", n, err)
		}
		for _, x := range names {
			if n < x.upTo {
				wantText(t, err, x.name)
				break
			}
		}
	}
}

func TestWalkRefusesLateHopByHop(t *testing.T) {
	p := chainOf(ip6.DestOpts, join(dest(ip6.HopByHop), hop(ip6.UDP), make([]byte, 8))...)
	_, err := ip6.Walk(p)
	if !errors.Is(err, ip6.ErrMalformed) {
		t.Fatalf("%v, want a refusal", err)
	}
	wantText(t, err, "offset 48")
}

func TestWalkQuoted(t *testing.T) {
	p := full()
	for n := 96; n <= len(p); n++ {
		c, err := ip6.WalkQuoted(p[:n])
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if c.UpperOffset != 96 || c.End != n {
			t.Errorf("%d bytes: upper at %d, end %d", n, c.UpperOffset, c.End)
		}
	}
	for n := range 96 {
		if _, err := ip6.WalkQuoted(p[:n]); !errors.Is(err, ip6.ErrTruncated) {
			t.Errorf("%d bytes: %v, want truncation", n, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(headerBytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ip6.Parse(b)
		if err != nil {
			return
		}
		out, err := h.AppendTo(dirty())
		if err != nil {
			t.Fatalf("parsed header cannot be emitted: %v", err)
		}
		if !bytes.Equal(out, b[:ip6.HeaderLen]) {
			t.Errorf("emitted %x, parsed from %x", out, b[:ip6.HeaderLen])
		}
	})
}

func FuzzWalk(f *testing.F) {
	f.Add(full(), false)
	f.Add(full()[:100], true)
	f.Fuzz(func(t *testing.T, b []byte, quoted bool) {
		walk := ip6.Walk
		if quoted {
			walk = ip6.WalkQuoted
		}
		c, err := walk(b)
		if err != nil {
			return
		}
		at := ip6.HeaderLen
		for _, x := range c.Exts {
			if x.Offset != at || x.Len < 8 || b[x.NextOff] != x.Proto {
				t.Fatalf("header %+v, want one at %d", x, at)
			}
			at += x.Len
		}
		if c.UpperOffset != at || c.End < at || c.End > len(b) || b[c.NextOff] != c.Upper {
			t.Errorf("upper layer at %d to %d of %d, headers end at %d", c.UpperOffset, c.End, len(b), at)
		}
	})
}

func FuzzOptions(f *testing.F) {
	f.Add([]byte{6, 1, 0, 0x1e, 1, 9, 1, 0, 0, 0, 0xc2, 3, 1, 2, 3, 0})
	f.Fuzz(func(t *testing.T, ext []byte) {
		list, err := ip6.Options(ext, 0)
		if err != nil || len(ext)%8 != 0 || len(ext) > 2048 {
			return
		}
		out, err := ip6.AppendOptions(dirty(), ext[0], list)
		if err != nil {
			t.Fatalf("parsed options cannot be emitted: %v", err)
		}
		if !bytes.Equal(out[2:], ext[2:]) {
			t.Errorf("emitted %x, parsed from %x", out, ext)
		}
	})
}
