package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// answerTrains answers probes as links of those rates do, in bytes a second: one that waits for
// what was sent before it is as much later. Round trips are 20 ms. timed: answers say when the probe
// came, and first ones wait for 15 ms on the way back.
func (b *bench) answerTrains(rates map[roam.L64]int, d time.Duration, timed bool) (trains map[roam.L64]int) {
	b.t.Helper()
	return b.answerWhile(rates, d, timed, func() {})
}

// answerWhile does something else besides. A link without a rate passes nothing.
func (b *bench) answerWhile(rates map[roam.L64]int, d time.Duration, timed bool,
	also func()) (trains map[roam.L64]int) {
	b.t.Helper()
	type due struct {
		at, came time.Time
		p        ilnpwire.Packet
	}
	var all []due
	trains = make(map[roam.L64]int)
	free := make(map[roam.L64]time.Time)
	for end := b.now.Add(d); b.now.Before(end); b.pass(ms / 4) {
		also()
		for _, s := range b.sent {
			first := b.parse(s)
			if len(s.Behind) > 0 {
				trains[first.Src.L64]++
			}
			for i, raw := range append([][]byte{s.Packet}, s.Behind...) {
				p, from := b.parse(Transmit{Link: s.Link, Packet: raw}), first.Src.L64
				if rates[from] == 0 {
					continue
				}
				takes := time.Duration(len(raw)) * time.Second / time.Duration(rates[from])
				free[from] = later(free[from], b.now).Add(takes)
				back := 20 * ms
				if timed && i == 0 {
					back += 15 * ms
				}
				if p.Type == ilnpwire.TypeEchoRequest {
					all = append(all, due{free[from].Add(back), free[from], p})
				}
			}
		}
		b.sent = nil
		for i := 0; i < len(all); i++ {
			if d := all[i]; !d.at.After(b.now) {
				all = slices.Delete(all, i, i+1)
				b.answerAt(d.p, d.came, timed)
				i = -1
			}
		}
	}
	return trains
}

// answerAt answers a probe that came at a time; timed: its report says when.
func (b *bench) answerAt(p ilnpwire.Packet, came time.Time, timed bool) {
	b.t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	if !timed || len(e.Data) != ilnpwire.ReportLen {
		b.reply(p, peerNonce)
		return
	}
	clock := uint32(came.UnixMicro())
	r := ilnpwire.Report{Clock: clock}
	if b.delivered != nil {
		n := ilnpwire.Counts(b.delivered(came))
		r.Counted, r.Epoch, r.Received, r.Sent = true, 1, n, n
	}
	b.report(p, peerNonce, r.AppendReply(nil, [16]byte(e.Data)))
}

// A second path is measured when it comes into use, and TCP takes it once its rate is known, with
// a share that follows. The next session knows. Answers that wait on their way back, as behind a
// train of the peer, change nothing if they say when the probe came.
func TestPathsAreMeasured(t *testing.T) {
	t.Run("by answers", func(t *testing.T) { testPathsAreMeasured(t, false) })
	t.Run("by the peer's clock", func(t *testing.T) { testPathsAreMeasured(t, true) })
}

func testPathsAreMeasured(t *testing.T, timed bool) {
	b := newBench(t, inMode(Duality), func(c *Config) { c.Trains = true })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.sessionOf(theKey).asks = false // that the peer runs Roam is not known yet
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	if got := b.long(); !slices.Equal(got, []roam.L64{netB}) {
		t.Fatalf("before the new path is measured TCP does not take %v", got)
	}
	trains := b.answerTrains(map[roam.L64]int{netA: 12_500_000, netB: 2_500_000}, 300*ms, timed)
	if trains[netA] != 3 || trains[netB] != 3 {
		t.Errorf("%v trains left, want three on each path", trains)
	}
	e := b.entries[theKey]
	for p, cost := range e.Costs {
		if p.Local.L64 != netB || cost != 5 {
			t.Errorf("%v costs %d", p, cost)
		}
	}
	if len(e.Costs) != 1 || len(e.Long) != 0 || !e.IsCut() {
		t.Errorf("paths cost %v, TCP does not take %v, cut %t", e.Costs, e.Long, e.IsCut())
	}
	if e.PerFlow = true; e.IsCut() {
		t.Error("segments of a connection that keeps to one path are cut")
	}
	b.sent = nil
	b.upsert(b.now, b.sessionOf(theKey), e.Paths)
	if b.drain(); slices.ContainsFunc(b.sent, func(s Transmit) bool { return len(s.Behind) > 0 }) {
		t.Error("a rate that is known is measured again")
	}
}

// A path whose trains stay without an answer is used as if it were as fast as the others.
func TestTrainsInVain(t *testing.T) {
	b := newBench(t, inMode(Duality), func(c *Config) { c.Trains = true })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	trains := 0
	for range 60 {
		for _, s := range b.sent {
			if len(s.Behind) > 0 {
				trains++
			} else if p := b.parse(s); p.Type == ilnpwire.TypeEchoRequest {
				b.reply(p, peerNonce)
			}
		}
		b.sent = nil
		b.active()
		b.pass(time.Second)
	}
	if e := b.entries[theKey]; len(e.Costs)+len(e.Long) > 0 || trains == 0 || trains > 8 {
		t.Errorf("after %d trains without an answer paths cost %v, TCP does not take %v", trains, e.Costs, e.Long)
	}
}

// TCP waits for the rate of a path on which only messages in UDP seem to pass, as that may be due to
// one lost packet. The other form is tried at once, and once more. Then nothing is waited for.
func TestEncapsulatedPathIsTriedAgain(t *testing.T) {
	for _, passes := range []bool{false, true} {
		b := newBench(t, withUDP, inMode(Duality), func(c *Config) { c.Trains = true })
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.prefix(2, netB, roam.Infinite)
		b.acknowledgeLast()
		s := b.sessionOf(theKey)
		p := s.entry.Paths[slices.IndexFunc(s.entry.Paths, func(p Path) bool { return p.Local.L64 == netB })]
		b.forget()
		s.trains = nil
		s.multipath.HandleAnswer(b.now, p, b.now.Add(-20*ms))
		b.noteForm(b.now, s, p, true)
		if b.drain(); !slices.Contains(b.entries[theKey].Long, p) {
			t.Fatal("TCP takes the path")
		}
		probes := b.probesSent()
		again := slices.IndexFunc(probes, func(q ilnpwire.Packet) bool { return q.Src.L64 == netB })
		if again < 0 {
			t.Fatal("the form of the RFCs is not tried again")
		}
		if passes {
			b.reply(probes[again], peerNonce)
			b.answerTrains(map[roam.L64]int{netA: 12_500_000, netB: 2_500_000}, 300*ms, false)
			if e := b.entries[theKey]; len(e.Long) > 0 || e.Costs[p] != 5 {
				t.Errorf("the form of the RFCs passes: TCP does not take %v, costs %v", e.Long, e.Costs)
			}
			continue
		}
		b.now = b.now.Add(encapFirst)
		s.lastTx = b.now
		b.tryOption(b.now, s)
		if b.drain(); len(b.entries[theKey].Long) > 0 || !b.entries[theKey].Encap {
			t.Errorf("only UDP passes: TCP does not take %v, encapsulated %t", b.entries[theKey].Long, b.entries[theKey].Encap)
		}
	}
}

// TCP leaves a path at once that data fill and that is late with what another one has answered, before it is avoided,
// and takes it again with the share of its new rate. If data do not fill it, or no path answers, it stays.
func TestLatePathIsLeft(t *testing.T) {
	for _, test := range []struct {
		rate          uint64 // of data on each path, in bytes a second
		answers, left bool
	}{{4_200_000, true, true}, {4_100_000, true, false}, {6_300_000, false, false}} {
		var b *bench
		end := epoch.Add(time.Hour) // of data
		delivered := func(at time.Time) multipath.Traffic {
			at = sooner(at, end)
			bytes := test.rate * uint64(at.Sub(epoch).Microseconds()) / 1e6
			return multipath.Traffic{Packets: bytes / 1000, Bytes: bytes}
		}
		b = newBench(t, inMode(Duality), onNormal, func(c *Config) {
			c.Trains = true
			c.PathCounts = func(SessionKey, Path) (PathCounts, bool) {
				return PathCounts{Epoch: 1, Sent: delivered(b.now), Received: delivered(b.now)}, true
			}
		})
		b.delivered = delivered
		b.prefix(1, netA, roam.Infinite)
		b.prefix(2, netB, roam.Infinite)
		b.open(netP)
		beside := 12_500_000 - int(test.rate+test.rate*86/1000) // what data leave of each link to trains
		rates := map[roam.L64]int{netA: beside, netB: beside}
		var left []roam.L64
		why := ""
		data := func() {
			if b.active(); len(left) == 0 && b.count(PathAvoided) == 0 {
				if left = b.long(); len(left) > 0 {
					s := b.sessionOf(theKey)
					p := s.entry.Long[0]
					why = viewOf(b.now, s, p, 0).Why
					h := s.check.of(p)
					if after, wait := b.now.Sub(h.since), h.Wait(b.timingOf(p), s.rtt); after < wait+25*ms {
						t.Errorf("left after %v, where an answer is waited for %v: a busy host may be as late", after, wait)
					}
				}
			}
		}
		b.askReports()
		b.answerWhile(rates, 5*time.Second, true, b.active)
		if len(b.long()) > 0 || len(b.entries[theKey].Costs) > 0 {
			t.Fatalf("TCP does not take %v, costs %v", b.long(), b.entries[theKey].Costs)
		}
		rates[netB] = 0
		if !test.answers {
			rates[netA] = 0
		}
		b.answerWhile(rates, 300*ms, true, data)
		if got := slices.Equal(left, []roam.L64{netB}); got != test.left || len(left) > 0 && !test.left {
			t.Errorf("%+v: TCP has left %v", test, left)
		}
		if test.left && why != "in use, late: TCP waits for its rate" {
			t.Errorf("the path that TCP has left is %q", why)
		}
		rates[netA], rates[netB], end = 12_500_000, 2_500_000, b.now
		b.answerWhile(rates, 3*time.Second, true, data)
		e := b.entries[theKey]
		for p, cost := range e.Costs {
			if p.Local.L64 != netB || cost != 5 {
				t.Errorf("%+v: %v costs %d", test, p, cost)
			}
		}
		if test.left && len(e.Costs) != 1 || len(e.Long) > 0 || len(e.Paths) != 2 {
			t.Errorf("%+v: then paths %v cost %v, TCP does not take %v", test, e.Paths, e.Costs, e.Long)
		}
	}
}

// TestRatesOfOldPathsAreForgotten: a host that moves once a second keeps the rates of the paths of late, and those of
// the paths in use, not all.
func TestRatesOfOldPathsAreForgotten(t *testing.T) {
	var rs rates
	now := epoch
	at := func(i int) Path { return Path{Local: roam.LinkLocator{Link: 1, L64: roam.L64(i)}, Remote: 1} }
	for i := range 3000 {
		now = now.Add(time.Second)
		used := []Path{at(i), at(max(i-1, 0))}
		rs.put(now, at(i), used, multipath.Rate{}.With(now, 1e6))
		if len(rs) > ratesMost {
			t.Fatalf("%d rates after %d paths", len(rs), i+1)
		}
		if !rs[at(i)].Measured(now).Wants {
			t.Fatal("one train suffices")
		}
		for _, p := range used {
			if _, ok := rs[p]; !ok {
				t.Fatalf("after %d paths the rate of one in use is gone", i+1)
			}
		}
	}
	rs.put(now.Add(multipath.RateLasts-time.Second), at(3000), nil, multipath.Rate{})
	if _, ok := rs[at(2999)]; !ok {
		t.Error("a rate that counts is forgotten though there is space")
	}
}

// measuredBench is a host with two paths whose rates are known, and of which the second has a fifth of the first.
func measuredBench(t *testing.T, options ...func(*Config)) *bench {
	b := newBench(t, append(options, inMode(Duality), func(c *Config) { c.Trains = true })...)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.answerTrains(map[roam.L64]int{netA: 12_500_000, netB: 2_500_000}, 300*ms, false)
	b.wantCosts("at first")
	return b
}

// wantCosts checks that the second path costs what a fifth of the rate does.
func (b *bench) wantCosts(when string) {
	b.t.Helper()
	e := b.entries[theKey]
	for p, cost := range e.Costs {
		if p.Local.L64 != netB || cost != 5 {
			b.t.Errorf("%s %v costs %d", when, p, cost)
		}
	}
	if len(e.Costs) != 1 || len(e.Long) != 0 {
		b.t.Errorf("%s paths cost %v, TCP does not take %v", when, e.Costs, e.Long)
	}
}

// Shares stay as they are when a rate gets old, be it that no train is answered, and follow the rate that is measured
// then.
func TestOldRatesCountUntilMeasured(t *testing.T) {
	for _, passes := range []bool{true, false} {
		b := measuredBench(t)
		b.now = b.now.Add(multipath.RateLasts)
		b.sent = nil
		s := b.sessionOf(theKey)
		s.lastRx, s.lastTx = b.now, b.now
		if b.measureRates(b.now, s); len(s.trains) > 0 {
			t.Error("the rate of an idle session is measured anew")
		}
		s.used = b.now
		b.measureRates(b.now, s)
		b.upsert(b.now, s, s.entry.Paths)
		b.drain()
		b.wantCosts("when it is old,")
		if !slices.ContainsFunc(b.sent, func(s Transmit) bool { return len(s.Behind) > 0 }) {
			t.Error("an old rate is not measured anew")
		}
		rates := map[roam.L64]int{netA: 12_500_000, netB: 12_500_000}
		if !passes {
			rates = nil
		}
		b.answerTrains(rates, 300*ms, false)
		if e := b.entries[theKey]; passes && len(e.Costs) > 0 {
			t.Errorf("paths of one rate cost %v", e.Costs)
		} else if !passes {
			b.wantCosts("without an answer")
		}
	}
}

// A restarted daemon goes on with the shares of its predecessor, and with what the correspondent has told, from the
// first entry on.
func TestRatesOutliveTheDaemon(t *testing.T) {
	b := measuredBench(t)
	told := b.entries[theKey].Paths[0]
	b.sessionOf(theKey).reports.told = map[Path]uint8{told: 3}
	n := b.successor(t, inMode(Duality), func(c *Config) { c.Trains = true })
	n.wantCosts("after a restart")
	s := n.sessionOf(theKey)
	if len(s.reports.told) != 1 || s.reports.told[told] != 3 {
		t.Errorf("told %v", s.reports.told)
	}
	if m := s.rates[told].Measured(n.now); !m.Sure || !m.Wants {
		t.Errorf("the rate of a predecessor is %+v, want one to be measured anew", m)
	}
}

// What the correspondent has told of a path counts on when the data plane counts anew: its next probe says it again.
func TestCostsToldOutliveCounts(t *testing.T) {
	counts := PathCounts{Epoch: 1, Told: 4, IsTold: true}
	b := newBench(t, inMode(Duality), func(c *Config) {
		c.PathCounts = func(SessionKey, Path) (PathCounts, bool) { return counts, true }
	})
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	s := b.sessionOf(theKey)
	p := probe{path: s.entry.Paths[0], counts: true}
	for _, test := range []struct {
		now  PathCounts
		want uint8
	}{{counts, 4}, {PathCounts{Epoch: 2}, 4}, {PathCounts{Epoch: 2, Told: 200, IsTold: true}, multipath.CostMost},
		{PathCounts{Epoch: 3, IsTold: true}, 0}} {
		counts = test.now
		if b.takeCost(b.now, s, p); s.reports.told == nil || s.reports.told[p.path] != test.want {
			t.Errorf("%+v: told %v, want %d", test.now, s.reports.told, test.want)
		}
	}
}

// A train that was under way when a doubt began may have waited in a queue: its answers do not count, nor do they end
// the train of the new measurement. One that is late only counts beside it.
func TestTrainsBeforeADoubt(t *testing.T) {
	for _, doubted := range []bool{true, false} {
		b := measuredBench(t)
		s := b.sessionOf(theKey)
		p := s.entry.Paths[0]
		if !b.doubtRate(b.now, s, p) {
			t.Fatal("a known rate is not doubted")
		}
		b.measureRate(b.now, s, p)
		old := s.trains[p]
		if b.now = b.now.Add(trainAgain); doubted && !b.doubtRate(b.now, s, p) {
			t.Fatal("a rate is not doubted again")
		}
		b.measureRate(b.now, s, p)
		young := s.trains[p]
		if old == nil || young == nil || old == young {
			t.Fatalf("trains %p and %p", old, young)
		}
		b.trainAnswered(b.now, s, probe{path: p, sent: old.sent, train: old}, ilnpwire.Packet{})
		b.now = b.now.Add(ms)
		b.trainAnswered(b.now, s, probe{path: p, sent: old.sent, train: old, behind: true}, ilnpwire.Packet{})
		if most := s.rates[p].Measured(b.now).Most; (most > 0) == doubted || s.trains[p] != young {
			t.Errorf("doubted %t: the fastest train had %v bytes a second, the new one is under way: %t", doubted, most,
				s.trains[p] == young)
		}
	}
}
