package scene

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/result"
	wire "roam/wire/ilnp"
)

func TestSoftGoesAroundTheRing(t *testing.T) {
	var s Schedule
	last := s.Soft(5*time.Second, 4, 15*time.Second, 10*time.Second, "net1", "net2", "net3")
	if last != "net2" || len(s.Steps) != 8 {
		t.Fatalf("ends on %s after %d steps", last, len(s.Steps))
	}
	up, isUp := 0, map[string]bool{"net1": true}
	for _, step := range s.Steps {
		switch step.Op {
		case Attach:
			up++
			isUp[step.Link] = true
			if !isUp[step.From] {
				t.Errorf("handoff from %s, which is down", step.From)
			}
		case Detach:
			delete(isUp, step.Link)
		}
		if len(isUp) == 0 {
			t.Errorf("no link after %+v", step)
		}
	}
	if up != 4 || s.Steps[6].At != 50*time.Second || s.Steps[7].At != 60*time.Second {
		t.Errorf("%d handoffs, the last at %v", up, s.Steps[6].At)
	}
}

func TestDualityGoesThereAndBack(t *testing.T) {
	var s Schedule
	s.Duality(10*time.Second, "net1", "net2", "net3")
	used, want := map[string]bool{"net1": true}, []int{2, 3, 2, 1, 2, 3, 2, 1}
	for i, step := range s.Steps {
		if used[step.Link] = step.Op != Disable; !used[step.Link] {
			delete(used, step.Link)
		}
		sign := map[bool]string{true: "-"}[step.Op == Disable]
		if len(used) != want[i] || step.Name != cmp.Or(sign, "+")+step.Link {
			t.Errorf("%d links after %s, want %d", len(used), step.Name, want[i])
		}
	}
	if len(s.Steps) != 8 || !used["net1"] || s.Length != 120*time.Second {
		t.Errorf("%d steps in %v, ends with %v", len(s.Steps), s.Length, used)
	}
}

func TestShares(t *testing.T) {
	tr := Trace{Start: time.Unix(1000, 0)}
	for i := range 21 {
		n := uint64(i) * 1000
		tr.Samples = append(tr.Samples, Sample{
			At:  tr.At(time.Duration(i) * time.Second),
			Out: map[string]uint64{"net1": n, "net2": 2 * n, "net3": n},
			In:  map[string]uint64{"net1": n, "net3": 0},
		})
	}
	out, in := tr.Shares(tr.At(2*time.Second), tr.At(12*time.Second))
	if out["net1"] != 25 || out["net2"] != 50 {
		t.Errorf("shares out %v", out)
	}
	if in["net1"] != 100 || in["net3"] != 0 {
		t.Errorf("shares in %v", in)
	}
	// A reading that came late has what the links carried after the span.
	tr.Samples[12].At, tr.Samples[12].Out["net1"] = tr.At(12900*time.Millisecond), 50_000
	if out, _ = tr.Shares(tr.At(2*time.Second), tr.At(12*time.Second)); out["net1"] != 25 {
		t.Errorf("with a late reading shares out %v", out)
	}
	if a, b := tr.Within(tr.At(11500*time.Millisecond), tr.At(12500*time.Millisecond)); !a.At.Equal(b.At) {
		t.Errorf("a span without readings from %v to %v", a.At, b.At)
	}
}

func TestNIDs(t *testing.T) {
	if NID("cn2") != 0x1000_0000_0000_00c2 || NID("mn") == NID("cn1") {
		t.Errorf("NIDs %v, %v", NID("mn"), NID("cn2"))
	}
}

// Rates leave out readings in quick succession.
func TestAddRates(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	reading := func(ms int, out, in uint64) Sample {
		return Sample{At: at(ms), Out: map[string]uint64{"net1": out}, In: map[string]uint64{"net1": in}}
	}
	tr := &Trace{Start: at(0), Samples: []Sample{reading(0, 0, 0), reading(100, 12_500, 25_000),
		reading(119, 99_000, 99_000), reading(139, 101_500, 99_000)}}
	r := result.New("")
	tr.AddRates(r, "arm")
	out, ok := r.Find("arm out net1")
	in, _ := r.Find("arm in net1")
	if !ok || !slices.Equal(out.X, []float64{0.1, 0.139}) || !slices.Equal(out.Y, []float64{1, 1}) ||
		!slices.Equal(in.Y, []float64{2, 0}) {
		t.Errorf("%+v, %+v", out, in)
	}
}

func TestLinkNames(t *testing.T) {
	if s := linkNames(nil); s != "none" {
		t.Errorf("of none %q", s)
	}
	if s := linkNames([]node.LinkLocator{{Link: "b"}, {Link: "a"}, {Link: "b"}}); s != "a+b" {
		t.Errorf("of two %q", s)
	}
}

// A cut is late by when it was over; packets to its network count until the link returns.
func TestLateCuts(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	step := func(op Op, planned, over int, link, from string, settled bool) Done {
		d := time.Duration(planned) * time.Millisecond
		return Done{Step: Step{Op: op, At: d, Link: link, From: from, Settled: settled}, At: at(planned), Over: at(over)}
	}
	tr := &Trace{Start: at(0), End: at(5000), Steps: []Done{
		step(Attach, 500, 1500, "net2", "net1", false), step(Detach, 1000, 1030, "net1", "", false),
		step(Attach, 2000, 2900, "net1", "net2", false), step(Swap, 3000, 3900, "net2", "net1", true),
		step(Cut, 4000, 4010, "net2", "", false)}}
	if l := tr.Late(); l != 30*time.Millisecond {
		t.Errorf("%v late", l)
	}
	tr.Steps[3].Settled = false
	if l := tr.Late(); l != 900*time.Millisecond {
		t.Errorf("with a swap %v late", l)
	}
	if b := tr.Behind(); b != 0 {
		t.Errorf("%v behind", b)
	}
	last := tr.Steps[4]
	if tr.Steps[4].At, tr.Steps[4].Over = at(5000), at(5001); tr.Late() != 1001*time.Millisecond {
		t.Errorf("begun late, %v late", tr.Late())
	}
	tr.Steps[4] = last
	tr.Steps[0].At, tr.Steps[1].At = at(507), at(1002)
	if b := tr.Behind(); b != 7*time.Millisecond {
		t.Errorf("%v behind", b)
	}
	sample := func(ms int, one, two uint64) Sample {
		return Sample{At: at(ms), Towards: map[string]uint64{"net1": one, "net2": two}}
	}
	tr.Samples = []Sample{sample(900, 100, 0), sample(1000, 200, 0), sample(1100, 300, 100), sample(1200, 302, 200),
		sample(1900, 304, 300), sample(2100, 900, 300), sample(3950, 903, 400), sample(4100, 903, 403),
		sample(4200, 903, 405)}
	if d := tr.StillCame(); d != 90*time.Millisecond {
		t.Errorf("still came for %v", d)
	}
	tr.Samples[4].Towards["net1"] = 305
	if d := tr.StillCame(); d != 870*time.Millisecond {
		t.Errorf("with a late packet still came for %v", d)
	}
	tr.Steps[1].Host = "cn1"
	if d := tr.StillCame(); d != 90*time.Millisecond {
		t.Errorf("of a correspondent's link too: %v", d)
	}
}

// A link begins to carry data with a burst, ceases with silence, and is not busy by a few
// frames of neighbor discovery.
func TestBegins(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(1000, 0).Add(time.Duration(n) * watchEvery) }
	b := begins{busy: map[string]bool{}}
	for n, sent := range []uint64{0, 3, 3, 10, 18, 40, 41, 41, 60} {
		b.note(at(n), map[string]uint64{"net1": sent, "net2": 0})
	}
	tr := Trace{Begins: b.list}
	if len(b.list) != 2 || b.list[0] != (Begin{at(4), "net1"}) || b.list[1] != (Begin{at(8), "net1"}) {
		t.Errorf("%v", b.list)
	}
	if when, ok := tr.Carried("net1", at(5)); !ok || !when.Equal(at(8)) {
		t.Errorf("%v, %v", when, ok)
	}
	if _, ok := tr.Carried("net2", at(0)); ok {
		t.Error("a link without data carries some")
	}
}

// A link is back when a swap brings it; a cut without an overlap can be late, too.
func TestCutsAndSwaps(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	tr := &Trace{Start: at(0), End: at(5000), Steps: []Done{
		{Step: Step{Op: Cut, At: time.Second, Link: "net1"}, At: at(1000), Over: at(1070)},
		{Step: Step{Op: Swap, At: 2 * time.Second, Link: "net1", From: "net2"}, At: at(2000), Over: at(2010)},
	}}
	for i, n := range []uint64{0, 100, 200, 200, 900} {
		tr.Samples = append(tr.Samples, Sample{At: at(900 + 300*i), Towards: map[string]uint64{"net1": n}})
	}
	if l, d := tr.Late(), tr.StillCame(); l != 70*time.Millisecond || d != 430*time.Millisecond {
		t.Errorf("late by %v, still came for %v", l, d)
	}
	tr.Steps[0].Step = Step{Op: Call, From: "net1"} // which is up to what it calls
	if d := tr.StillCame(); d != 430*time.Millisecond {
		t.Errorf("after a call still came for %v", d)
	}
	tr.Steps[0].From = ""
	if d := tr.StillCame(); d != 0 {
		t.Errorf("without a cut still came for %v", d)
	}
}

// Only updates and acknowledgements with a nonce count, with a MAC or without; of the acknowledgements those that the
// correspondent sends.
func TestUpdatesOf(t *testing.T) {
	const mn, cn = 0xa1, 0xc1
	mac := wire.Seal{Counter: 1}
	list := []packets.Packet{
		message(t, mn, cn, wire.Advertisement, &mac, nil), message(t, cn, mn, wire.Acknowledgement, &mac, nil),
		message(t, cn, mn, wire.Advertisement, nil, nil), message(t, mn, cn, wire.Acknowledgement, nil, nil),
		message(t, cn, mn, wire.Acknowledgement, nil, nil),
		message(t, cn, mn, wire.Acknowledgement, nil, &wire.Proof{Step: wire.ProofAnswer}),
		{Proto: packets.UDP, Nonce: true}, {Proto: packets.ICMPv6, Nonce: true, Data: []byte{128, 0, 0, 0}},
	}
	bare := list[4]
	bare.Nonce = false
	if got, want := updatesOf(append(list, bare), cn), (Updates{Acks: 2, MACs: 2, Plain: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// message is a Locator Update or an acknowledgement with a MAC or a proof, if any, as in a capture.
func message(t *testing.T, from, to roam.NID, op wire.Operation, mac *wire.Seal, proof *wire.Proof) packets.Packet {
	t.Helper()
	src, dst := roam.ILV{NID: from, L64: 1}, roam.ILV{NID: to, L64: 2}
	lu := wire.LocatorUpdate{Operation: op, Locators: []wire.LocatorEntry{{L64: 1, Lifetime: 9}}}
	nonce, err := wire.NewNonce([]byte{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	switch {
	case proof != nil:
		b, err = wire.BuildProof(src, dst, nonce, lu, *proof)
	case mac != nil:
		b, err = wire.BuildSealed(src, dst, nonce, lu, *mac)
	default:
		b, err = wire.BuildUpdate(src, dst, nonce, lu)
	}
	p, ok := packets.Parse(b)
	if err != nil || !ok {
		t.Fatalf("%v, read %t", err, ok)
	}
	return p
}

// The first advertisement of that link counts, at or after the moment.
func TestAdvertised(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	tr := Trace{Adverts: []Advert{{at(1), "net1"}, {at(2), "net2"}, {at(3), "net1"}, {at(4), "net1"}}}
	for _, c := range []struct{ from, want int }{{0, 1}, {1, 1}, {2, 3}, {4, 4}} {
		if got, ok := tr.Advertised("net1", at(c.from)); !ok || !got.Equal(at(c.want)) {
			t.Errorf("from %d: %v, %v", c.from, got, ok)
		}
	}
	if got, ok := tr.Advertised("net2", at(3)); ok || !got.IsZero() {
		t.Errorf("never: %v, %v", got, ok)
	}
}

// The last whole interval before the moment decides, in both directions.
func TestMoved(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	sample := func(s int, out1, out2, in1, in2 uint64) Sample {
		return Sample{At: at(s), Out: map[string]uint64{"net1": out1, "net2": out2},
			In: map[string]uint64{"net1": in1, "net2": in2}}
	}
	tr := Trace{Samples: []Sample{sample(0, 0, 0, 0, 0), sample(1, 100, 0, 100, 0), sample(2, 110, 90, 110, 90),
		sample(3, 121, 179, 110, 190), sample(4, 121, 279, 121, 279)}}
	for before, want := range map[int]bool{0: false, 1: false, 2: true, 3: false, 4: false} {
		if got := tr.Moved("net2", at(before)); got != want {
			t.Errorf("before %d s: %v", before, got)
		}
	}
	if !tr.Moved("net1", at(1)) || tr.Moved("net2", at(0)) {
		t.Error("the first interval does not count, or nothing does")
	}
}

// A step that waits for a cut or for a command to Roam is not late by itself; one that waits for the lab is.
func TestBegunLate(t *testing.T) {
	start := time.Unix(1000, 0)
	for op, want := range map[Op]time.Duration{
		Mark: 2030 * time.Millisecond, Attach: 2030 * time.Millisecond, Alter: 2030 * time.Millisecond,
		Detach: 30 * time.Millisecond, Cut: 30 * time.Millisecond, Swap: 30 * time.Millisecond, Mode: 30 * time.Millisecond,
		Disable: 30 * time.Millisecond, Enable: 30 * time.Millisecond,
	} {
		step := func(op Op, due, at, over time.Duration) Done {
			return Done{Step: Step{Op: op, At: due}, At: start.Add(at), Over: start.Add(over)}
		}
		tr := &Trace{Start: start, Steps: []Done{step(op, 0, 1, 1), step(op, 1*time.Second, 1*time.Second, 4*time.Second),
			step(op, 2*time.Second, 4*time.Second+30*time.Millisecond, 4*time.Second+40*time.Millisecond),
			step(op, 5*time.Second, 5*time.Second+20*time.Millisecond, 6*time.Second)}}
		if d := tr.BegunLate(); d != want {
			t.Errorf("operation %d: late by %v, want %v", op, d, want)
		}
		if d := tr.Behind(); d != 2*time.Second+30*time.Millisecond {
			t.Errorf("behind by %v", d)
		}
	}
}
