package xlate_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// aim puts addresses and a version into arbitrary bytes, so that they get past
// the first comparison.
func aim(b []byte, src, dst roam.ILV) []byte {
	b = bytes.Clone(b)
	if len(b) < ip6.HeaderLen {
		return b
	}
	b[0] = 0x60 | b[0]&0x0f
	for at, v := range map[int]uint64{8: uint64(src.L64), 16: uint64(src.NID), 24: uint64(dst.L64), 32: uint64(dst.NID)} {
		binary.BigEndian.PutUint64(b[at:], v)
	}
	return b
}

func fuzzEntry(kind uint8) xlate.Entry {
	e := entry()
	e.Nonce = [...]ilnp.Nonce{{}, nonce(4), nonce(12), {}}[kind&3]
	if kind&4 != 0 {
		e.Rule = xlate.RuleRFC6741
	}
	if kind&8 != 0 {
		e.RemoteAlias = 0x0200_0000_0000_0001
	}
	return e
}

// FuzzTranslate sends arbitrary packets out and takes them in again.
func FuzzTranslate(f *testing.F) {
	e := entry()
	src, dst := sessionEnds(e)
	for _, p := range payloads() {
		f.Add(packet(src, dst, p.first, p.bytes), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		e := fuzzEntry(kind)
		src, dst := sessionEnds(e)
		b = aim(b, src, dst)
		out, err := xlate.Outward(b, e)
		if err != nil {
			return
		}
		back, err := xlate.Inward(out, mirror(e))
		if err != nil {
			t.Fatalf("went out as %x, cannot come in: %v", out, err)
		}
		c, err := ip6.Walk(b)
		if err != nil {
			t.Fatal(err)
		}
		if e.Rule == xlate.RuleRFC6741 && !e.Nonce.Present() {
			return // a wrong checksum may be right by the other rule on the wire
		}
		if want := b[:c.End]; !bytes.Equal(oneZero(back), oneZero(want)) {
			t.Errorf("came back as\n%x, was\n%x", back, want)
		}
	})
}

// oneZero writes the two zeros of one's-complement arithmetic alike: a wrong
// checksum may come back as the other one.
func oneZero(b []byte) []byte {
	b = bytes.Clone(b)
	c, err := ip6.Walk(b)
	if err != nil {
		return b
	}
	off, _, ok := ip6.ChecksumOffset(c.Upper)
	if at := c.UpperOffset + off; ok && !c.Later() && at+2 <= len(b) && b[at] == 0xff && b[at+1] == 0xff {
		b[at], b[at+1] = 0, 0
	}
	return b
}

// FuzzError translates arbitrary quotes, in errors that are well formed, both
// ways; what comes out must be a well-formed error.
func FuzzError(f *testing.F) {
	e := entry()
	src, dst := sessionEnds(e)
	f.Add(packet(src, dst, ip6.TCP, random(60, 30)), uint8(1), uint32(1400), false)
	f.Add(packet(src, dst, ip6.UDP, random(60, 31)), uint8(14), uint32(42), true)
	f.Fuzz(func(t *testing.T, quoted []byte, kind uint8, param uint32, outward bool) {
		e := fuzzEntry(kind)
		m := ilnp.ErrorMessage{Type: 1 + kind>>4&3, Code: kind >> 6, Param: param}
		translate, outerSrc, outerDst := xlate.ErrorInward, router, roam.ILV{}
		outerDst, there := wireEnds(e)
		m.Quoted = aim(quoted, outerDst, there)
		if outward {
			translate = xlate.ErrorOutward
			outerSrc, outerDst = sessionEnds(e)
			m.Quoted = aim(quoted, outerDst, outerSrc)
		}
		out, err := translate(report(t, outerSrc, outerDst, ilnp.Nonce{}, m), e)
		if err != nil {
			return
		}
		if len(out) > 1280 {
			t.Errorf("error of %d bytes", len(out))
		}
		_, got := parsed(t, out)
		if _, err := ilnp.ParseQuoted(got.Quoted); err != nil {
			t.Errorf("quote %x: %v", got.Quoted, err)
		}
	})
}

// FuzzRaw gives arbitrary bytes to every function: none may panic.
func FuzzRaw(f *testing.F) {
	f.Add([]byte{0x60}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		e := fuzzEntry(kind)
		here, there := wireEnds(e)
		local, remote := sessionEnds(e)
		_, _ = xlate.Outward(b, e)
		_, _ = xlate.Inward(aim(b, there, here), e)
		_, _ = xlate.ErrorInward(aim(b, there, here), e)
		_, _ = xlate.ErrorOutward(aim(b, local, remote), e)
	})
}
