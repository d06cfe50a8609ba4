package quickstart

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// records are the raw records of both passes, from which a case takes something away.
type records struct {
	t        testing.TB
	p        exp.Params
	length   time.Duration
	out, in  func(*exptest.Datagram) // of the UDP probe with Roam
	up, down func(time.Duration) bool
	says     time.Duration         // from the advertisement to the locator, as the daemon says
	wait     map[int]time.Duration // more from a step to the advertisement, by number of the handoff
	slow     map[int]time.Duration // more from the advertisement to data, by number of the handoff; negative: none come
	bytes    map[string]uint64     // additional bytes by link, in the samples of the phase of three links
	trains   uint64                // bytes of net2 that are no data, in that phase
	stray    uint64                // bytes of net3 that are no data, in a tenth of a second of the withdrawal
	strays   time.Duration         // from when in that phase
	skewUDP  uint64                // bytes of UDP that net1 has more in the same, in a tenth of a second
	lone     uint64                // bytes of UDP with a third correspondent in a tenth of a second, by net1 alone
	shunsUDP bool                  // neither does UDP
	shuns    time.Duration         // for how long TCP with cn2 does not use net2 in the phases with three links
	others   float64               // per cent of the processors that other programs had
	waited   float64               // how many times as long as they ran Roam's daemons waited for a processor
	routes   string                // afterwards
	died     map[string]error
	drops    map[string]uint64
	updates  map[string]scene.Updates // by correspondent
	spilled  *scene.Losses            // datagrams that the emulator dropped
	lateCut  time.Duration
	ask      time.Duration // for which a command before the hard handoff lasts
	bringUp  time.Duration // from a step that adds links until they carry data
	returns  time.Duration // how late the links are used again after the withdrawal
	behind   time.Duration // of the lab's schedule
	came     uint64        // packets to a network after its cut
	alone    bool          // there is no pass without Roam
	control  func(*trace)  // alters the pass without Roam
}

const routesBefore = "2001:db8:1::/64 dev net1 proto kernel metric 256 expires 3599sec pref medium\n" +
	"default via fe80::1 dev net1 proto ra metric 1024\n"

// session is an application of which only the name is needed.
type session string

func (s session) Name() string          { return string(s) }
func (s session) State() workload.State { return workload.State{} }

var sessions = []string{"iperf3 TCP", "iperf3 UDP", "curl", "ssh", "UDP probe", "TCP out", "TCP in"}

// healthy is a run in which each claim holds by little: the first datagram after the hard
// handoff comes 27 ms after the advertisement, TCP pauses 45 ms, data take 90 ms.
func healthy(t testing.TB, set ...string) *records {
	p := exptest.Params(t, Experiment.Params, "quick", append([]string{"udp_rate=4000", "udp_rate_in=1000"}, set...)...)
	pl := plan(p, false)
	return &records{
		t: t, p: p, length: pl.Length, says: 90 * time.Millisecond,
		wait: map[int]time.Duration{}, slow: map[int]time.Duration{}, bytes: map[string]uint64{}, routes: routesBefore,
		spilled: scene.NewLosses(udpPort), lateCut: 900 * time.Millisecond,
		bringUp: 800 * time.Millisecond, died: map[string]error{},
		drops:   map[string]uint64{"cut": 12, "queue": 0},
		updates: map[string]scene.Updates{"cn1": {Acks: 12, Plain: 24}, "cn2": {Acks: 1, Plain: 2}},
	}
}

// advert is when the first advertisement comes after a step.
func advert(at time.Duration) time.Duration { return at + 200*time.Millisecond }

// hardAdvert is when that of the hard handoff comes.
func (x *records) hardAdvert() time.Duration { return advert(plan(x.p, false).hard) }

// softStep returns the step of soft handoff n, 1 and up.
func softStep(p exp.Params, n int) time.Duration {
	i := 0
	for _, s := range plan(p, false).Steps {
		if s.Op == scene.Attach && s.From != "" {
			if i++; i == n {
				return s.At
			}
		}
	}
	panic("no such handoff")
}

// pass makes the records of one pass.
func (x *records) pass(control bool) *trace {
	pl := plan(x.p, control)
	tr := &trace{plan: pl, updates: x.updates, established: 2, Trace: &scene.Trace{
		Start: exptest.Origin, End: exptest.At(pl.Length), Drops: x.drops,
	}}
	n := 0
	for _, s := range pl.Steps {
		over := exptest.At(s.At)
		if s.Op == scene.Detach && s.Link == "net3" { // in the middle of the ring
			over = over.Add(x.lateCut)
		}
		at := exptest.At(s.At)
		if k := len(tr.Steps); k > 0 && x.lateCut > 2*time.Second && tr.Steps[k-1].Over.After(at) {
			at, over = tr.Steps[k-1].Over, tr.Steps[k-1].Over
		}
		if s.Op == scene.Enable {
			at, over = at.Add(x.returns), over.Add(x.returns)
		}
		switch { // the hard handoff waits for the command before it
		case s.Op == scene.Mode && s.At < pl.hard:
			over = over.Add(x.ask)
		case s.Op == scene.Swap && x.ask > 0:
			at = tr.Steps[len(tr.Steps)-1].Over
			over = at
		}
		tr.Steps = append(tr.Steps, scene.Done{Step: s, At: at, Over: over})
		if n == 1 {
			tr.Steps[len(tr.Steps)-1].At = exptest.At(s.At + x.behind)
		}
		if s.From == "" || s.Op != scene.Attach && s.Op != scene.Swap {
			continue
		}
		n++
		came := advert(tr.Steps[len(tr.Steps)-1].At.Sub(exptest.Origin)) + x.wait[n]
		tr.Adverts = append(tr.Adverts, scene.Advert{At: exptest.At(came), Link: s.Link})
		if x.slow[n] >= 0 {
			begun := came + 90*time.Millisecond + x.slow[n]
			tr.Begins = append(tr.Begins, scene.Begin{At: exptest.At(begun), Link: s.Link})
		}
		usable := came + x.says
		to := []node.LinkLocator{{Link: s.Link}}
		tr.events = append(tr.events,
			node.Event{Time: exptest.At(usable), Kind: "locator-added", To: to},
			node.Event{Time: exptest.At(usable + 20*time.Millisecond), Kind: "update-acked", RTTMs: 20},
			node.Event{Time: exptest.At(usable + 20*time.Millisecond), Kind: "handoff-done", To: to, DurationMs: 20})
	}
	tr.Samples = x.samples(pl)
	return tr
}

// samples are the bytes of the links: all by net1 but in the phases with three links, where
// each has its third within less than two points. UDP with cn1 has half of them, TCP with cn2 the rest.
func (x *records) samples(pl schedule) (list []scene.Sample) {
	sum, tcp := map[string]uint64{"net1": 0, "net2": 0, "net3": 0}, map[string]uint64{}
	for at := time.Duration(0); at <= pl.Length; at += 100 * time.Millisecond {
		now := scene.Sample{At: exptest.At(at), Out: map[string]uint64{}, In: map[string]uint64{},
			Towards: map[string]uint64{}}
		for i, p := range pl.shares {
			if at <= p.span.from+x.bringUp && len(p.links) > 1 || at <= p.span.from || at > p.span.to {
				if i == 0 && at > p.span.from && at <= p.span.to {
					sum["net3"] += 300_000 // the link in use, until the others have addresses
				}
				continue
			}
			if len(p.links) == 1 {
				sum["net1"] += 99_000
				sum["net2"] += 1_000
				continue
			}
			for j, l := range p.links {
				n := 100_000 + uint64(5_000*(j-1)*(i-1)) // 33.3 and 1.67 points off
				if l == "net2" && at <= p.span.from+x.shuns {
					if n /= 2; x.shunsUDP {
						n = 0
					}
				} else {
					tcp[l] += n / 2
				}
				sum[l] += n
			}
			sum["net1"] += x.skewUDP
		}
		x.fill(&now, sum, tcp, at, len(pl.shares) > 0 && at >= pl.shares[0].span.to)
		list = append(list, now)
	}
	return list
}

// flows are those of runs without a fault, which most cases share.
var flows = map[string]*udpflow.Flow{}

// flow returns one way of the UDP probe; fault is nil for the one without a fault.
func (x *records) flow(way string, fault func(*exptest.Datagram), pause time.Duration,
	probe func(func(*exptest.Datagram)) func(*exptest.Datagram)) *udpflow.Flow {
	key := fmt.Sprint(way, pause, x.hardAdvert())
	if f := flows[key]; f != nil && fault == nil {
		return f
	}
	f := exptest.UDP(x.t, x.length, pause, 5*time.Millisecond, probe(fault))
	if fault == nil {
		flows[key] = f
	}
	return f
}

// judge extracts all metrics.
func (x *records) judge(r *result.Result, _ int) {
	with, without := x.passes()
	r.StallMonitor.OthersPct = x.others
	r.StallMonitor.Processes = map[result.Owner]result.Processes{result.OwnerRoam: {RunMs: 100, WaitMs: 100 * x.waited}}
	if x.alone {
		without = nil
	}
	judge(&exp.Env{Params: x.p, Result: r}, with, without, "its applications were silent")
}

// passes makes the records of both passes.
func (x *records) passes() (with, without *trace) {
	with = x.pass(false)
	tr := &traffic{overflows: x.spilled, outcome: map[string]error{}}
	first := x.hardAdvert() + 27*time.Millisecond
	away := exptest.Within(with.plan.hard, first-5*time.Millisecond)
	probe := func(more func(*exptest.Datagram)) func(*exptest.Datagram) {
		return func(d *exptest.Datagram) {
			d.Lost = away(d.At) // those sent before the network can be used never arrive
			if more != nil {
				more(d)
			}
		}
	}
	pause := func(more func(time.Duration) bool) func(time.Duration) bool {
		at := advert(softStep(x.p, 2)) + 90*time.Millisecond
		return func(d time.Duration) bool {
			return away(d) || exptest.Within(at, at+45*time.Millisecond)(d) || more != nil && more(d)
		}
	}
	tr.flowUp = x.flow("out", x.out, time.Second/time.Duration(x.p.Int("udp_rate")), probe)
	tr.flowDown = x.flow("in", x.in, time.Millisecond, probe)
	tr.readUp = exptest.TCP(x.t, x.length, time.Millisecond, pause(x.up))
	tr.readDown = exptest.TCP(x.t, x.length, time.Millisecond, pause(x.down))
	for _, s := range sessions {
		tr.sessions = append(tr.sessions, session(s))
		tr.outcome[s] = x.died[s]
	}
	if err := tr.udpOutcome(); err != nil {
		tr.outcome["UDP probe"] = err
	}
	tr.echoes = []workload.Echo{{Sent: exptest.At(time.Second), RTT: 20 * time.Millisecond}}
	with.traffic = tr
	with.routeDiff = differences(parseRoutes(routesBefore), parseRoutes(x.routes), "afterwards")

	without = x.pass(true)
	from := time.Duration(0)
	for _, s := range without.plan.Steps {
		if s.Op == scene.Detach && s.Link == "net1" {
			from = s.At
		}
	}
	dead := func(d *exptest.Datagram) { d.Lost = d.At >= from }
	quiet := func(d time.Duration) bool { return d >= from }
	length := without.plan.Length
	without.traffic = &traffic{
		flowUp:   exptest.UDP(x.t, length, time.Millisecond, 5*time.Millisecond, dead),
		flowDown: exptest.UDP(x.t, length, time.Millisecond, 5*time.Millisecond, dead),
		readUp:   exptest.TCP(x.t, length, time.Millisecond, quiet),
		readDown: exptest.TCP(x.t, length, time.Millisecond, quiet),
		echoes: []workload.Echo{{Sent: exptest.At(100 * time.Millisecond), RTT: 20 * time.Millisecond},
			{Sent: exptest.At(from)}},
		curlGrew: []time.Time{exptest.At(100 * time.Millisecond), exptest.At(from + time.Second)},
	}
	if x.control != nil {
		x.control(without)
	}
	return with, without
}

// lose loses the datagrams sent within a span.
func lose(from, to time.Duration) func(*exptest.Datagram) {
	return func(d *exptest.Datagram) { d.Lost = d.Lost || d.At >= from && d.At < to }
}

// one loses the first datagram sent at or after a moment.
func one(at time.Duration) func(*exptest.Datagram) { return lose(at, at+250*time.Microsecond) }

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	ms := time.Millisecond
	pl := plan(exptest.Params(t, Experiment.Params, "quick"), false)
	var cases []exptest.Case
	add := func(name string, alter func(*records), red ...string) {
		x := healthy(t)
		alter(x)
		cases = append(cases, exptest.Case{Name: name, Red: red, Judge: x.judge})
	}
	lost, died := softStep(healthy(t).p, 1), errors.New("connection reset")
	add("healthy", func(*records) {})
	for _, s := range sessions {
		red := map[string][]string{"ssh": {"sessions", "ssh"}, "curl": {"sessions", "curl"}}[s]
		if red == nil {
			red = []string{"sessions"}
		}
		add("dead "+s, func(x *records) { x.died[s] = died }, red...)
	}
	add("UDP probe dead at the end", func(x *records) { x.in = lose(x.length-600*ms, x.length) }, "sessions", "soft-loss")
	add("plain IPv6 with one peer", func(x *records) { x.updates["cn2"] = scene.Updates{Plain: 2} }, "roam")
	add("one lost out", func(x *records) { x.out = one(lost + 100*ms) }, "soft-loss")
	add("one lost in", func(x *records) { x.in = one(lost + 100*ms) }, "soft-loss")
	add("one lost in the beginning", func(x *records) { x.out = one(0) }, "soft-loss")
	add("one lost before the hard handoff", func(x *records) { x.out = one(pl.hard - inFlight - ms) }, "soft-loss")
	add("one lost at the end", func(x *records) { x.out = one(x.length - ms) }, "soft-loss")
	add("one lost in duality", func(x *records) { x.in = one(pl.shares[0].span.from) }, "soft-loss")
	for n, name := range map[int]string{1: "first", 4: "last"} {
		at := softStep(healthy(t).p, n)
		add("TCP out pauses in the "+name, func(x *records) {
			x.up = exptest.Within(advert(at), advert(at)+54*ms)
		}, "soft-tcp-gap")
		add("TCP in pauses in the "+name, func(x *records) {
			x.down = exptest.Within(advert(at), advert(at)+54*ms)
		}, "soft-tcp-gap")
		add("TCP in pauses when the link goes in the "+name, func(x *records) {
			cut := at + x.p.Seconds("overlap_s")
			x.down = exptest.Within(cut+100*ms, cut+154*ms)
		}, "soft-tcp-gap")
		add("TCP in pauses before the next step of the "+name, func(x *records) {
			next := at + x.p.Seconds("dwell_s")
			x.down = exptest.Within(next-inFlight-60*ms, next-inFlight-6*ms)
		}, "soft-tcp-gap")
		add("TCP in pauses before its link goes in the "+name, func(x *records) {
			cut := at + x.p.Seconds("overlap_s")
			x.down = exptest.Within(cut-60*ms, cut-6*ms)
		}, "soft-tcp-gap")
		add("TCP out pauses around the loss of its link in the "+name, func(x *records) {
			cut := at + x.p.Seconds("overlap_s")
			x.up = exptest.Within(cut-27*ms, cut+27*ms)
		}, "soft-tcp-gap")
		add("no data on the link of the "+name, func(x *records) { x.slow[n] = -time.Hour }, "ra-data")
		add("late data in the "+name, func(x *records) { x.slow[n] = 14 * ms }, "ra-data")
	}
	add("a daemon that says it late", func(x *records) { x.says = 500 * ms })
	add("first datagram late, and the daemon says that its locator was", func(x *records) {
		x.says, x.in = 500*ms, lose(pl.hard, x.hardAdvert()+29*ms)
	}, "hard-first")
	add("first datagram out late", func(x *records) { x.out = lose(pl.hard, x.hardAdvert()+29*ms) }, "hard-first")
	add("first datagram in late", func(x *records) { x.in = lose(pl.hard, x.hardAdvert()+29*ms) }, "hard-first")
	rates(pl.hard, add)
	sharing(add)
	add("a command to Roam that delays the cut after it", func(x *records) { x.ask = 1310 * ms }, "on-time")
	add("a late cut", func(x *records) { x.lateCut = 1100 * ms }, "on-time")
	ownership(lost, add)
	add("the kernel refuses one", func(x *records) { x.out = refuse(lost) }, "soft-loss")
	add("a route lost", func(x *records) { x.routes = "default via fe80::1 dev net1 proto ra metric 1024\n" }, "routes")
	add("a route left", func(x *records) { x.routes += "2001:db8:9::/64 dev net2 metric 1\n" }, "routes")
	for what, alter := range map[string]func(*traffic){
		"datagram out": func(tr *traffic) { tr.flowUp = exptest.UDP(t, 6*time.Second, time.Second, ms, nil) },
		"datagram in":  func(tr *traffic) { tr.flowDown = exptest.UDP(t, 6*time.Second, time.Second, ms, nil) },
		"bytes out":    func(tr *traffic) { tr.readUp = exptest.TCP(t, 6*time.Second, time.Second, nil) },
		"bytes in":     func(tr *traffic) { tr.readDown = exptest.TCP(t, 6*time.Second, time.Second, nil) },
		"echo": func(tr *traffic) {
			tr.echoes = append(tr.echoes, workload.Echo{Sent: exptest.At(4 * time.Second), RTT: ms})
		},
		"download": func(tr *traffic) { tr.curlGrew = append(tr.curlGrew, exptest.At(5*time.Second)) },
	} {
		add("control delivers "+what, func(x *records) { x.control = func(tr *trace) { alter(tr.traffic) } }, "control")
	}
	cases = append(append(cases, unmeasured(t)...), levels(t)...)
	exptest.Claims(t, Experiment, nil, cases...)
}

// ownership are losses that a socket or the emulator owns up to, or not.
func ownership(lost time.Duration, add func(name string, alter func(*records), red ...string)) {
	two := lose(lost, lost+500*time.Microsecond)
	number := uint64(lost / (250 * time.Microsecond))
	drop := func(from, to time.Duration) func(*exptest.Datagram) {
		return func(d *exptest.Datagram) { d.Dropped = exptest.Within(from, to)(d.At) }
	}
	add("a socket dropped both", func(x *records) { x.out = drop(lost, lost+500*time.Microsecond) })
	add("a socket dropped one of two", func(x *records) {
		x.out = func(d *exptest.Datagram) { drop(lost, lost+250*time.Microsecond)(d); two(d) }
	}, "soft-loss")
	add("a socket dropped another, much later", func(x *records) {
		x.out = func(d *exptest.Datagram) { drop(lost+time.Second, lost+time.Second+500*time.Microsecond)(d); two(d) }
	}, "soft-loss")
	add("a socket dropped those of the other way", func(x *records) {
		x.out, x.in = two, drop(lost, lost+2*time.Millisecond)
	}, "soft-loss")
	add("the emulator dropped both", func(x *records) {
		x.out = two
		x.spilled.Add(0, number)
		x.spilled.Add(0, number+1)
	})
	add("the emulator dropped one of two", func(x *records) {
		x.out = two
		x.spilled.Add(0, number)
		x.spilled.Add(0, number+2)
	}, "soft-loss")
	add("the emulator dropped those of the other way", func(x *records) {
		x.out = two
		x.spilled.Add(1, number)
		x.spilled.Add(1, number+1)
	}, "soft-loss")
}

// refuse has the kernel refuse the datagrams of a moment.
func refuse(at time.Duration) func(*exptest.Datagram) {
	return func(d *exptest.Datagram) { d.Refused = d.At == at }
}

// unmeasured are the runs that decide nothing about a claim.
func unmeasured(t *testing.T) (cases []exptest.Case) {
	grey := func(name string, x *records, ids ...string) {
		cases = append(cases, exptest.Case{Name: name, Grey: ids, Judge: x.judge})
	}
	x := healthy(t)
	x.control = func(tr *trace) {
		tr.traffic = &traffic{flowUp: exptest.UDP(t, 0, 1, 0, nil), flowDown: exptest.UDP(t, 0, 1, 0, nil)}
	}
	grey("control delivers little before", x, "control")
	x = healthy(t)
	x.control = func(tr *trace) { tr.Steps = nil }
	grey("control keeps its network", x, "control")
	x = healthy(t)
	x.alone = true
	grey("control did not begin", x, "control")
	for n := range 4 {
		lead := healthy(t).p.Seconds("overlap_s") - 200*time.Millisecond
		x = healthy(t)
		x.wait[n+1] = lead - 249*time.Millisecond
		grey(fmt.Sprint("advertised as the old network goes: ", n+1), x, "soft-loss", "soft-tcp-gap")
		x = healthy(t)
		x.wait[n+1] = lead - 251*time.Millisecond
		grey(fmt.Sprint("advertised just in time: ", n+1), x)
	}
	x = healthy(t)
	x.lateCut = 2300 * time.Millisecond
	cases = append(cases, exptest.Case{Name: "a cut so late that the next step waits", Red: []string{"on-time"},
		Grey: []string{"soft-loss", "soft-tcp-gap"}, Judge: x.judge})
	x = healthy(t)
	x.updates["cn1"] = scene.Updates{Acks: 12, Plain: 24, Uncaptured: 1}
	grey("packets are not captured", x, "level")
	x = healthy(t)
	x.shuns, x.others = x.length, 51
	grey("TCP uses a link too late, on a busy machine", x, "shares", "set-change", "soft-tcp-gap", "hard-first",
		"hard-full", "ra-data")
	x = healthy(t)
	x.shuns, x.others, x.waited = x.length, 20.1, 25.1
	cases = append(cases, exptest.Case{Name: "TCP uses a link too late, as the daemons wait", Judge: x.judge,
		Red: []string{"set-change"}, Grey: []string{"shares"}})
	x = healthy(t)
	x.shuns, x.others, x.waited = x.length, 50, 25
	cases = append(cases, exptest.Case{Name: "TCP never uses a link, beside other programs", Judge: x.judge,
		Red: []string{"shares", "set-change"}})
	x = healthy(t)
	x.shuns, x.others, x.waited = x.length, 20, 100
	cases = append(cases, exptest.Case{Name: "TCP never uses a link, and the daemons wait beside few programs",
		Judge: x.judge, Red: []string{"shares", "set-change"}})
	x = healthy(t)
	x.shuns, x.shunsUDP, x.others, x.waited = x.length, true, 50, 26
	cases = append(cases, exptest.Case{Name: "nor do datagrams, on a busy machine", Judge: x.judge,
		Red: []string{"shares", "set-change"}})
	x = healthy(t)
	x.shuns, x.skewUDP, x.others, x.waited = x.length, 45_000, 50, 26
	cases = append(cases, exptest.Case{Name: "and datagrams are far off their shares, on a busy machine",
		Judge: x.judge, Red: []string{"shares", "set-change"}})
	x = healthy(t)
	x.lone, x.bringUp, x.others, x.waited = 5_000, 0, 50, 26
	cases = append(cases, exptest.Case{Name: "few datagrams keep to one link, on a busy machine", Judge: x.judge,
		Red: []string{"shares", "set-change"}})
	x = healthy(t)
	x.behind = 1001 * time.Millisecond
	grey("the lab is late", x, "on-time")
	x = healthy(t)
	x.returns = 2001 * time.Millisecond
	grey("the return from the withdrawal comes late", x, "on-time", "shares")
	grey("few datagrams", healthy(t, "udp_rate=2000"), "soft-loss")
	grey("another round-trip time", healthy(t, "delay_ms=10.5"), "hard-first", "hard-full")
	return cases
}
