package yanagida

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// family is one of the four experiments, with small parameters.
type family struct {
	e       exp.Experiment
	tcp     bool
	duality bool
	p       exp.Params
	plan    plan
	sound   map[string]*outcome
	passes  map[string]*script // with Roam and without fault, by round-trip time and swing
	besides besides
}

// rtts are those of duality.
var rtts = []int{0, 20, 200}

func newFamily(t *testing.T, i int) *family {
	f := &family{e: Experiments[i], tcp: i%2 == 0, duality: i >= 2, sound: map[string]*outcome{},
		passes: map[string]*script{}}
	if f.duality {
		f.p = exptest.Params(t, dualityParams, "standard", "static_s=12")
		f.plan = dualityPlan(f.p)
		for _, rtt := range rtts {
			d := time.Duration(rtt) * ms
			f.sound[fmt.Sprintf("roam%d", rtt)] = f.judged(f.roam(d, 0.04), nil)
			f.sound[fmt.Sprintf("static%d", rtt)] = f.judged(f.static(d), nil)
			if f.tcp {
				f.sound[fmt.Sprintf("mptcp%d", rtt)] = f.judged(f.mptcp(d, 0.12), nil)
			}
		}
		return f
	}
	f.p = exptest.Params(t, mobilityParams, "standard", "static_s=12", "handoffs=3", "period_s=3",
		"overlap_s=1.5", "lead_s=2", "rtt_ms=20", "linger_s=12")
	f.plan = mobilityPlan(f.p)
	f.sound["roam"] = f.judged(f.roam(20*ms, 0), nil)
	f.sound["static"] = f.judged(f.static(20*ms), nil)
	f.sound["plain"] = f.judged(f.plain(), nil)
	if f.tcp {
		f.sound["mptcp"] = f.judged(f.mptcp(20*ms, 0), nil)
	} else {
		f.sound["linger"] = f.judged(f.linger(), nil)
	}
	f.besides = besideRecords(t, nil)
	return f
}

func (f *family) roam(rtt time.Duration, swing float64) *script {
	mode := "soft"
	if f.duality {
		mode = "duality"
	}
	key := fmt.Sprint(rtt, swing)
	if x := f.passes[key]; x != nil {
		return x.clone()
	}
	x := &script{cell: cell{arm: arm.Roam, mode: mode, tcp: f.tcp, rtt: rtt, plan: f.plan}, swing: swing}
	x.run()
	// Within the bounds by little: a pause, an acknowledgement, and updates told again in time.
	x.hold(false, 2500*ms, 100*ms)
	x.later(f.plan.Steps[firstAttach(f.plan)].At+attach+rtt, 9*ms)
	f.passes[key] = x
	return x.clone()
}

func firstAttach(pl plan) int {
	return slices.IndexFunc(pl.Steps, func(s scene.Step) bool { return s.Op == scene.Attach })
}

func (f *family) static(rtt time.Duration) *script {
	x := &script{cell: cell{arm: arm.Static, mode: "soft", tcp: f.tcp, rtt: rtt, plan: still(12 * time.Second)}}
	x.run()
	return x
}

func (f *family) mptcp(rtt time.Duration, swing float64) *script {
	x := f.roam(rtt, swing)
	x.cell.arm, x.s.cell.arm = arm.MPTCP, arm.MPTCP
	return x
}

func (f *family) linger() *script {
	x := &script{cell: cell{arm: arm.Roam, mode: "soft", rtt: 20 * ms, plan: lingerPlan(12 * time.Second)}}
	x.run()
	return x
}

// plain is the control: nothing arrives from its cut to its return.
func (f *family) plain() *script {
	x := &script{cell: cell{arm: arm.Plain, tcp: f.tcp, rtt: 20 * ms, plan: untilBack(f.plan)}}
	x.run()
	x.silence(f.plan.Steps[firstAttach(f.plan)+1].At)
	return x
}

// judged extracts the outcome of a pass.
func (f *family) judged(x *script, alter func(*outcome)) *outcome {
	o := &outcome{RTTMs: x.cell.rtt.Seconds() * 1e3}
	o.reported([2]workload.IperfReport{{Packets: 100}, {Packets: 100}}, [2]error{})
	x.s.judge(o)
	if alter != nil {
		alter(o)
	}
	return o
}

// metrics sets those of all passes, some of them replaced.
func (f *family) metrics(r *result.Result, altered map[string]*outcome, b besides) {
	all := maps.Clone(f.sound)
	maps.Copy(all, altered)
	if f.duality {
		dualityMetrics(r, all, rtts, f.plan, f.tcp)
		return
	}
	mobilityMetrics(r, f.p, all, f.tcp)
	if !f.tcp {
		b.metrics(r)
	}
}

// guarded lists the claims that a metric keeps from being measured.
func (f *family) guarded(t *testing.T, metric string) (ids []string) {
	for _, e := range f.claims(t) {
		if e.Of == "" && slices.ContainsFunc(e.Needs, func(g result.Guard) bool { return g.Metric == metric }) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (f *family) claims(t *testing.T) []result.Expectation {
	list, err := result.ParseExpect(f.e.Expect)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// known keeps those of the claims that the experiment has.
func (f *family) known(t *testing.T, words string) (ids []string) {
	for _, e := range f.claims(t) {
		if slices.Contains(strings.Fields(words), e.ID) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// suite collects the cases of one experiment.
type suite struct {
	t     *testing.T
	f     *family
	cases []exptest.Case
}

// with adds a case in which some passes are others.
func (s *suite) with(name, red string, grey []string, altered map[string]*outcome, b besides) {
	s.cases = append(s.cases, exptest.Case{Name: name, Red: s.f.known(s.t, red), Grey: grey,
		Judge: func(r *result.Result, _ int) { s.f.metrics(r, altered, b) }})
}

// moving plants a fault in the pass with Roam; in duality in that of the least and of the
// greatest round-trip time, one at a time.
func (s *suite) moving(name, red string, fault func(*script), alter func(*outcome)) {
	one := func(key string, rtt time.Duration, swing float64) {
		s.cases = append(s.cases, exptest.Case{Name: name + " " + key, Red: s.f.known(s.t, red),
			Judge: func(r *result.Result, _ int) { // the records of one case at a time fit the memory best
				x := s.f.roam(rtt, swing)
				if fault != nil {
					fault(x)
					x.sort()
				}
				s.f.metrics(r, map[string]*outcome{key: s.f.judged(x, alter)}, s.f.besides)
			}})
	}
	if !s.f.duality {
		one("roam", 20*ms, 0)
		return
	}
	one("roam0", 0, 0.04)
	one("roam200", 200*ms, 0.04)
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRedMobilityTCP(t *testing.T) { seeRed(t, 0) }

func TestEachClaimSeesRedMobilityUDP(t *testing.T) { seeRed(t, 1) }

func TestEachClaimSeesRedDualityTCP(t *testing.T) { seeRed(t, 2) }

func TestEachClaimSeesRedDualityUDP(t *testing.T) { seeRed(t, 3) }

func seeRed(t *testing.T, i int) {
	never := map[string]string{}
	for _, id := range []string{"A7-mobile-ipv6-loss", "A8-mobile-ipv6-gaps"} {
		never[id] = "the column of Mobile IPv6 has not been run"
	}
	s := &suite{t: t, f: newFamily(t, i)}
	s.with("sound", "", nil, nil, s.f.besides)
	s.data()
	s.signals()
	s.guards()
	if s.f.duality {
		s.duality()
	} else {
		s.mobility()
	}
	exptest.Claims(t, Experiments[i], never, s.cases...)
}

// data are the faults of the traffic.
func (s *suite) data() {
	lost, at := "A5-no-loss A10-no-loss A11-nothing-lost", 2600*ms
	end := s.f.plan.Length
	s.moving("iperf3 fails", "A14-sessions-alive", nil, func(o *outcome) {
		o.reported([2]workload.IperfReport{}, [2]error{nil, errors.New("reset")})
	})
	for inward, way := range map[bool]string{false: "out", true: "in"} {
		s.moving("one lost "+way, lost, func(x *script) { x.lose(inward, at+200*ms) }, nil)
		s.moving("a queue drops one "+way, "", func(x *script) { x.spill(inward, at+200*ms) }, nil)
		s.moving("a queue drops one of two "+way, lost, func(x *script) {
			x.spill(inward, at+200*ms)
			x.lose(inward, at+400*ms)
		}, nil)
		s.moving("one lost at the end "+way, lost, func(x *script) { x.lose(inward, end-x.cell.rtt-510*ms) }, nil)
		s.moving("a pause "+way, "A5-gaps A4-no-gap", func(x *script) { x.hold(inward, 5300*ms, 115*ms) }, nil)
		key := map[bool]string{false: "roam", true: "roam20"}[s.f.duality]
		s.cases = append(s.cases, exptest.Case{Name: "a pause to beyond the end " + way,
			Red: s.f.known(s.t, "A5-gaps A4-no-gap"), Judge: func(r *result.Result, _ int) {
				x := s.f.roam(20*ms, map[bool]float64{true: 0.04}[s.f.duality])
				x.hold(inward, end-125*ms, 125*ms+x.cell.rtt)
				s.f.metrics(r, map[string]*outcome{key: s.f.judged(x, nil)}, s.f.besides)
			}})
		few := int(end/every/1000) + 1
		misordered := "misorder A11-no-misorder A10-misorder"
		s.moving("overtaken "+way, misordered, func(x *script) { x.overtake(inward, 200*ms, few) }, nil)
		if s.f.tcp {
			s.moving("retransmitted "+way, "A11-nothing-sent-again", func(x *script) { x.resend(inward, 200*ms, few) }, nil)
		} else {
			s.moving("iperf3 lacks one "+way, lost, nil, func(o *outcome) {
				r := [2]workload.IperfReport{}
				r[map[bool]int{true: 1}[inward]].LostPackets = 1
				o.reported(r, [2]error{})
			})
			overflow := func(red string, lacks int) {
				s.moving(fmt.Sprintf("a full buffer drops one of %d %s", lacks, way), red, nil, func(o *outcome) {
					w := o.ways()[map[bool]int{true: 1}[inward]]
					w.AppLost, w.Overflows = lacks, 1
				})
			}
			overflow("", 1)
			overflow(lost, 2)
			s.moving("a full buffer of the other way "+way, lost, nil, func(o *outcome) {
				o.ways()[map[bool]int{true: 1}[inward]].AppLost = 1
				o.ways()[map[bool]int{false: 1}[inward]].Overflows = 1
			})
			s.moving("a full buffer dropped none that were lost before "+way, lost, func(x *script) {
				x.lose(inward, at+200*ms)
			}, func(o *outcome) { o.ways()[map[bool]int{true: 1}[inward]].Overflows = 1 })
		}
	}
	for name, more := range map[string]int{"A6-steady": 28, "A9-mean": 6, "A10-throughput": 3} {
		if len(s.f.known(s.t, name)) == 0 {
			continue
		}
		for _, sign := range []int{-1, 1} {
			key, rtt, swing := "roam", 20*ms, 0.0
			if s.f.duality {
				key, rtt, swing = "roam20", 20*ms, 0.04
			}
			x := s.f.roam(rtt, swing)
			for _, list := range []*[]packets.Packet{&x.s.mn, &x.s.cn} {
				for i := range *list {
					(*list)[i].Length += sign * more
				}
			}
			s.with(fmt.Sprintf("longer by %d", sign*more), name, nil, map[string]*outcome{key: s.f.judged(x, nil)}, s.f.besides)
		}
	}
	s.moving("another source", "A17-source-and-link-agree", func(x *script) {
		p := x.packet(at, "net1", "net2", 0, false)
		p.Payload = 0
		x.s.mn = append(x.s.mn, p)
	}, nil)
}

// signals are the faults of Locator Updates.
func (s *suite) signals() {
	st := s.f.plan.Steps[firstAttach(s.f.plan)]
	set := []string{"net2", "net1"}
	s.moving("data before the update", "A2-lu-before-data", func(x *script) {
		p := x.packet(st.At+attach-ms, "net2", "net2", 0, false)
		p.SrcPort, p.DstPort = 1, 1 // of another flow
		x.s.mn = append(x.s.mn, p)
	}, nil)
	s.moving("an update told twice", "A1-two-messages", func(x *script) {
		at := st.At + attach + ms/2 // before the acknowledgement
		if x.cell.rtt == 0 {
			at -= ms
		}
		x.s.mn = append(x.s.mn, x.message(at, "net2", "net2", false, set...))
	}, nil)
	s.moving("a late acknowledgement", "A1-one-round-trip", func(x *script) {
		x.later(st.At+attach+x.cell.rtt+9*ms, 2*ms)
	}, nil)
	s.moving("a set that none had", "A1-one-exchange-per-change A16-no-handoff-but-scripted", func(x *script) {
		x.signal(st.At+400*ms, "net1", "net1", "net3")
		x.signal(st.At+800*ms, "net2", set...)
	}, nil)
	s.moving("renewed early", "no-early-refresh", func(x *script) { x.signal(st.At+attach+1200*ms, "net2", set...) }, nil)
	s.moving("told again", "no-repeats", func(x *script) { x.signal(st.At+attach+900*ms, "net2", set...) }, nil)
}

// guards are the runs that decide nothing.
func (s *suite) guards() {
	key := map[bool]string{false: "roam", true: "roam20"}[s.f.duality]
	other := func(name, metric string, alter func(*outcome)) {
		o := *s.f.sound[key]
		alter(&o)
		s.with(name, "", s.f.guarded(s.t, metric), map[string]*outcome{key: &o}, s.f.besides)
	}
	for _, why := range []string{"queue", "loss", "refused"} {
		other("emulator "+why, "emulator_drops", func(o *outcome) { o.Drops = map[string]uint64{why: 1} })
	}
	other("capture", "capture_dropped", func(o *outcome) { o.CaptureDropped = 1 })
	still := map[string]*outcome{}
	for name, o := range s.f.sound {
		if strings.HasPrefix(name, "roam") {
			none := *o
			none.NewLocators, none.BeforeAck = 0, 0
			still[name] = &none
		}
	}
	s.with("no new locator", "", s.f.known(s.t, "A2-lu-before-data A3-no-wait-for-ack"), still, s.f.besides)
}

// mobility are the faults that only mobility can have.
func (s *suite) mobility() {
	f := s.f
	x := f.plain()
	away := f.plan.Steps[firstAttach(f.plan)+1].At + 200*ms
	x.s.cn = append(x.s.cn, x.packet(away, "eth0", "net1", 1, false))
	x.sort()
	s.with("plain delivers out", "plain-ipv6-fails", nil, map[string]*outcome{"plain": f.judged(x, nil)}, f.besides)
	x = f.plain()
	x.s.mn = append(x.s.mn, x.packet(away, "net2", "net2", 1, true))
	x.sort()
	s.with("plain delivers in", "plain-ipv6-fails", nil, map[string]*outcome{"plain": f.judged(x, nil)}, f.besides)
	x = f.plain()
	x.s.trace.Steps = nil
	s.with("plain is never away", "", []string{"plain-ipv6-fails"}, map[string]*outcome{"plain": f.judged(x, nil)},
		f.besides)
	if f.tcp {
		s.deadMPTCP("mptcp", 20*ms)
		s.with("no MPTCP", "", []string{"mptcp-alive"}, map[string]*outcome{"mptcp": nil}, f.besides)
		return
	}
	x = f.linger()
	x.signal(5*time.Second, "net1", "net1", "net2")
	x.sort()
	s.with("bounces", "A16-no-ping-pong", nil, map[string]*outcome{"linger": f.judged(x, nil)}, f.besides)
	s.besides()
}

// deadMPTCP is an arm whose data end before its schedule does.
func (s *suite) deadMPTCP(key string, rtt time.Duration) {
	x := s.f.mptcp(rtt, 0.12)
	x.silence(s.f.plan.Length - 1400*ms)
	s.with("MPTCP dies", "mptcp-alive", nil, map[string]*outcome{key: s.f.judged(x, nil)}, s.f.besides)
}

// besideRecords are the captures beside Roam: 1,000 packets, and one more in the red.
func besideRecords(t *testing.T, alter func(left, right *[]packets.Packet)) (b besides) {
	one, other := addr(l1, "mn").Addr(), addr(lc, "cn2").Addr()
	var left, right []packets.Packet
	for i := range 1000 {
		raw := make([]byte, 60)
		raw[6], raw[7], raw[50] = packets.UDP, 64, byte(i)
		p := packets.Packet{Src: one, Dst: other, Proto: packets.UDP, Raw: raw}
		left = append(left, p)
		p.Raw = slices.Clone(raw)
		p.Raw[7], p.Raw[46], p.Raw[47] = 62, 1, 2 // hop limit and checksum
		right = append(right, p)
	}
	if alter != nil {
		alter(&left, &right)
	}
	b.compare(left, right)
	b.foreign(left, one, other)
	flow := exptest.UDP(t, time.Second, 10*ms, ms, nil)
	b.ended(nil, flow, flow)
	return b
}

// besides are the faults of the traffic beside Roam.
func (s *suite) besides() {
	put := func(name, red string, grey []string, b besides) { s.with(name, red, grey, nil, b) }
	changed := "A26-plain-ipv6-untouched"
	put("a byte is another", changed, nil, besideRecords(s.t, func(_, right *[]packets.Packet) { (*right)[3].Raw[55]++ }))
	put("an option", changed, nil, besideRecords(s.t, func(left, right *[]packets.Packet) {
		(*left)[3].Raw[6], (*right)[3].Raw[6] = 60, 60
	}))
	put("another address", changed, nil, besideRecords(s.t, func(left, _ *[]packets.Packet) {
		(*left)[9].Dst = addr(l2, "cn2").Addr()
	}))
	put("another source", changed, nil, besideRecords(s.t, func(left, _ *[]packets.Packet) {
		(*left)[9].Src = addr(l2, "mn").Addr()
	}))
	put("missing", changed, nil, besideRecords(s.t, func(left, _ *[]packets.Packet) { *left = append(*left, (*left)[0]) }))
	put("few packets", "", []string{changed}, besideRecords(s.t, func(left, right *[]packets.Packet) {
		*left, *right = (*left)[1:], (*right)[1:]
	}))
	b := besideRecords(s.t, nil)
	b.Dropped = 1
	put("the capture drops", "", []string{changed}, b)
	flow := exptest.UDP(s.t, time.Second, 10*ms, ms, nil)
	lossy := exptest.UDP(s.t, time.Second, 10*ms, ms, func(d *exptest.Datagram) { d.Lost = d.At == 500*ms })
	for name, flows := range map[string][2]*udpflow.Flow{"out": {lossy, flow}, "in": {flow, lossy}} {
		b = besideRecords(s.t, nil)
		b.ended(nil, flows[0], flows[1])
		put("loses one "+name, "A26-plain-ipv6-whole", nil, b)
	}
	b = besideRecords(s.t, nil)
	b.ended(errors.New("message 3 is not whole"), flow, flow)
	put("content is wrong", "A26-plain-ipv6-right", nil, b)
}
