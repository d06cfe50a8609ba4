package yanagida

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"roam"
	"roam/lab/arm"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
)

var origin = time.Unix(1000, 0)

func after(ms int) time.Time { return origin.Add(time.Duration(ms) * time.Millisecond) }

const (
	l1 = roam.L64(0x20010db8_00010000)
	l2 = roam.L64(0x20010db8_00020000)
	lc = roam.L64(0x20010db8_00c10000)
)

func addr(l roam.L64, host string) (v roam.ILV) { return roam.ILV{L64: l, NID: scene.NID(host)} }

// out is a datagram of the mobile host, as captured there.
func out(ms int, where string, from roam.L64, n uint32) packets.Packet {
	return packets.Packet{At: after(ms), Where: where, Src: addr(from, "mn").Addr(), Dst: addr(lc, "cn1").Addr(),
		Proto: packets.UDP, DstPort: portOut,
		Payload: 1250, Length: 1258, Data: binary.BigEndian.AppendUint32(make([]byte, numberAt), n)}
}

// in is a datagram to the mobile host.
func in(ms int, where string, to roam.L64, n uint32) packets.Packet {
	p := out(ms, where, to, n)
	p.Src, p.Dst = p.Dst, p.Src
	p.SrcPort, p.DstPort = portIn, 0
	return p
}

// update is a Locator Update, or its acknowledgement.
func update(ms int, where string, ack bool, set ...roam.L64) packets.Packet {
	p := out(ms, where, map[string]roam.L64{"net1": l1, "net2": l2}[where], 0)
	p.Proto, p.Payload = packets.ICMPv6, 0
	op := byte(1)
	if ack {
		p.Src, p.Dst, op = p.Dst, p.Src, 2
	}
	p.Data = []byte{156, 0, 0, 0, byte(len(set)), op, 0, 0}
	for _, l := range set {
		p.Data = binary.BigEndian.AppendUint64(p.Data, uint64(l))
		p.Data = append(p.Data, 0, 10, 0, 9)
	}
	return p
}

// synthetic is a pass with two links in duality: the second is used from 1 s on and
// withdrawn at 3 s. The caller adds its faults.
func synthetic(extra ...packets.Packet) *seen {
	var mn, cn []packets.Packet
	number := uint32(0)
	for ms := 0; ms < 5000; ms++ {
		where, from := "net1", l1
		if ms >= 1002 && ms < 3000 && ms%2 == 1 {
			where, from = "net2", l2
		}
		mn = append(mn, out(ms, where, from, number), in(ms, where, from, number))
		cn = append(cn, out(ms+1, "eth0", from, number), in(ms-1, "eth0", from, number))
		number++
	}
	mn = packets.Merge(mn, []packets.Packet{
		update(1001, "net2", false, l1, l2), update(1020, "net2", true, l1, l2),
		update(3000, "net1", false, l1), update(3001, "net1", true, l1),
	}, extra)
	step := func(at time.Duration, op scene.Op, link string) scene.Done {
		return scene.Done{Step: scene.Step{At: at, Op: op, Link: link, Name: link}, At: origin.Add(at)}
	}
	pl := plan{changes: 2, phases: []phase{{0, time.Second, links[:1], ""}, {time.Second, 3 * time.Second, links[:2],
		"net2"}, {3 * time.Second, 5 * time.Second, links[:1], ""}}}
	return &seen{
		cell:   cell{arm: arm.Roam, plan: pl},
		prefix: map[string]string{"2001:db8:1::": "net1", "2001:db8:2::": "net2"},
		trace: &scene.Trace{
			Start: origin,
			End:   after(5000),
			Steps: []scene.Done{step(time.Second, scene.Attach, "net2"), step(3*time.Second, scene.Disable, "net2")},
		},
		mn: mn, cn: cn,
	}
}

func TestJudgeOfAPassWithoutFault(t *testing.T) {
	var o outcome
	synthetic().judge(&o)
	if n := o.updates(); n != (told{changes: 2, messages: 4}) {
		t.Errorf("updates %+v", o.Exchanges)
	}
	if o.NewLocators != 1 || o.BeforeAck != 1 || len(o.BeforeLU) != 0 || o.AfterRemoval != 0 || o.WrongSource != 0 {
		t.Errorf("%+v", o)
	}
	for i, w := range o.ways() {
		if w.Lost != 0 || w.Misorders != 0 || math.Abs(w.Mbps-1258*8e-3) > 0.01 || len(w.LongGapsMs) != 0 {
			t.Errorf("way %d: lost %d, misordered %d, %g Mb/s, gaps %v", i, w.Lost, w.Misorders, w.Mbps, w.LongGapsMs)
		}
		if s := w.Shares[1]; math.Abs(s["net1"]-50) > 0.2 || math.Abs(s["net2"]-50) > 0.2 {
			t.Errorf("way %d: shares %v", i, s)
		}
	}
	r := result.New("")
	splits(r, &o, synthetic().cell.plan)
	if r.Metrics["split_error_points"] > 0.2 {
		t.Errorf("split off by %g", r.Metrics["split_error_points"])
	}
}

func TestJudgeSeesFaults(t *testing.T) {
	for name, c := range map[string]struct {
		extra packets.Packet
		seen  func(outcome) bool
	}{
		"data before the step":  {out(999, "net2", l2, 1), func(o outcome) bool { return len(o.BeforeLU) == 0 }},
		"data between the two":  {out(1000, "net2", l2, 1), func(o outcome) bool { return len(o.BeforeLU) == 1 }},
		"on a link not its own": {out(2000, "net1", l2, 1), func(o outcome) bool { return o.WrongSource == 1 }},
		"after a removal": {in(3500, "net2", l2, 1), func(o outcome) bool {
			return o.AfterRemoval == 1 && o.AfterRemovalMs > 498
		}},
		"an update that none had": {update(4000, "net1", false, l1, l2), func(o outcome) bool {
			return o.updates().changes == 3
		}},
	} {
		var o outcome
		synthetic(c.extra).judge(&o)
		if !c.seen(o) {
			t.Errorf("%s: %+v", name, o.Exchanges)
		}
	}
}

func TestControlIsJudgedWhileAway(t *testing.T) {
	s := synthetic()
	s.cell.arm = arm.Plain
	step := func(at int, op scene.Op) scene.Done {
		return scene.Done{Step: scene.Step{Op: op, Link: "net1"}, At: after(at)}
	}
	s.trace.Steps = []scene.Done{step(1000, scene.Detach), step(2000, scene.Attach)}
	var o outcome
	s.judge(&o)
	if o.Away == 0 || o.AwayS != 0.95 {
		t.Errorf("%d bytes in %g s", o.Away, o.AwayS)
	}
}

func TestClaimsAreOfMetricsThatExist(t *testing.T) {
	r := result.New("")
	var o, static outcome
	synthetic().judge(&o)
	static = o
	common(r, &o, &static, false)
	common(r, &o, &static, true)
	splits(r, &o, synthetic().cell.plan)
	compare(r, &o, &o)
	mip6(r)
	known := func(m string) bool {
		_, a := r.Metrics[m]
		_, b := r.Unmeasured[m]
		return a || b
	}
	later := map[string]bool{"handoffs_unscripted": true, "plain_delivered_away_bytes": true,
		"linger_handoffs": true, "beside_changed": true,
		"beside_lost": true, "beside_content_right": true, "mptcp_deviation_ratio": true, "new_locators_waited_rtt200": true}
	for _, e := range Experiments {
		claims, err := result.ParseExpect(e.Expect)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims {
			if !known(c.Metric) && !later[c.Metric] && c.Of == "" {
				t.Errorf("%s: claim %s is about %s, which nobody sets", e.Name, c.ID, c.Metric)
			}
		}
	}
}

// The first and the last bucket do not count, unless there is little else.
func TestInner(t *testing.T) {
	for n, want := range map[int]int{3: 3, 4: 2, 12: 10} {
		if got := len(inner(make([]float64, n))); got != want {
			t.Errorf("%d buckets of %d, want %d", got, n, want)
		}
	}
}

// The control ends when its network has been back for a second, wherever others go meanwhile.
func TestUntilBack(t *testing.T) {
	var pl plan
	pl.Soft(2*time.Second, 3, 5*time.Second, 2*time.Second, links...)
	pl.Length = time.Minute
	if got := untilBack(pl); got.Length != 13*time.Second || len(got.Steps) != 5 {
		t.Errorf("%d steps in %v", len(got.Steps), got.Length)
	}
	pl.Steps = pl.Steps[:4]
	if got := untilBack(pl); got.Length != time.Minute || len(got.Steps) != 4 {
		t.Errorf("never back: %d steps in %v", len(got.Steps), got.Length)
	}
}

func TestKindOfAnUpdate(t *testing.T) {
	for e, want := range map[exchange]string{
		{}: "change", {Refresh: true}: "refresh", {Refresh: true, Early: true}: "refresh",
		{Refresh: true, Repeat: true}: "repeat",
	} {
		if e.kind() != want {
			t.Errorf("%+v is a %s, want %s", e, e.kind(), want)
		}
	}
}

func TestUpdatesAreCountedByKind(t *testing.T) {
	o := outcome{Exchanges: []exchange{
		{Messages: 2, Acks: 1}, {Refresh: true}, {Refresh: true, Early: true}, {Refresh: true, Repeat: true},
	}}
	if n := o.updates(); n != (told{changes: 1, messages: 3, refreshes: 2, repeats: 1, early: 1}) {
		t.Errorf("%+v", n)
	}
}
