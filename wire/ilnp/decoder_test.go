package ilnp_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// experiment is the experimental option of a packet, as a decoder of its own reads it from the
// diagrams of docs/design/keys.md. It shares no code with the packages that build packets.
type experiment struct {
	src, dst []byte
	nonce    []byte
	data     []byte // of the option
	message  []byte // ICMPv6
}

// decodeExperiment walks IPv6, UDP, destination options and ICMPv6 by their numbers.
func decodeExperiment(t *testing.T, b []byte) (e experiment) {
	t.Helper()
	if len(b) < 40 || b[0]>>4 != 6 || int(b[4])<<8+int(b[5]) != len(b)-40 {
		t.Fatalf("no whole IPv6 packet: %x", b)
	}
	e.src, e.dst = b[8:24], b[24:40]
	next, at := b[6], 40
	if next == 17 {
		if int(b[at+4])<<8+int(b[at+5]) != len(b)-at {
			t.Fatalf("UDP length in %x", b)
		}
		next, at = 60, at+8
	}
	for at < len(b) {
		switch next {
		case 60:
			end := at + 8 + 8*int(b[at+1])
			next, at = b[at], at+2
			for at < end {
				if b[at] == 0 {
					at++
					continue
				}
				value := b[at+2 : at+2+int(b[at+1])]
				switch b[at] {
				case 0x8b:
					e.nonce = value
				case 0x1e:
					e.data = value
				}
				at += 2 + len(value)
			}
		case 58:
			e.message = b[at:]
			if next, at = 59, at+20; at < len(b) { // one locator in the form of the RFC, and a header behind it
				e.message, next = b[at-20:at], 60
			}
		default:
			return e
		}
	}
	return e
}

// TestOtherDecoder: what the builders write, a decoder that was written from the diagrams reads:
// proofs, MACs and vouches, as options and in UDP.
func TestOtherDecoder(t *testing.T) {
	const place = 0x2001_0db8_0007_0008
	list := []ilnp.LocatorEntry{{L64: place, Preference: 3, Lifetime: 9}}
	lu := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: list}
	mac := [16]byte{1, 3, 5, 7, 15: 0xee}
	proof := ilnp.Proof{Step: ilnp.ProofChallenge, Counter: 0x1122334455667788, Ephemeral: [32]byte{9, 31: 8},
		Token: [16]byte{4, 15: 2}, Locators: [8]roam.L64{0x2001_0db8_0007_0008, 7: 5}, MAC: mac}
	seal := ilnp.Seal{Counter: 77, Answers: 1 << 60, MAC: mac}
	vouch := ilnp.Vouch{Until: time.Unix(1<<33+5, 0), Public: [32]byte{7, 31: 6}, Modifier: [16]byte{2, 15: 3},
		NID: 0x0011_22ff_0000_0001, ByOld: mac, ByNew: [16]byte{15: 9}}
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	zero := make([]byte, 8)
	for name, c := range map[string]struct {
		build func(ilnp.Nonce) ([]byte, error)
		want  [][]byte
	}{
		"proof": {func(n ilnp.Nonce) ([]byte, error) { return ilnp.BuildProof(src, dst, n, lu, proof) }, [][]byte{
			{1, 4, 0, 0}, number(proof.Counter), proof.Ephemeral[:], proof.Token[:],
			number(0x2001_0db8_0007_0008), zero, zero, zero, zero, zero, zero, number(5), mac[:],
		}},
		"mac": {func(n ilnp.Nonce) ([]byte, error) { return ilnp.BuildSealed(src, dst, n, lu, seal) }, [][]byte{
			{2, 0}, number(77), number(1 << 60), mac[:],
		}},
		"vouch": {func(n ilnp.Nonce) ([]byte, error) { return ilnp.BuildVouch(src, dst, n, lu, vouch) }, [][]byte{
			{4, 0, 0, 0}, number(1<<33 + 5), vouch.Public[:], vouch.Modifier[:], number(0x0011_22ff_0000_0001), mac[:],
			vouch.ByNew[:],
		}},
	} {
		for _, length := range []int{4, 12} {
			n := nonce(t, length)
			plain, err := c.build(n)
			if err != nil {
				t.Fatal(err)
			}
			encap, err := ilnp.Encapsulate(plain, 6740)
			if err != nil {
				t.Fatal(err)
			}
			for form, b := range map[string][]byte{"options": plain, "udp": encap} {
				e, from, to := decodeExperiment(t, b), src.Addr().As16(), dst.Addr().As16()
				switch {
				case !bytes.Equal(e.data, bytes.Join(c.want, nil)):
					t.Errorf("%s, %s: option %x, want %x", name, form, e.data, c.want)
				case !bytes.Equal(e.nonce, n.Value()) || !bytes.Equal(e.src, from[:]) || !bytes.Equal(e.dst, to[:]):
					t.Errorf("%s, %s: nonce %x, from %x to %x", name, form, e.nonce, e.src, e.dst)
				case len(e.message) != 20 || e.message[0] != 156 || !bytes.Equal(e.message[8:16], number(place)):
					t.Errorf("%s, %s: message %x", name, form, e.message)
				}
			}
		}
	}
}
