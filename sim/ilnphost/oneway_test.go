package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestLivingDirectionStays: one direction of a path has died. The counts of the other end, by which the host sees
// whether the living one does too, are no reason to leave it, however rare its packets are, and on a path that is
// long, loses some or varies. Where a complaint or its acknowledgement is lost, the next one brings the path back.
func TestLivingDirectionStays(t *testing.T) {
	for name, c := range map[string]struct {
		access Access
		seeds  uint64
	}{
		"near": {near, 1}, "long": {Access{Delay: 200 * time.Millisecond}, 1},
		"lossy":      {Access{Delay: 5 * time.Millisecond, Loss: 0.05}, 12},
		"very lossy": {Access{Delay: 5 * time.Millisecond, Loss: 0.1}, 6},
		"uneven":     {Access{Delay: 5 * time.Millisecond, Jitter: 100 * time.Millisecond}, 1},
	} {
		for _, interval := range []time.Duration{time.Millisecond, 70 * time.Millisecond, 700 * time.Millisecond} {
			for seed := range max(c.seeds/uint64(1+10*time.Millisecond/interval), 1) {
				p := newForked(t, ilnp.Duality, multipath.Normal, 1+seed, near)
				p.mobile.Up(2, netB, c.access, roam.Infinite)
				p.up.Stop()
				p.down.Stop()
				p.Run(2 * time.Second)
				p.mobile.Stream(p.server, interval, 200)
				f := p.server.Flow(p.mobile, interval, false)
				p.Run(5 * time.Second)
				p.cut(2, sim.Forward)
				p.Run(5 * time.Second)
				avoided := p.server.Count(ilnp.PathAvoided)
				p.Run(30 * time.Second)
				if n := p.server.Count(ilnp.PathAvoided) - avoided; n > 0 {
					t.Errorf("%s, every %v, seed %d: the living direction was left %d times in half a minute", name, interval, seed, n)
				}
				if f.By(p.Elapsed()-10*time.Second, p.Elapsed()-time.Second)[netB] == 0 {
					t.Errorf("%s, every %v, seed %d: the living direction carries nothing", name, interval, seed)
				}
			}
		}
	}
}

// TestLivingDirectionStaysOverARestart: the daemon of the host that misses the answers is replaced. The new one knows
// that the path has answered once, and that its own direction is the one that lives. The host may be the one with
// several links: nothing comes to its locator there any more.
func TestLivingDirectionStaysOverARestart(t *testing.T) {
	for _, isMobile := range []bool{false, true} {
		for seed := range uint64(10) {
			p := newForked(t, ilnp.Duality, multipath.Normal, 1+seed, near)
			host, flow, dies := p.server, p.down, sim.Forward
			if isMobile {
				host, flow, dies = p.mobile, p.up, sim.Backward
			}
			p.Run(2 * time.Second)
			p.cut(2, dies)
			p.Run(5*time.Second + time.Duration(p.Rand().IntN(2000))*time.Millisecond)
			avoided := host.Count(ilnp.PathAvoided)
			if err := host.Restart(); err != nil {
				t.Fatal(err)
			}
			restarted := p.Elapsed()
			p.Run(20 * time.Second)
			if n := host.Count(ilnp.PathAvoided) - avoided; n > 0 {
				t.Errorf("%s, seed %d: the living direction was left %d times after a restart", host.name, seed, n)
			}
			if !isMobile && flow.By(p.Elapsed()-10*time.Second, p.Elapsed()-time.Second)[netB] == 0 ||
				len(p.mobile.peer(p.server).Paths) < 2 && isMobile {
				t.Errorf("%s, seed %d: the living direction carries nothing", host.name, seed)
			}
			if _, lost := flow.gapAfter(restarted, p.Elapsed()); lost > 0 {
				t.Errorf("%s, seed %d: %v of the living direction lost", host.name, seed, lost)
			}
		}
	}
}
