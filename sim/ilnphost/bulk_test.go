package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
)

// wire is an access link of the mobile host in one of these tests, with a queue of 1,000 packets.
type wire struct {
	mbps int
	rtt  time.Duration
}

// bulkWorld is a mobile host with such links, and a server. Rates are measured by trains.
func bulkWorld(t *testing.T, trains bool, wires ...wire) *world {
	t.Helper()
	n := New(1)
	n.Acquainted, n.Brief = true, true
	cfg := func(nid roam.NID) ilnp.Config {
		return ilnp.Config{
			NIDs: []roam.NID{nid}, Mode: ilnp.Duality, Silence: multipath.Normal.Timing().Silence,
			Liveness: func(string) multipath.Level { return multipath.Normal },
			Trains:   trains, ProbeID: uint16(nid) + 7,
		}
	}
	w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
	w.server.Up(1, netS, Access{}, roam.Infinite)
	for i, x := range wires {
		link := roam.LinkID(i + 1)
		w.mobile.Up(link, []roam.L64{netA, netB, netC}[i], Access{Delay: x.rtt / 2}, roam.Infinite)
		w.mobile.SetRates(link, x.mbps*125000)
		w.mobile.SetQueue(link, 1000*1500)
	}
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile)
	return w
}

// goodput returns what a transfer gets in a time, in Mb/s of data.
func (w *world) goodput(b *Bulk, d time.Duration) float64 {
	before := b.Delivered()
	w.Run(d)
	return float64(b.Delivered()-before) * 8 / 1e6 / d.Seconds()
}

// TestUnequalRates: one connection over two paths gets no less than over the better one alone,
// from its first second on, and over equal ones nearly twice as much.
func TestUnequalRates(t *testing.T) {
	const rtt = 20 * time.Millisecond
	for _, c := range []struct {
		a, b  int
		least float64 // of the first path alone
	}{
		{50, 50, 1.86}, {50, 10, 0.97}, {50, 3, 0.97}, {25, 5, 0.97},
	} {
		alone := bulkWorld(t, true, wire{c.a, rtt})
		both := bulkWorld(t, true, wire{c.a, rtt}, wire{c.b, rtt})
		got := [2]float64{}
		for i, w := range []*world{alone, both} {
			got[i] = w.goodput(w.mobile.Bulk(w.server), 4*time.Second)
		}
		t.Logf("%d and %d Mb/s: %.1f Mb/s, %.1f by the first alone", c.a, c.b, got[1], got[0])
		if got[1] < c.least*got[0] {
			t.Errorf("%d and %d Mb/s: a connection gets %.1f Mb/s in 4 s, want %.2f of %.1f", c.a, c.b, got[1], c.least, got[0])
		}
	}
}

// TestUnequalRatesOfDatagrams: datagrams at 85 and 94 % of 100 and 20 Mb/s follow the rates that
// trains have measured: none is lost from the first second on, however early they begin. Equal shares
// lose 24 % and more.
func TestUnequalRatesOfDatagrams(t *testing.T) {
	const rtt, each = 20 * time.Millisecond, 1048 // bytes on the wire
	for _, percent := range []int{85, 94} {
		for _, before := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second} {
			w := bulkWorld(t, true, wire{100, rtt}, wire{20, rtt})
			w.Brief = false
			if before > 0 {
				f := w.mobile.Flow(w.server, 10*time.Millisecond, true)
				w.Run(before)
				f.Stop()
			}
			at := w.Elapsed()
			f := w.mobile.Flow(w.server, time.Second*each*100/time.Duration(15_000_000*percent), false)
			w.Run(5 * time.Second)
			f.Stop()
			w.Run(2 * time.Second)
			if _, lost := f.gapAfter(at+time.Second, w.Elapsed()); lost > 0 || f.Sent < 50_000 {
				t.Errorf("%d %%, %v after the first packet: of %d datagrams %d were lost after a second", percent, before,
					f.Sent, lost/time.Millisecond)
			}
		}
	}
}

// transfers begins some, and returns what each gets in a time, in Mb/s of data, and all together.
func (w *world) transfers(n int, d time.Duration) (each []float64, sum float64) {
	all := make([]*Bulk, n)
	for i := range all {
		all[i] = w.mobile.Bulk(w.server)
	}
	w.Run(d)
	for _, b := range all {
		mbps := float64(b.Delivered()) * 8 / 1e6 / d.Seconds()
		each, sum = append(each, mbps), sum+mbps
	}
	return each, sum
}

// TestConnectionsOnLongPaths: several connections fill a long path too, each whole on one of the
// paths, and none of them starves. A single one gets what the better path alone gives it.
func TestConnectionsOnLongPaths(t *testing.T) {
	const long, rtt = 100 * time.Millisecond, 10 * time.Millisecond
	for _, c := range []struct {
		n     int
		wires []wire
		least float64 // of what the sum of these paths permits
		share float64 // of that, for each connection
	}{
		{1, []wire{{50, rtt}, {10, long}}, 0.97 * 50 / 60, 0},
		{4, []wire{{50, rtt}, {10, long}}, 0.93, 0.1},
		{4, []wire{{100, rtt}, {20, long}}, 0.93, 0.1},
		{4, []wire{{50, rtt}, {50, rtt}, {20, long}}, 0.93, 0.05},
		{1, []wire{{50, rtt}, {50, rtt}, {20, long}}, 0.93 * 100 / 120, 0},
		{1, []wire{{50, rtt}, {10, rtt}, {10, 2 * long}}, 0.9 * 60 / 70, 0},
		{1, []wire{{5, rtt}, {50, long}}, 0.97 * 5 / 55, 0},
	} {
		alone := bulkWorld(t, true, c.wires[0])
		of := alone.goodput(alone.mobile.Bulk(alone.server), 8*time.Second)
		sum := 0
		for _, x := range c.wires {
			sum += x.mbps
		}
		all := of * float64(sum) / float64(c.wires[0].mbps)
		w := bulkWorld(t, true, c.wires...)
		each, got := w.transfers(c.n, 8*time.Second)
		t.Logf("%d over %v: %.1f of %.1f Mb/s, %.1f", c.n, c.wires, got, all, each)
		if got < c.least*all {
			t.Errorf("%d connections over %v get %.1f Mb/s in 8 s, want %.2f of %.1f", c.n, c.wires, got, c.least, all)
		}
		if least := slices.Min(each); least < c.share*all {
			t.Errorf("of %d connections over %v one gets %.1f Mb/s: %.1f", c.n, c.wires, least, each)
		}
	}
}

// TestRateFalls: the faster of two paths falls to a fifth. The other one was slower and is now
// as fast.
func TestRateFalls(t *testing.T) {
	w := bulkWorld(t, true, wire{50, 20 * time.Millisecond}, wire{10, 20 * time.Millisecond})
	b := w.mobile.Bulk(w.server)
	w.Run(4 * time.Second)
	w.mobile.SetRates(1, 10*125000)
	w.Run(2 * time.Second)
	if got := w.goodput(b, 8*time.Second); got < 0.9*9.3 {
		t.Errorf("over two paths of 10 Mb/s, of which one took 50 before, a connection gets %.1f Mb/s", got)
	}
}

// TestConnectionsArePlacedSoon: once connections fill the short path, one of them takes the long one
// within a fraction of a second, whenever the daemon reads its tables.
func TestConnectionsArePlacedSoon(t *testing.T) {
	w := bulkWorld(t, true, wire{50, 10 * time.Millisecond}, wire{10, 100 * time.Millisecond})
	w.mobile.Bulk(w.server)
	w.Run(2100 * time.Millisecond) // lengths and rates are known
	for range 3 {
		w.mobile.Bulk(w.server)
	}
	from := w.Elapsed()
	isPlaced := func() bool {
		e := w.mobile.plane.named(ilnp.SessionKey{Local: mobileNID, Remote: serverNID})
		return slices.ContainsFunc(e.Long, func(long ilnp.Path) bool {
			for b := range multipath.Buckets {
				if p, only := e.Table.Only(b); only && p == long {
					return true
				}
			}
			return false
		})
	}
	if !w.RunUntil(5*time.Second, isPlaced) || w.Elapsed()-from > 700*time.Millisecond {
		t.Errorf("placed after %v", w.Elapsed()-from)
	}
}

// TestConnectionsAreCrossed: a single connection that fills a short path, with its queue, takes a long one too, and in
// the end has what both give. That costs it nothing at any time, although its queue before the short path, which
// made this as long as the other one, is gone at first: the server crosses its acknowledgements.
func TestConnectionsAreCrossed(t *testing.T) {
	for _, c := range []struct {
		short, long int           // Mb/s
		queue       time.Duration // of the short path
		last        float64       // least of the last part
	}{
		{50, 20, 80 * time.Millisecond, 1.25}, {50, 20, 120 * time.Millisecond, 1.25}, {30, 30, 100 * time.Millisecond, 1.8},
	} {
		wires := []wire{{c.short, 10 * time.Millisecond}, {c.long, 100 * time.Millisecond}}
		alone, both := bulkWorld(t, true, wires[0]), bulkWorld(t, true, wires...)
		for _, w := range []*world{alone, both} {
			w.mobile.SetQueue(1, int(c.queue.Seconds()*float64(c.short)*125000))
		}
		a, b := alone.mobile.Bulk(alone.server), both.mobile.Bulk(both.server)
		var parts []float64
		for range 10 {
			parts = append(parts, both.goodput(b, 4*time.Second)/alone.goodput(a, 4*time.Second))
		}
		t.Logf("%d and %d Mb/s, a queue of %v: %.2f of the better path alone", c.short, c.long, c.queue, parts)
		if least, last := slices.Min(parts), parts[len(parts)-1]; least < 0.95 || last < c.last {
			t.Errorf("%d and %d Mb/s, a queue of %v: %.2f of the better path alone in each 4 s", c.short, c.long, c.queue, parts)
		}
	}
}
