package ilnp

import (
	"errors"
	"net/netip"
	"testing"

	"roam"
	"roam/wire/ip6"
)

func TestResync(t *testing.T) {
	src, dst := roam.ILV{L64: roam.DefaultSessionPrefix, NID: 1}, roam.ILV{L64: roam.DefaultSessionPrefix, NID: 2}
	for _, size := range []int{4, 12} {
		n, err := NewNonce([]byte("abcdefghijkl")[:size])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []Resync{
			{From: 1, To: 65535, Seq: 0xffff_ffff, Nonce: n},
			{From: 22, To: 4000, Seq: 7, Ack: 0xfeed_beef, Answer: true, Nonce: n},
		} {
			b, err := want.Build(src, dst)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParsePacket(b)
			if err != nil || p.Src != src || p.Dst != dst || p.Proto != ip6.TCP {
				t.Fatalf("%+v, %v", p, err)
			}
			if ip6.Checksum(src.Addr(), dst.Addr(), ip6.TCP, p.Payload) != 0 {
				t.Error("wrong checksum")
			}
			if got, err := ParseResync(p.Payload); err != nil || got != want {
				t.Errorf("%+v, want %+v (%v)", got, want, err)
			}
			for i := range p.Payload {
				if _, err := ParseResync(p.Payload[:i]); err == nil {
					t.Errorf("%d of %d bytes were taken", i, len(p.Payload))
				}
			}
		}
	}
}

// No segment of an ordinary stack is a resync.
func TestNoResync(t *testing.T) {
	src, dst := roam.ILV{NID: 1}, roam.ILV{NID: 2}
	from, to := netip.AddrPortFrom(src.Addr(), 22), netip.AddrPortFrom(dst.Addr(), 4000)
	for _, flags := range []uint8{ip6.TCPAck, ip6.TCPSyn} {
		b, err := ip6.TCPSegment{Src: from, Dst: to, Seq: 100, Ack: 200, Flags: flags}.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseResync(b[ip6.HeaderLen:]); !errors.Is(err, ErrResync) {
			t.Errorf("a segment with flags %#x: %v", flags, err)
		}
	}
	if _, err := (Resync{}).Build(src, dst); !errors.Is(err, ErrNonceLength) {
		t.Errorf("without nonce: %v", err)
	}
	n, _ := NewNonce([]byte("abcd"))
	b, err := Resync{Nonce: n}.Build(src, dst)
	if err != nil {
		t.Fatal(err)
	}
	for at, b1 := range map[int]byte{13: ip6.TCPSyn | ip6.TCPRst, 24: 254, 25: 200, 26: 'R', 12: 0x50} {
		s := append([]byte(nil), b[ip6.HeaderLen:]...)
		s[at] = b1
		if _, err := ParseResync(s); err == nil {
			t.Errorf("byte %d = %#x was taken", at, b1)
		}
	}
}

func FuzzResync(f *testing.F) {
	n, _ := NewNonce([]byte("abcdefghijkl"))
	b, _ := Resync{From: 1, To: 2, Seq: 3, Nonce: n}.Build(roam.ILV{NID: 1}, roam.ILV{NID: 2})
	f.Add(b[ip6.HeaderLen:])
	f.Fuzz(func(t *testing.T, s []byte) {
		if o, err := ParseResync(s); err == nil && !o.Nonce.Present() {
			t.Errorf("% x without nonce", s)
		}
	})
}
