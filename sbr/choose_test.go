package sbr

import (
	"math"
	"math/rand/v2"
	"testing"

	"roam"
)

func members(precs ...uint16) []Member {
	var group []Entry
	for i, p := range precs {
		group = append(group, Entry{L64: roam.L64(0x20010db800000000 + uint64(i)<<16), Prec: p})
	}
	return Weights(group)
}

// The shares of the paper, exact over 10,000 packets, and one packet after another. The
// published algorithm read literally gives three equal locators 2/3, 1/3 and nothing.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		precs []uint16
		want  []float64
		first []int
	}{
		{[]uint16{50}, []float64{1}, []int{0, 0, 0}},
		{[]uint16{50, 50}, []float64{.5, .5}, []int{0, 1, 0, 1}},
		{[]uint16{20, 80}, []float64{.8, .2}, []int{0, 0, 1, 0, 0}},
		{[]uint16{0, 0}, []float64{.5, .5}, nil},
		{[]uint16{50, 50, 50}, []float64{1. / 3, 1. / 3, 1. / 3}, []int{0, 1, 2, 0, 1, 2}},
		{[]uint16{10, 20, 70}, []float64{.45, .40, .15}, nil},
	} {
		var chooser Chooser
		list, sent := members(c.precs...), make([]int, len(c.precs))
		for n := range 10000 {
			i := chooser.Choose(list)
			if sent[i]++; n < len(c.first) && i != c.first[n] {
				t.Errorf("%v: packet %d takes %d, want %d", c.precs, n, i, c.first[n])
			}
			for i, want := range c.want {
				if d := float64(sent[i]) - want*float64(n+1); math.Abs(d) > float64(len(c.want)-1)+1e-9 {
					t.Fatalf("%v: after %d packets %d is off by %.2f", c.precs, n+1, i, d)
				}
			}
		}
	}
}

// Connections are divided by weight, and both directions of one take the same locator,
// which for equal weights is the one of bpf/ilnp/flow.h.
func TestConnections(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		precs []uint16
		want  []float64
	}{{[]uint16{50, 50}, []float64{.5, .5}}, {[]uint16{20, 80}, []float64{.8, .2}}} {
		list, sent := members(c.precs...), make([]float64, len(c.precs))
		for range 20000 {
			remote := roam.L64(random.Uint64())
			a, b := uint16(random.Uint32()), uint16(random.Uint32())
			i := OfConnection(list, remote, a, b)
			if sent[i] += 1. / 20000; i != OfConnection(list, remote, b, a) {
				t.Fatal("the directions differ")
			}
		}
		for i, want := range c.want {
			if math.Abs(sent[i]-want) > 0.01 {
				t.Errorf("%v: %.3f of the connections take %d, want %.2f", c.precs, sent[i], i, want)
			}
		}
	}
	// As computed with the function of bpf/ilnp/flow.h.
	if w := mix(0x20010db800010000, 0x20010db8000c0000, 40000*443+40000^443); w>>27 != 0 {
		t.Errorf("a hash of more than 27 bits: %x", w)
	}
}
