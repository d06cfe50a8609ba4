package ilnp

import (
	"math"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
)

// queueBench is a session in duality over two paths of 20 ms that have been asked.
func queueBench(t *testing.T) *bench {
	b := lengthBench(t)
	b.answerAfter(8, map[roam.L64]time.Duration{netA: 20 * ms, netB: 20 * ms})
	b.sent, b.events = nil, nil
	return b
}

// waits tells that segments wait, and answers the questions that follow; it reports
// whether there were any.
func (b *bench) waits(a, b_ time.Duration) bool {
	b.t.Helper()
	b.sent = nil
	b.see(Observation{Trigger: SeenQueue, Key: theKey, LocalNID: ownNID})
	if len(b.probesSent()) == 0 {
		return false
	}
	b.answerAfter(4, map[roam.L64]time.Duration{netA: 20*ms + a, netB: 20*ms + b_})
	return true
}

// shareOf returns what a path gets of all that is spread.
func (b *bench) shareOf(l roam.L64) float64 {
	for p, share := range b.Peers(b.now)[0].Shares {
		if p.Local.L64 == l {
			return share
		}
	}
	return -1
}

// transfer has TCP send as fast as it can for a while over paths of two rates, of
// which the one that its share exceeds has a queue, and returns how fast that is in
// the mean of the last half.
func (b *bench) transfer(rateA, rateB float64, length time.Duration) (total float64) {
	var sum, n float64
	for began := b.now; b.now.Sub(began) < length; b.pass(50 * ms) {
		byA, byB := rateA/b.shareOf(netA), rateB/b.shareOf(netB)
		fast := min(byA, byB)
		wait := func(by float64) time.Duration {
			if by > fast*1.001 {
				return 0
			}
			return 40 * ms
		}
		b.waits(wait(byA), wait(byB))
		if b.now.Sub(began) > length/2 {
			sum, n = sum+fast, n+1
		}
	}
	return sum / n
}

// Paths get shares by which nearly all that they can carry is used, whatever their
// rates, and never less than by equal shares or than the better one has.
func TestSharesFollowRates(t *testing.T) {
	for _, rateB := range []float64{100, 90, 70, 50, 40, 20, 10, 5, 1} {
		b := queueBench(t)
		total := b.transfer(100, rateB, 20*time.Second)
		if best := max(100, 2*min(100, rateB)); total < 0.92*best || total < 0.8*(100+rateB) {
			t.Errorf("over 100 and %v TCP gets %.0f, B's share is %.2f", rateB, total, b.shareOf(netB))
		}
	}
}

// When the slower path has become the faster one, shares follow.
func TestSharesTurn(t *testing.T) {
	b := queueBench(t)
	b.transfer(100, 20, 10*time.Second)
	if total := b.transfer(20, 100, 20*time.Second); total < 92 {
		t.Errorf("after the rates were exchanged TCP gets %.0f of 120", total)
	}
}

// Equal queues, or none, change nothing, and are asked for ever more rarely.
func TestSharesStayEqual(t *testing.T) {
	for _, waits := range [][2]time.Duration{{0, 4 * ms}, {40 * ms, 60 * ms}, {300 * ms, 400 * ms}, {0, 0}} {
		b := queueBench(t)
		asked := 0
		for range 60 * 20 {
			if b.waits(waits[0], waits[1]) {
				asked++
			}
			b.pass(50 * ms)
		}
		if share := b.shareOf(netA); share != 0.5 || asked > 20 || asked < 10 {
			t.Errorf("%v: a share of %v, asked %d times in a minute", waits, share, asked)
		}
	}
}

// A wait must be there twice, at once.
func TestWaitIsConfirmed(t *testing.T) {
	b := queueBench(t)
	for range 20 {
		b.sent = nil
		b.see(Observation{Trigger: SeenQueue, Key: theKey, LocalNID: ownNID})
		b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 120 * ms})
		began := b.now
		b.answerAfter(3, map[roam.L64]time.Duration{netA: 20 * ms, netB: 20 * ms})
		if b.now.Sub(began) != 20*ms {
			t.Fatalf("not asked again at once, but after %v: %v", b.now.Sub(began), b.sessions[theKey].multipath)
		}
		b.pass(10 * time.Second)
	}
	if share := b.shareOf(netB); share != 0.5 {
		t.Errorf("a wait that does not last leaves a share of %v", share)
	}
	if b.waits(0, 60*ms); math.Abs(b.shareOf(netB)-1./3) > 0.01 {
		t.Errorf("a wait that lasts leaves a share of %v", b.shareOf(netB))
	}
	b = queueBench(t)
	b.see(Observation{Trigger: SeenQueue, Key: theKey, LocalNID: ownNID})
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 60 * ms})
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 90 * ms}) // 30 ms more 60 ms later: half too much
	if math.Abs(b.shareOf(netB)-1./3) > 0.01 {
		t.Errorf("a wait that grows leaves a share of %v", b.shareOf(netB))
	}
	b = queueBench(t)
	b.see(Observation{Trigger: SeenQueue, Key: theKey, LocalNID: ownNID})
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 40 * ms})
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 110 * ms}) // 70 ms more 40 ms later
	if share := b.shareOf(netB); share > 0.33 {
		t.Errorf("one that grows faster leaves a share of %v", share)
	}
}

// Shares are forgotten when nothing waits any more, or a path goes.
func TestSharesAreForgotten(t *testing.T) {
	b := queueBench(t)
	b.waits(0, 60*ms)
	b.pass(multipath.CostLasts - time.Second)
	if b.active(); b.shareOf(netB) == 0.5 {
		t.Error("forgotten too soon")
	}
	b.pass(2 * time.Second)
	if b.active(); b.shareOf(netB) != 0.5 {
		t.Error("not forgotten")
	}
	b = queueBench(t)
	b.waits(0, 60*ms)
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 2, L64: netB}})
	b.drain()
	b.acknowledgeLast()
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	if p := b.entries[theKey]; len(p.Paths) != 2 || len(p.Costs) != 0 {
		t.Errorf("a path that came back has costs %v", p.Costs)
	}
}

// Where only one path is short, nothing is to be shared, and nothing asked.
func TestLongPathsHaveNoQueue(t *testing.T) {
	b := lengthBench(t)
	b.answerAfter(8, map[roam.L64]time.Duration{netA: 20 * ms, netB: 120 * ms})
	if got := b.long(); !slices.Equal(got, []roam.L64{netB}) {
		t.Fatalf("TCP does not take %v", got)
	}
	if b.waits(0, 60*ms) {
		t.Error("asked")
	}
}

// A path that has become faster gets more again though nothing waits before another.
func TestSharesRelax(t *testing.T) {
	b := queueBench(t)
	for range 4 {
		b.waits(0, 60*ms)
		b.pass(time.Second)
	}
	least := b.shareOf(netB)
	for range 240 { // TCP goes on to say that its round trips are long
		b.waits(0, 0)
		b.pass(500 * ms)
	}
	if b.shareOf(netB) != 0.5 {
		t.Errorf("a share of %v, before of %v", b.shareOf(netB), least)
	}
}

// A correspondent that has one path seem slow and then the other, and answers on, does
// not have us ask more than a queue would.
func TestWaitsThatAlternate(t *testing.T) {
	b := queueBench(t)
	b.see(Observation{Trigger: SeenQueue, Key: theKey, LocalNID: ownNID})
	began, asked := b.now, 0
	for i := 0; b.now.Sub(began) < time.Minute; i++ {
		waits := map[roam.L64]time.Duration{netA: 20 * ms, netB: 60 * ms}
		if i%2 == 1 {
			waits = map[roam.L64]time.Duration{netA: 60 * ms, netB: 20 * ms}
		}
		asked += len(b.probesSent())
		if b.answerAfter(2, waits); len(b.probesSent()) == 0 {
			b.pass(100 * ms)
		}
	}
	if asked > 20 {
		t.Errorf("%d probes in a minute after one queue", asked)
	}
}

// A queue that swallows the questions is one: the path is left, and gets less when it
// is back.
func TestWaitThatSwallowsProbes(t *testing.T) {
	b := queueBench(t)
	b.see(Observation{Trigger: SeenQueue, Key: theKey, LocalNID: ownNID})
	b.answerAfter(1, map[roam.L64]time.Duration{netA: 20 * ms})
	b.sent = nil
	b.pass(time.Second)
	if got := b.sources(); !slices.Equal(got, []roam.L64{netA}) {
		t.Fatalf("sends from %v", got)
	}
	b.answerAfter(1, map[roam.L64]time.Duration{netB: 20 * ms})
	if share := b.shareOf(netB); share > 0.34 || share < 0 {
		t.Errorf("it is back with a share of %v; TCP does not take %v", share, b.long())
	}
}
