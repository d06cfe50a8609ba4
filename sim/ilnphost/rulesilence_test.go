package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestSilentDeathBesideARule: a host that sends a flow by another link, and its peer, which answers there,
// leave the path that all other packets take as soon as without that rule. Each probes both
// paths regularly, but the other one carries nothing of these packets.
func TestSilentDeathBesideARule(t *testing.T) {
	for name, way := range map[string]sim.Direction{"both": sim.Both, "up": sim.Forward, "down": sim.Backward} {
		var worst []time.Duration
		for seed := range uint64(10) {
			p := newForked(t, ilnp.Soft, multipath.Normal, seed, near)
			p.mobile.setRule(1, ruledPort, netA)
			p.Run(2*time.Second + time.Duration(p.Rand().IntN(1000))*time.Millisecond)
			at := p.Elapsed()
			p.cut(2, way)
			p.Run(5 * time.Second)
			for _, f := range []*Flow{p.up, p.down} {
				gap, lost := f.gapAfter(at, p.Elapsed())
				worst = append(worst, gap, lost)
			}
		}
		slices.Sort(worst)
		t.Logf("%s: worst %v", name, worst[len(worst)-1])
		if most := worst[len(worst)-1]; most > 500*time.Millisecond {
			t.Errorf("%s: a gap or loss of %v, want at most 500 ms", name, most)
		}
	}
}
