package ilnp_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

var (
	src = roam.ILV{L64: 0x2001_0db8_0001_000a, NID: 0x1c4f_52a9_7be1_0d33}
	dst = roam.ILV{L64: 0x2001_0db8_00b2_0002, NID: 0xa05e_91cc_04f2_b867}
)

func nonce(t testing.TB, n int) ilnp.Nonce {
	t.Helper()
	v, err := ilnp.NewNonce([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}[:n])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// dirty returns an empty slice over a buffer of ones.
func dirty() []byte { return bytes.Repeat([]byte{0xff}, 8192)[:0] }

func TestNewNonce(t *testing.T) {
	for n := range 14 {
		v, err := ilnp.NewNonce(make([]byte, n))
		if good := n == 4 || n == 12; good != (err == nil) {
			t.Errorf("%d bytes: %v", n, err)
		} else if !good && !errors.Is(err, ilnp.ErrNonceLength) {
			t.Errorf("%d bytes: %v is not ErrNonceLength", n, err)
		} else if good && (int(v.Len) != n || len(v.Value()) != n || v.HeaderLen() != n+4) {
			t.Errorf("%d bytes: nonce of %d, header of %d", n, v.Len, v.HeaderLen())
		}
	}
}

func TestNonceIsComparable(t *testing.T) {
	a, _ := ilnp.NewNonce([]byte{1, 2, 3, 4})
	b, _ := ilnp.NewNonce([]byte{1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0})
	if a == b || a != nonce(t, 4) {
		t.Error("nonces of different length are equal, or equal ones are not")
	}
	if (ilnp.Nonce{}).Present() || !a.Present() {
		t.Error("the zero nonce is present, or another is not")
	}
}

// A nonce is a secret: no format verb tells it.
func TestNonceKeepsItsSecret(t *testing.T) {
	n, _ := ilnp.NewNonce([]byte{0xde, 0xad, 0xbe, 0xef})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		s := fmt.Sprintf(verb, n)
		if strings.Contains(s, "dead") || strings.Contains(s, "222") || strings.Contains(s, "0xde") {
			t.Errorf("%s prints %s", verb, s)
		}
	}
}

func TestAppendHeader(t *testing.T) {
	b, err := nonce(t, 4).AppendHeader(dirty(), ip6.TCP)
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{6, 0, 0x8b, 4, 1, 2, 3, 4}; !bytes.Equal(b, want) {
		t.Errorf("emitted %x, want %x", b, want)
	}
	if b, err = nonce(t, 12).AppendHeader(dirty(), ip6.ICMPv6); err != nil {
		t.Fatal(err)
	}
	if want := []byte{58, 1, 0x8b, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; !bytes.Equal(b, want) {
		t.Errorf("emitted %x, want %x", b, want)
	}
	for _, n := range []uint8{0, 8, 200} {
		if _, err := (ilnp.Nonce{Len: n}).AppendHeader(nil, 6); !errors.Is(err, ilnp.ErrNonceLength) {
			t.Errorf("nonce of %d bytes: %v", n, err)
		}
	}
}

// withOptions returns a UDP packet behind the given Destination Options
// headers, whose Next Header bytes it fills in.
func withOptions(headers ...[]byte) []byte {
	h := ip6.Header{NextHeader: ip6.UDP, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr()}
	var body []byte
	for i, x := range headers {
		x = bytes.Clone(x)
		h.NextHeader, x[0] = ip6.DestOpts, ip6.DestOpts
		if i == len(headers)-1 {
			x[0] = ip6.UDP
		}
		body = append(body, x...)
	}
	body = append(body, make([]byte, 8)...)
	h.PayloadLen = uint16(len(body))
	b, _ := h.AppendTo(nil)
	return append(b, body...)
}

func TestFindNonce(t *testing.T) {
	alone := []byte{0, 0, 0x8b, 4, 1, 2, 3, 4}
	other := []byte{0, 0, 0x1e, 4, 1, 2, 3, 4}
	long := []byte{0, 1, 0x8b, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	shared := []byte{0, 1, 0x1e, 4, 9, 9, 9, 9, 0x8b, 4, 1, 2, 3, 4, 1, 0}
	for name, c := range map[string]struct {
		headers [][]byte
		ext     int
		offset  int
		alone   bool
		len     uint8
		err     error
	}{
		"no header":            {nil, -1, 0, false, 0, nil},
		"no nonce":             {[][]byte{other}, -1, 0, false, 0, nil},
		"alone":                {[][]byte{alone}, 0, 42, true, 4, nil},
		"long":                 {[][]byte{long}, 0, 42, true, 12, nil},
		"in the second header": {[][]byte{other, alone}, 1, 50, true, 4, nil},
		"with another option":  {[][]byte{shared}, 0, 48, false, 4, nil},
		"with padding":         {[][]byte{{0, 1, 0x8b, 4, 1, 2, 3, 4, 1, 6, 0, 0, 0, 0, 0, 0}}, 0, 42, false, 4, nil},
		"two in one header": {[][]byte{{0, 1, 0x8b, 4, 1, 2, 3, 4, 0x8b, 4, 1, 2, 3, 4, 0, 0}}, -1, 0,
			false, 0, ilnp.ErrTwoNonces},
		"two in two headers": {[][]byte{alone, other, alone}, -1, 0, false, 0, ilnp.ErrTwoNonces},
		"eight bytes": {[][]byte{{0, 1, 0x8b, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0}}, -1, 0, false,
			0, ilnp.ErrNonceLength},
		"empty":                 {[][]byte{{0, 0, 0x8b, 0, 1, 2, 0, 0}}, -1, 0, false, 0, ilnp.ErrNonceLength},
		"option beyond the end": {[][]byte{{0, 0, 0x8b, 12, 1, 2, 3, 4}}, -1, 0, false, 0, ip6.ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			p := withOptions(c.headers...)
			chain, err := ip6.Walk(p)
			if err != nil {
				t.Fatal(err)
			}
			f, err := ilnp.FindNonce(p, chain)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), "offset") {
				t.Errorf("error %q names no offset", err)
			}
			if f.Ext != c.ext || f.Offset != c.offset || f.Alone != c.alone || f.Nonce.Len != c.len {
				t.Errorf("found %+v of %d bytes", f, f.Nonce.Len)
			}
			if _, err := ilnp.ParsePacket(p); !errors.Is(err, c.err) {
				t.Errorf("whole packet: %v, want %v", err, c.err)
			}
		})
	}
}
