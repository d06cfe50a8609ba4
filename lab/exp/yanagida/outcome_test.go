package yanagida

import (
	"math"
	"slices"
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/scene"
)

func done(at int, op scene.Op, link, name string) scene.Done {
	return scene.Done{Step: scene.Step{Op: op, Link: link, Name: name}, At: after(at)}
}

// The time from a link's carrier to its first data is that of packets on this link after it; the
// daemon's is that of its event. Steps without a name are no marks.
func TestStepsOfAPass(t *testing.T) {
	s := synthetic(out(999, "net2", l2, 1))
	s.trace.Steps = []scene.Done{done(500, scene.Mark, "", ""), done(1000, scene.Attach, "net2", "+net2"),
		done(3000, scene.Disable, "net2", "-net2")}
	s.trace.Events = map[string][]node.Event{"mn": {{Time: after(1040), Kind: "locator-added",
		To: []node.LinkLocator{{Link: "net2", L64: l2}}}}}
	var o outcome
	s.judge(&o)
	if want := []mark{{1, "+net2"}, {3, "-net2"}}; !slices.Equal(o.Marks, want) {
		t.Errorf("marks %v, want %v", o.Marks, want)
	}
	if !slices.Equal(o.BringUpMs, []float64{3}) || !slices.Equal(o.DaemonBringUpMs, []float64{40}) {
		t.Errorf("to the first data %v, to the locator %v", o.BringUpMs, o.DaemonBringUpMs)
	}
}

// A link that is enabled again is a new locator too. The longest time of data after a removal is
// that of all removals.
func TestEnabledAndRemovedAgain(t *testing.T) {
	s := synthetic(in(3500, "net2", l2, 1),
		update(3600, "net2", false, l1, l2), update(3610, "net2", true, l1, l2), out(3605, "net2", l2, 2),
		update(4000, "net1", false, l1), update(4002, "net1", true, l1), in(4100, "net2", l2, 3))
	s.trace.Steps = append(s.trace.Steps, done(3600, scene.Enable, "net2", ""), done(4000, scene.Disable, "net2", ""))
	var o outcome
	s.judge(&o)
	if o.NewLocators != 2 || o.BeforeAck != 2 || o.AfterRemoval != 2 || o.AfterRemovalMs != 499 {
		t.Errorf("%d new locators, %d used before the acknowledgement; %d after removals, up to %g ms", o.NewLocators,
			o.BeforeAck, o.AfterRemoval, o.AfterRemovalMs)
	}
}

// The beginning that throughput omits is a quarter of the pass, and 10 s at most.
func TestLateThroughput(t *testing.T) {
	at := func(ms, length int) packets.Packet { return packets.Packet{At: after(ms), Length: length} }
	got := []packets.Packet{at(12_000, 1000), at(30_000, 1000), at(50_000, 500)}
	for _, c := range []struct {
		end       int
		sum, over float64
	}{{80_000, 1500, 38}, {60_000, 1500, 38}, {52_000, 1500, 38}, {30_001, 1000, 18}} {
		s := seen{cell: cell{arm: arm.Roam}, trace: &scene.Trace{Start: origin, End: after(c.end)}}
		var w way
		s.way(&w, nil, got, nil, func(packets.Packet) string { return "net1" })
		if want := c.sum * 8e-6 / c.over; math.Abs(w.LateMbps-want) > 1e-12 {
			t.Errorf("%d ms: %g Mb/s, want %g", c.end, w.LateMbps, want)
		}
	}
}

// The share of a phase counts from the first use of its new link, not of another one.
func TestSharesBeginWithTheNewLink(t *testing.T) {
	var got []packets.Packet
	for ms := 0; ms < 4000; ms += 10 {
		where := "net1"
		if ms >= 2000 && ms%20 == 0 {
			where = "net2"
		}
		got = append(got, packets.Packet{At: after(ms), Where: where, Length: 100})
	}
	s := seen{trace: &scene.Trace{Start: origin, End: after(4000)}}
	shares := s.shares(phase{0, 4 * time.Second, links[:2], "net2"}, got,
		func(p packets.Packet) string { return p.Where })
	if math.Abs(shares["net1"]-50) > 1 || math.Abs(shares["net2"]-50) > 1 {
		t.Errorf("%v", shares)
	}
}

// Of several gaps the longest is kept, above what the control had.
func TestGapsAboveTheControl(t *testing.T) {
	o := &outcome{Out: way{LongGapsMs: []float64{60, 250, 90}}, In: way{LongGapsMs: []float64{130, 70}}}
	control := &outcome{Out: way{WindowsMs: []float64{10, 20, 400}}, In: way{WindowsMs: []float64{40}}}
	if n, longest := o.gapsOver(100, control); n != 1 || longest != 230 {
		t.Errorf("%d gaps, the longest %g ms", n, longest)
	}
	if n, longest := o.gapsOver(100, nil); n != 2 || longest != 250 {
		t.Errorf("without a control: %d gaps, the longest %g ms", n, longest)
	}
}

// The deviation of a link's buckets is about their mean in the phase.
func TestDeviation(t *testing.T) {
	w := way{Buckets: map[string][]float64{"net1": nil, "net2": make([]float64, 19)}}
	for i := range 19 {
		w.Buckets["net1"] = append(w.Buckets["net1"], float64(1+2*(i%2)))
	}
	if got := w.deviation([]phase{{0, 9500 * time.Millisecond, links[:1], ""}}, 0.5); got != 1 {
		t.Errorf("%g, want 1", got)
	}
	if got := w.deviation([]phase{{0, 9500 * time.Millisecond, links[:2], ""}}, 0.5); got != math.Sqrt(0.5) {
		t.Errorf("beside a constant link: %g, want %g", got, math.Sqrt(0.5))
	}
	if got := w.deviation(nil, 0.5); got != 0 {
		t.Errorf("without a phase: %g", got)
	}
}

// A counter is read by its name.
func TestField(t *testing.T) {
	const text = "Udp6InErrors x\nUdp6InDatagrams 5\nUdp6RcvbufErrors 7\nUdp6RcvbufErrorsOfOthers 9\n"
	for name, want := range map[string]int{"Udp6InDatagrams": 5, "Udp6RcvbufErrors": 7, "Udp6InErrors": 0, "absent": 0} {
		if got := field(text, name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}
