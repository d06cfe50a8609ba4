package ilnphost

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"roam/wire/golden"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// mutations is how many damaged packets each golden packet makes.
const mutations = 700

// mutate damages a packet in one to three places: bytes behind the addresses
// change, are taken out or doubled, or the end is cut off. The payload length
// is mended half of the time, so that damage is found further in.
func mutate(rnd *rand.Rand, p []byte) []byte {
	b := bytes.Clone(p)
	const first = ip6.HeaderLen
	for range 1 + rnd.IntN(3) {
		if len(b) <= first+1 {
			break
		}
		// Mostly near the front, where the headers are.
		at := first + min(rnd.IntN(len(b)-first), rnd.IntN(64))
		switch rnd.IntN(8) {
		case 0:
			b = b[:at]
		case 1:
			b = append(b[:at], b[min(at+8, len(b)):]...)
		case 2:
			b = append(b[:at], bytes.Clone(b[max(first, at-8):])...)
		case 3:
			b[6] = headerTypes[rnd.IntN(len(headerTypes))]
		case 4:
			b[at] = headerTypes[rnd.IntN(len(headerTypes))]
		case 5:
			b[at] = byte(rnd.IntN(20))
		default:
			b[at] ^= 1 << rnd.IntN(8)
		}
	}
	if rnd.IntN(4) != 0 {
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ip6.HeaderLen))
	}
	return b
}

var headerTypes = []byte{0, 6, 17, 33, 43, 44, 58, 59, 60, 136, 253, ilnpwire.OptionNonce}

// verdictOf is what the codecs say of a packet of an established session from a
// known locator: the bytes to deliver, or nil if it is not to be delivered
// translated. comparable is false where the programs may differ, which the
// comments say.
func verdictOf(b []byte, e xlate.Entry) (want []byte, comparable bool) {
	c, err := ip6.Walk(b)
	if err != nil {
		return nil, true
	}
	f, err := ilnpwire.FindNonce(b, c)
	if err != nil {
		return nil, true
	}
	// The programs look at six headers and eight options, as Linux does.
	if len(c.Exts) >= 6 || manyOptions(b, c) {
		return nil, false
	}
	if c.Upper == ip6.ICMPv6 && !c.Later() {
		// Answered, handed over or left alone by type; not translated by the
		// model's rules only.
		return nil, false
	}
	if f.Ext < 0 && c.Upper == ip6.ICMPv6 {
		return nil, true // RFC 6744 §7
	}
	want, err = xlate.Inward(b, e)
	if err != nil {
		return nil, true
	}
	return want, true
}

func manyOptions(b []byte, c ip6.Chain) bool {
	for _, x := range c.Exts {
		if x.Proto != ip6.DestOpts {
			continue
		}
		list, err := ip6.Options(b[x.Offset:x.Offset+x.Len], x.Offset)
		if err != nil || len(list) > 8 {
			return true
		}
	}
	return false
}

// kernelWarned reports whether the kernel has hit a WARN since it booted.
func kernelWarned(t *testing.T) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/tainted")
	if err != nil {
		t.Fatal(err)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	const warned = 1 << 9
	return v&warned != 0
}

// Damaged packets meet the same fate in BPF as in Go, and none gets through
// without being counted.
func TestMutations(t *testing.T) {
	r := newRig(t)
	rnd := rand.New(rand.NewPCG(6740, 6741))
	compared, accepted := 0, 0
	before := kernelWarned(t)
	for name, c := range goldenCases(t) {
		switch c.Direction {
		case golden.Outward:
			c = mirrored(c)
		case golden.Inward:
		default:
			continue
		}
		if !c.Entry.Nonce.Present() {
			c.Entry.Nonce = theirNonce
		}
		p := r.install(c)
		for range mutations {
			b := mutate(rnd, c.Wire)
			v, out := r.ingress(b)
			want, comparable := verdictOf(b, c.Entry)
			if !comparable {
				continue
			}
			compared++
			if want == nil {
				if v != shot {
					t.Errorf("%s: verdict %d on\n%x, which the codecs refuse", name, v, b)
				}
				continue
			}
			accepted++
			// Bytes behind the payload length stay behind it.
			if v != passOn || len(out) < len(want) || !bytes.Equal(out[:len(want)], want) {
				t.Errorf("%s: verdict %d on\n%x: %s", name, v, b, difference(out, want))
			}
		}
		r.events()
		r.must(r.Delete(p.Key))
		if t.Failed() {
			return
		}
	}
	t.Logf("%d packets compared, %d of them accepted", compared, accepted)
	if kernelWarned(t) && !before {
		t.Error("the kernel warned of something: see its log")
	}
	if compared < 20000 || accepted < compared/10 || accepted > compared*9/10 {
		t.Errorf("%d packets compared, %d of them accepted: the mutations are too mild or too wild", compared, accepted)
	}
}
