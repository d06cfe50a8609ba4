package phoomikiattisak

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
)

// book collects the cases.
type book struct {
	t     *testing.T
	env   *exp.Env
	runs  map[string]outcome
	udps  []udpOutcome
	extra *extras
	cases []exptest.Case
}

var scenarios = slices.Sorted(maps.Keys(paths))
var kinds, variants = []string{soft, hard, cut}, []string{"cubic", "hybla", "veno"}

func newBook(t *testing.T) *book {
	b := &book{t: t, runs: map[string]outcome{}}
	p := exptest.Params(t, Experiment.Params, "standard", "window_kbytes=14", "udp_mbps=0.8")
	b.env = &exp.Env{Params: p, View: live.New(&strings.Builder{})}
	for _, s := range scenarios {
		for _, k := range kinds {
			for _, v := range variants {
				b.runs[s+k+v] = b.sound(s, k, v).outcome(t)
			}
		}
		b.udps = append(b.udps, b.udp(s, nil, nil))
	}
	b.extra = b.extras()
	return b
}

// sound is a flow without fault: under Veno half of the cells carry a segment less.
func (b *book) sound(s, k, v string) *script {
	x := newScript(b.env, s, k, v)
	if v == "veno" && (k == soft || k == hard && s < "lan-z") {
		x.short = 1
	}
	return x
}

// matrix is a result with other runs in place of some.
func (b *book) matrix(r *result.Result, runs map[string]outcome, udps []udpOutcome, extra *extras) *matrix {
	env := &exp.Env{Params: b.env.Params, View: b.env.View, Result: r}
	m := &matrix{env: env, scenarios: scenarios, kinds: kinds, variants: variants, udps: udps, extra: extra}
	for _, s := range scenarios {
		for _, k := range kinds {
			for _, v := range variants {
				o, other := runs[s+k+v]
				if !other {
					o = b.runs[s+k+v]
				}
				m.runs = append(m.runs, o)
			}
		}
	}
	return m
}

func (b *book) put(name, red, grey string, runs map[string]outcome, udps []udpOutcome, extra *extras) {
	b.cases = append(b.cases, exptest.Case{Name: name, Red: strings.Fields(red), Grey: strings.Fields(grey),
		Judge: func(r *result.Result, _ int) { b.matrix(r, runs, udps, extra).metrics() }})
}

// flows plants a fault in the flows that match, all at once.
func (b *book) flows(name, red, grey string, match func(s, k, v string) bool, alter func(*script)) {
	runs := map[string]outcome{}
	for _, s := range scenarios {
		for _, k := range kinds {
			for _, v := range variants {
				if match(s, k, v) {
					x := b.sound(s, k, v)
					alter(x)
					runs[s+k+v] = x.outcome(b.t)
				}
			}
		}
	}
	b.put(name, red, grey, runs, b.udps, b.extra)
}

// one plants a fault in a flow of each kind that is named, under the first and the last
// congestion control, one at a time.
func (b *book) one(name, red, grey, kind, scenario string, alter func(*script)) {
	for _, variant := range []string{"cubic", "veno"} {
		b.flows(fmt.Sprintf("%s %s %s %s", name, kind, scenario, variant), red, grey,
			func(s, k, v string) bool { return s == scenario && k == kind && v == variant }, alter)
	}
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	b := newBook(t)
	b.put("sound", "", "", nil, b.udps, b.extra)
	b.alive()
	b.gaps()
	b.losses()
	b.volumes()
	b.guards()
	b.udpFaults()
	b.beyondFaults()
	never := map[string]string{}
	for _, id := range []string{"A5-mip6", "A9-mip6", "A16-mip6", "A18-mip6"} {
		never[id] = whyNoMIP6
	}
	exptest.Claims(t, Experiment, never, b.cases...)
}

// alive are the faults of a whole flow.
func (b *book) alive() {
	for _, k := range kinds {
		b.one("fails", "A1-unmodified", "", k, "lan-lan", func(x *script) { x.failure = errFlow })
		b.one("begins anew", "A2-one-connection", "", k, "wan-wan", func(x *script) { x.syns = 1 })
		b.one("another control", "cc", "", k, "lan-wan", func(x *script) { x.algorithm = "reno" })
		b.one("told again", "updates", "", k, "lan-wan", func(x *script) { x.updates = 1 })
		b.one("a smaller segment", "A25-mss", "", k, "lan-wan", func(x *script) { x.mss = 1420 })
	}
	for _, s := range scenarios {
		id := "A8-delay-" + s
		b.flows("late acknowledgements "+s, id, "", func(of, _, v string) bool { return of == s && v != "veno" },
			func(x *script) { x.delay = 1.3 })
		b.flows("no acknowledgement "+s, id, "", func(of, _, v string) bool { return of == s && v != "veno" },
			func(x *script) { x.delay = -1 })
		b.flows("no update "+s, id+" updates", "", func(of, _, v string) bool { return of == s && v != "veno" },
			func(x *script) { x.mute = true })
	}
}

// gaps are the faults of time.
func (b *book) gaps() {
	for _, s := range scenarios {
		b.one("a gap", "soft-gap-"+s, "", soft, s, func(x *script) { x.hold += 16 * ms })
		b.one("a gap when the link goes", "soft-gap-"+s, "", soft, s, func(x *script) {
			x.hole = [2]time.Duration{leaves + 100*ms, leaves + 100*ms + x.hold + 16*ms}
		})
		for name, at := range map[string]time.Duration{
			"before the link goes": moves + 1300*ms, "long after": leaves + 1500*ms,
		} {
			for k, red := range map[string]string{soft: "soft-gap-" + s, hard: "hard-rtt"} {
				b.one("a gap "+name, red, "", k, s, func(x *script) {
					x.hole = [2]time.Duration{at, at + x.hold + 16*ms}
				})
			}
		}
		b.one("a gap long after", "cut-rtt", "", cut, s, func(x *script) {
			at := leaves + 1500*ms
			x.hole = [2]time.Duration{at, at + x.hold - (moves - planned) + 16*ms}
		})
		b.one("a daemon that takes its time", "cut-rtt", "", cut, s, func(x *script) { x.says, x.hold = 16*ms, x.hold+16*ms })
		b.one("a gap", "hard-rtt", "", hard, s, func(x *script) { x.hold += 16 * ms })
		b.one("a gap", "cut-rtt", "", cut, s, func(x *script) { x.hold += 16 * ms })
		for _, k := range []string{hard, cut} {
			b.one("a short time-out", k+"-rto", "", k, s, func(x *script) {
				x.rto = float64((x.rtt(paths[s][1])*15/10)/ms) - 16
				if x.rto <= 0 {
					x.rto = 0.1
					x.hold += map[string]time.Duration{hard: 5 * ms, cut: 6 * ms}[k]
				}
			})
			b.one("no time-out known", "", k+"-rto", k, s, func(x *script) { x.rto = 0 })
		}
	}
	b.one("a long gap", "A4-gap-lan soft-gap-lan-lan", "", soft, "lan-lan", func(x *script) { x.hold = 110 * ms })
	b.one("a long gap", "A4-gap-wan soft-gap-wan-wan", "", soft, "wan-wan", func(x *script) { x.hold = 520 * ms })
	b.one("an empty second", "A4-no-second-without-data", "", soft, "lan-lan", func(x *script) {
		x.hole = [2]time.Duration{3996 * ms, 5011 * ms}
	})
}

// losses are the faults of single segments.
func (b *book) losses() {
	b.one("one lost", "A10-soft-loss", "", soft, "wan-wan", func(x *script) { x.lost, x.again = 1, 4 })
	b.one("one lost", "A11-hard-loss", "", hard, "wan-wan", func(x *script) { x.lost = 1 })
	b.flows("many lost", "A11-cut-loss", "", func(_, k, v string) bool { return k == cut && v != "veno" },
		func(x *script) { x.lost = 21 })
	softly := func(s, k, _ string) bool { return k == soft && !paths[s][1] }
	b.flows("a fifth is lost", "A10-soft-loss A12-soft A15-in-vain", "", softly,
		func(x *script) { x.lost, x.again = 3, 8 })
	b.flows("retransmitted in vain", "A12-cut", "", func(_, k, _ string) bool { return k == cut },
		func(x *script) { x.again = 6 })
	b.one("more than by a cut", "A13-fewest", "", cut, "lan-lan", func(x *script) { x.lost, x.again = 11, 0 })
	b.flows("retransmissions", "A14-wan-wan", "", func(s, k, v string) bool {
		return s == "wan-wan" && k == soft && v != "hybla"
	}, func(x *script) { x.again = 6 })
	b.one("nothing late", "A15-misorder", "", soft, "lan-lan", func(x *script) { x.late = 0 })
	b.flows("few came twice", "A15-in-vain", "", softly, func(x *script) { x.again, x.merged = 6, 3 })
	crossing := func(_, k, _ string) bool { return k == soft }
	b.flows("few retransmissions", "", "A12-soft A15-in-vain", crossing, func(x *script) { x.again, x.merged = 3, 0 })
	b.flows("few retransmissions of cuts", "A13-fewest", "A12-cut", func(_, k, _ string) bool { return k == cut },
		func(x *script) { x.lost, x.again = 10, 0 })
}

// volumes are the faults of rates and of the data that got through.
func (b *book) volumes() {
	b.flows("a slow near network", "A20-lan", "", func(s, _, v string) bool { return !paths[s][0] && v != "hybla" },
		func(x *script) { x.thin = 20 })
	for _, variant := range variants[1:] {
		b.flows("a fast far network", "A20-wan", "", func(s, k, v string) bool {
			return k == hard && s == "wan-lan" && v == variant
		}, func(x *script) { x.dense = true })
		b.flows("less than over a far network", "A17-lan-lan", "", func(s, k, v string) bool {
			return k == hard && s == "lan-lan" && v == variant
		}, func(x *script) { x.thin = 2 })
	}
	for _, s := range []string{"wan-lan", "wan-wan"} {
		b.flows("Hybla carries less "+s, "A21-"+strings.ToLower(s), "", func(of, k, v string) bool {
			return of == s && k == hard && v == "hybla"
		}, func(x *script) { x.short = 2 })
	}
	b.flows("Veno carries as much", "A22-data", "", func(s, k, v string) bool {
		return v == "veno" && k == hard && s == "lan-wan"
	}, func(x *script) { x.short = 0 })
	b.flows("Veno retransmits more", "A22-retransmissions", "", func(s, k, v string) bool {
		return v == "veno" && (k == hard || k == cut && s != "lan-lan")
	}, func(x *script) { x.again++ })
	b.flows("one control carries less", "A23-spread", "", func(s, k, v string) bool {
		return v == "hybla" && k == soft && s == "lan-lan"
	}, func(x *script) { x.thin = 8 })
}

// guards are the runs that decide nothing about some claims.
func (b *book) guards() {
	var drops, queue, window []string
	list, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range list {
		for _, g := range e.Needs {
			switch g.Metric {
			case "capture_drops":
				drops = append(drops, e.ID)
			case "queue_drops":
				queue = append(queue, e.ID)
			case "window_kbytes":
				window = append(window, e.ID)
			}
		}
	}
	b.one("the capture drops", "", strings.Join(drops, " "), hard, "lan-lan", func(x *script) { x.dropped = 1 })
	for _, why := range []string{"queue", "refused"} {
		b.one("the emulator drops", "", strings.Join(queue, " "), hard, "lan-lan", func(x *script) { x.drops = why })
	}
	b.one("a greater window", "", strings.Join(window, " "), hard, "lan-lan", func(x *script) { x.window = true })
}

// udp are the records of a UDP flow.
func (b *book) udp(scenario string, up, down func(*exptest.Datagram), queued ...uint64) udpOutcome {
	length := b.env.Params.Seconds("udp_s") + 500*ms
	t := &scene.Trace{Start: exptest.Origin, End: exptest.At(length)}
	o := udpOutcome{Scenario: scenario}
	queues := scene.NewLosses(udpPort)
	for _, seq := range queued {
		queues.Add(0, seq)
	}
	o.judge(b.env, t, exptest.UDP(b.t, length, 5*ms, 10*ms, up), exptest.UDP(b.t, length, 10*ms, 10*ms, down), queues)
	return o
}

// udpFaults are those of the UDP flows, in the first and in the last of them.
func (b *book) udpFaults() {
	for _, i := range []int{0, len(scenarios) - 1} {
		with := func(name, red, grey string, up, down func(*exptest.Datagram), queued ...uint64) {
			udps := slices.Clone(b.udps)
			udps[i] = b.udp(scenarios[i], up, down, queued...)
			b.put(name+" "+scenarios[i], red, grey, nil, udps, b.extra)
		}
		one := func(d *exptest.Datagram) { d.Lost = d.At == 5*time.Second }
		with("one lost out", "A24-udp-loss", "", one, nil)
		with("one lost in", "A24-udp-loss", "", nil, one)
		with("one lost in the first second", "", "", func(d *exptest.Datagram) { d.Lost = d.At == 900*ms }, nil)
		with("one lost after the first second", "A24-udp-loss", "", func(d *exptest.Datagram) {
			d.Lost = d.At == time.Second
		}, nil)
		with("the rate drops a little", "", "", nil, slower(5*time.Second+20*ms))
		with("the rate drops", "A24-udp-rate", "", nil, slower(5*time.Second+40*ms))
		full := func(d *exptest.Datagram) { d.Dropped = d.At == 5*time.Second }
		with("a socket drops one", "", "", nil, full)
		with("a socket drops one of two", "A24-udp-loss", "", one, full)
		with("a queue drops one", "", "", one, nil, 1000)
		with("a queue drops another", "A24-udp-loss", "", one, nil, 1001)
	}
}

// slower lets the datagrams from five seconds on wait in a queue up to a moment, and those
// after it as long.
func slower(to time.Duration) func(*exptest.Datagram) {
	return func(d *exptest.Datagram) {
		if d.At >= 5*time.Second {
			d.Delay += to - 5*time.Second
		}
	}
}

// extras are the records beyond the paper.
func (b *book) extras() *extras {
	x := &extras{Load: map[string]loadOutcome{}, Priority: map[string]priorityOutcome{},
		Prefer: map[string]preferOutcome{}}
	for _, name := range []string{"limited", "deep", "lasting"} {
		x.Load[name] = loadOutcome{Handoffs: b.load().moves(exptest.At(9 * time.Second))}
	}
	x.Priority["on"], x.Priority["off"] = b.priority(14*ms), b.priority(30*ms)
	x.Prefer["on"], x.Prefer["off"] = b.prefer(nil), b.prefer(nil)
	x.Sums = sums(1000, 2, nil)
	return x
}

// load are the records of a host whose packets leave from one locator within the flow, or from
// another one after each of some moments. Its daemon says otherwise.
func (b *book) load(moves ...time.Duration) *pass {
	t := &pass{Trace: &scene.Trace{Start: exptest.Origin, End: exptest.At(9 * time.Second),
		Events: map[string][]node.Event{"mn": {{Time: exptest.At(2 * time.Second), Kind: "handoff-started"}}}}}
	moves = append([]time.Duration{-time.Second}, append(moves, 10*time.Second)...)
	for at := -2 * time.Second; at < 11*time.Second; at += 10 * ms {
		net := roam.L64(1)
		for _, m := range moves {
			if at >= m {
				net = 3 - net
			}
		}
		t.mobile = append(t.mobile, packets.Packet{At: exptest.At(at), Proto: packets.TCP, SrcPort: 40_000, DstPort: port,
			Src: roam.ILV{L64: net, NID: scene.NID("mn")}.Addr(), Dst: roam.ILV{L64: 9, NID: scene.NID("cn1")}.Addr()})
	}
	return t
}

// priority is an exchange that takes so long when the uplink is full; no acknowledgement comes if that is negative.
func (b *book) priority(took time.Duration) (o priorityOutcome) {
	p := &pass{Trace: (&script{kind: soft}).trace(9 * time.Second), mobile: []packets.Packet{
		message(planned+ms, false, 2, 1), message(planned+6*ms, true, 2, 1), message(leaves+ms, false, 2)}}
	if took >= 0 {
		p.mobile = append(p.mobile, message(leaves+ms+took, true, 2))
	}
	o.judge(p)
	return o
}

// prefer is a flow that stays on the near network.
func (b *book) prefer(alter func(*script), handoffs ...time.Duration) (o preferOutcome) {
	s := newScript(b.env, "lan-wan", hard, "cubic")
	if alter != nil {
		alter(s)
	}
	p := s.pass(b.t)
	p.mobile = packets.Merge(p.mobile, b.load(handoffs...).mobile)
	o.judge(p, 9*time.Second)
	return o
}

// sums are packets whose checksums are right, from the correspondent.
func sums(segments, updates int, alter func(i int, p *packets.Packet)) (o sumsOutcome) {
	var list []packets.Packet
	for i := range segments + updates {
		body := make([]byte, 32)
		next, at, locators := uint8(packets.TCP), 16, false
		body[4], body[5] = byte(i>>8), byte(i)
		if i >= segments {
			next, at, locators = packets.ICMPv6, 2, true
			clear(body)
			body[0], body[4], body[5] = 156, 1, 2
		}
		p := packets.Packet{Proto: next, Length: len(body), Src: roam.ILV{L64: 9, NID: scene.NID("cn1")}.Addr(),
			Dst: roam.ILV{L64: 1, NID: scene.NID("mn")}.Addr()}
		binary.BigEndian.PutUint16(body[at:], ^sum(p, body, locators))
		p.Raw = append(make([]byte, 40), body...)
		p.Raw[6] = next
		if next == packets.ICMPv6 {
			p.Data = p.Raw[40:]
		}
		if alter != nil {
			alter(i, &p)
		}
		list = append(list, p)
	}
	o.verify(list, scene.NID("cn1"))
	return o
}

// beyondFaults are those of the cells beyond the paper.
func (b *book) beyondFaults() {
	with := func(name, red, grey string, alter func(*extras)) {
		x := *b.extra
		x.Load, x.Priority, x.Prefer = maps.Clone(x.Load), maps.Clone(x.Priority), maps.Clone(x.Prefer)
		alter(&x)
		b.put(name, red, grey, nil, b.udps, &x)
	}
	for _, name := range []string{"limited", "deep", "lasting"} {
		with("a false handoff "+name, "A29-"+name, "", func(x *extras) {
			x.Load[name] = loadOutcome{Handoffs: b.load(3 * time.Second).moves(exptest.At(9 * time.Second))}
		})
	}
	with("signals wait", "F31-signals", "", func(x *extras) {
		x.Priority["on"], x.Priority["off"] = b.priority(16*ms), b.priority(33*ms)
	})
	with("little gain", "F31-gain", "", func(x *extras) { x.Priority["off"] = b.priority(27 * ms) })
	with("an update is never acknowledged", "F31-signals F31-gain", "", func(x *extras) {
		x.Priority["on"] = b.priority(-ms)
	})
	with("nor where signals do not go first", "", "F31-gain", func(x *extras) { x.Priority["off"] = b.priority(-ms) })
	with("moves early", "F30-stays", "", func(x *extras) { x.Prefer["on"] = b.prefer(nil, 7*time.Second) })
	with("less data", "F30-data", "", func(x *extras) { x.Prefer["on"] = b.prefer(func(s *script) { s.thin = 50 }) })
	with("loses one", "F30-loss", "", func(x *extras) { x.Prefer["on"] = b.prefer(func(s *script) { s.lost = 1 }) })
	flip := func(n int) func(int, *packets.Packet) {
		return func(i int, p *packets.Packet) {
			if i == n {
				p.Raw[len(p.Raw)-1]++
			}
		}
	}
	with("a checksum is wrong", "A26-checksums", "", func(x *extras) { x.Sums = sums(1000, 2, flip(500)) })
	with("an update's checksum is wrong", "A26b-checksums", "", func(x *extras) { x.Sums = sums(1000, 2, flip(1001)) })
	with("few checksums of updates", "", "A26b-checksums", func(x *extras) { x.Sums = sums(1000, 1, nil) })
	with("few checksums", "", "A26-checksums", func(x *extras) { x.Sums = sums(999, 2, nil) })
	b.put("nothing beyond the paper", "", "A26-checksums A26b-checksums A29-limited A29-deep A29-lasting F30-stays "+
		"F30-data F30-loss F31-signals F31-gain", nil, b.udps, nil)
}
