package xlate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

var router = roam.ILV{L64: 0x2001_0db8_ffff_0001, NID: 1}

// sent is a packet of ours in both forms.
func sent(t testing.TB, e xlate.Entry, payload []byte) (session, wire []byte) {
	t.Helper()
	src, dst := sessionEnds(e)
	session = packet(src, dst, ip6.TCP, payload)
	wire, err := xlate.Outward(session, e)
	if err != nil {
		t.Fatal(err)
	}
	return session, wire
}

// report makes an error of src about the packet.
func report(t testing.TB, src, dst roam.ILV, n ilnp.Nonce, m ilnp.ErrorMessage) []byte {
	t.Helper()
	b, err := ilnp.BuildError(src, dst, n, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parsed takes an error apart, checksum verified.
func parsed(t testing.TB, b []byte) (ilnp.Packet, ilnp.ErrorMessage) {
	t.Helper()
	p, err := ilnp.ParsePacket(b)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ilnp.ParseError(p.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

// The quoted packet becomes the one that the stack had sent, as far as it is quoted.
func TestErrorInward(t *testing.T) {
	for _, n := range []int{0, 4, 12} {
		for _, rule := range []xlate.Rule{xlate.RuleIPv6, xlate.RuleRFC6741} {
			for _, size := range []int{20, 60, 1400} {
				e := entry()
				e.Rule = rule
				if n > 0 {
					e.Nonce = nonce(n)
				}
				session, wire := sent(t, e, random(size, 20))
				here, _ := wireEnds(e)
				in, err := xlate.ErrorInward(report(t, router, here, ilnp.Nonce{},
					ilnp.ErrorMessage{Type: ilnp.TypeTimeExceeded, Quoted: wire}), e)
				if err != nil {
					t.Fatal(err)
				}
				p, m := parsed(t, in)
				local, _ := sessionEnds(e)
				if p.Src != router || p.Dst != local {
					t.Errorf("error from %v to %v", p.Src, p.Dst)
				}
				if !bytes.HasPrefix(session, m.Quoted) || len(m.Quoted) < min(len(session), 1200) {
					t.Errorf("nonce of %d, %d bytes: quoted\n%x, sent\n%x", n, size, m.Quoted, session)
				}
			}
		}
	}
}

// The quote may end anywhere behind the headers.
func TestErrorInwardShortQuotes(t *testing.T) {
	e := entry()
	e.Nonce = nonce(4)
	session, wire := sent(t, e, random(40, 21))
	here, _ := wireEnds(e)
	for n := range wire {
		in, err := xlate.ErrorInward(report(t, router, here, ilnp.Nonce{},
			ilnp.ErrorMessage{Type: ilnp.TypeUnreachable, Quoted: wire[:n]}), e)
		if n < 48 {
			if !errors.Is(err, ip6.ErrTruncated) {
				t.Errorf("quote of %d bytes: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("quote of %d bytes: %v", n, err)
		}
		_, m := parsed(t, in)
		// Ahead of its end a checksum cannot be translated; all else is the same.
		want := bytes.Clone(session[:n-8])
		if len(want) == 57 {
			want[56] = m.Quoted[56]
		}
		if !bytes.Equal(m.Quoted, want) {
			t.Errorf("quote of %d bytes: %x, want %x", n, m.Quoted, want)
		}
	}
}

func TestErrorInwardParameter(t *testing.T) {
	here, there := wireEnds(entry())
	for name, c := range map[string]struct {
		nonce     int
		typ       uint8
		was, want uint32
	}{
		"too big without nonce":       {0, 2, 1400, 1400},
		"too big with nonce":          {4, 2, 1400, 1392},
		"too big with long nonce":     {12, 2, 1400, 1384},
		"too big, not below 1280":     {4, 2, 1284, 1280},
		"too big, least":              {4, 2, 1280, 1280},
		"too big, already below":      {4, 2, 600, 600},
		"pointer ahead of the nonce":  {4, 4, 6, 6},
		"pointer at its header":       {4, 4, 40, 40},
		"pointer at the nonce itself": {4, 4, 42, 40},
		"pointer behind":              {4, 4, 50, 42},
		"pointer, no nonce":           {0, 4, 50, 50},
		"unreachable":                 {4, 1, 50, 50},
	} {
		e := entry()
		if c.nonce > 0 {
			e.Nonce = nonce(c.nonce)
		}
		_, wire := sent(t, e, random(60, 22))
		in, err := xlate.ErrorInward(report(t, there, here, ilnp.Nonce{},
			ilnp.ErrorMessage{Type: c.typ, Param: c.was, Quoted: wire}), e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, m := parsed(t, in); m.Param != c.want {
			t.Errorf("%s: %d becomes %d, want %d", name, c.was, m.Param, c.want)
		}
	}
}

// An error of the correspondent itself comes from its session address, and
// without its nonce.
func TestErrorInwardOfCorrespondent(t *testing.T) {
	e := entry()
	_, wire := sent(t, e, random(60, 23))
	here, there := wireEnds(e)
	e.Nonce = nonce(12)
	b := report(t, there, here, e.Nonce, ilnp.ErrorMessage{Type: 1, Code: 4, Quoted: wire})
	in, err := xlate.ErrorInward(b, e)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := parsed(t, in)
	if _, remote := sessionEnds(e); p.Src != remote || p.Nonce.Present() {
		t.Errorf("error from %v with nonce of %d bytes", p.Src, p.Nonce.Len)
	}
	e.Nonce = nonce(4)
	if _, err := xlate.ErrorInward(b, e); !errors.Is(err, xlate.ErrNonce) {
		t.Errorf("wrong nonce: %v", err)
	}
}

// An error of one end's stack arrives at the other end's stack as an error about the packet
// that it sent.
func TestErrorOutward(t *testing.T) {
	for _, n := range []int{0, 4, 12} {
		for _, size := range []int{30, 1400} {
			e := entry() // of the end that sent the packet in question
			session, _ := sent(t, e, random(size, 24))
			m := mirror(e)
			if n > 0 {
				m.Nonce = nonce(n)
			}
			local, remote := sessionEnds(m)
			out, err := xlate.ErrorOutward(report(t, local, remote, ilnp.Nonce{},
				ilnp.ErrorMessage{Type: 1, Code: 4, Quoted: session}), m)
			if err != nil {
				t.Fatal(err)
			}
			if len(out) > 1280 {
				t.Errorf("error of %d bytes", len(out))
			}
			p, _ := parsed(t, out)
			if src, dst := wireEnds(m); p.Src != src || p.Dst != dst || p.Nonce != m.Nonce {
				t.Errorf("error %+v", p)
			}
			e.Nonce = m.Nonce
			in, err := xlate.ErrorInward(out, e)
			if err != nil {
				t.Fatal(err)
			}
			_, got := parsed(t, in)
			if !bytes.HasPrefix(session, got.Quoted) || len(got.Quoted) < min(len(session), 1200) {
				t.Errorf("quoted\n%x, sent\n%x", got.Quoted, session)
			}
		}
	}
}

func TestErrorRefusals(t *testing.T) {
	e := entry()
	session, wire := sent(t, e, random(60, 25))
	here, there := wireEnds(e)
	good := report(t, router, here, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1, Quoted: wire})
	damaged := bytes.Clone(good)
	damaged[60] ^= 1
	foreign := report(t, router, there, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1, Quoted: wire})
	about := report(t, router, here, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1, Quoted: session})
	echo, err := ilnp.BuildEcho(router, here, ilnp.Nonce{}, true, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	tcp := packet(there, here, ip6.TCP, random(30, 26))
	frag := packet(there, here, ip6.Fragment, join([]byte{58, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0}, wire))
	for name, c := range map[string]struct {
		packet []byte
		want   error
	}{
		"damaged":            {damaged, ilnp.ErrChecksum},
		"to another address": {foreign, xlate.ErrAddress},
		"about another":      {about, xlate.ErrAddress},
		"no error":           {echo, ip6.ErrMalformed},
		"not icmpv6":         {tcp, xlate.ErrUnsupported},
		"fragment":           {frag, xlate.ErrUnsupported},
		"no packet":          {nil, ip6.ErrTruncated},
	} {
		if _, err := xlate.ErrorInward(c.packet, e); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for n := range good {
		if _, err := xlate.ErrorInward(good[:n], e); !errors.Is(err, ip6.ErrTruncated) {
			t.Errorf("error of %d bytes: %v", n, err)
		}
	}
}

func TestErrorOutwardRefusals(t *testing.T) {
	e := entry()
	local, remote := sessionEnds(e)
	mine := packet(local, remote, ip6.UDP, random(60, 27))
	damaged := report(t, local, remote, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1, Quoted: mine})
	binary.BigEndian.PutUint16(damaged[42:], 0x5555)
	for name, c := range map[string]struct {
		packet []byte
		want   error
	}{
		// Our stack reports about what it received, never about what it sent.
		"about our own": {report(t, local, remote, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1, Quoted: mine}),
			xlate.ErrAddress},
		"damaged":    {damaged, ilnp.ErrChecksum},
		"not icmpv6": {mine, xlate.ErrUnsupported},
		"no quote":   {report(t, local, remote, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1}), ip6.ErrTruncated},
		"wrong addresss": {report(t, remote, local, ilnp.Nonce{}, ilnp.ErrorMessage{Type: 1, Quoted: mine}),
			xlate.ErrAddress},
	} {
		if _, err := xlate.ErrorOutward(c.packet, e); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
