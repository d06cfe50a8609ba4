package hostile

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/live"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// record holds the records of one cell: a connection each way and a UDP flow for eight
// seconds, of which the last four are in the network.
type record struct {
	n         network
	air       air
	missed    int // packets that the captures lost
	sessions  []node.Session
	events    []node.Event
	doctor    string
	states    []workload.State
	broken    error
	streams   []tcpflow.Stream
	up, down  *udpflow.Flow
	spread    [2][]node.Session
	router    map[string]counter // after, of the router
	queues    *scene.Losses
	setupTook float64
}

const (
	inside  = 4 * time.Second
	changed = 4500 * time.Millisecond
	ending  = 10 * time.Second
)

// udpFlow is one way of the UDP flow.
func udpFlow(t testing.TB, change func(*exptest.Datagram)) *udpflow.Flow {
	return exptest.UDP(t, ending, 10*time.Millisecond, 5*time.Millisecond, change)
}

// healthy are the records of a network in which each claim holds, by little where it has a
// bound.
func healthy(t testing.TB, n network) *record {
	const ms = time.Millisecond
	s := node.Session{State: "established", InUse: &node.Path{Link: "net1"}}
	if n.udp {
		s.Encapsulation = "udp"
	}
	x := &record{n: n, air: newAir(n), setupTook: 30, sessions: []node.Session{s},
		up: udpFlow(t, nil), down: udpFlow(t, nil)}
	x.events = []node.Event{{Time: exptest.At(inside - time.Second), Kind: "update-acked", Encapsulated: !n.acked},
		{Time: exptest.At(inside + 10*ms), Kind: "update-sent"},
		{Time: exptest.At(inside + 30*ms), Kind: "update-acked", Encapsulated: n.acked}}
	x.doctor = `{"findings":[{"level":"ok","about":"daemon","text":"runs"},{"level":"warn","about":"path","text":"X"}]}`
	x.doctor = strings.Replace(x.doctor, "X", "here "+n.told+" it seems", 1)
	for range 2 {
		x.states = append(x.states, workload.State{Alive: true, Last: exptest.At(ending - 1400*ms)})
		x.streams = append(x.streams, exptest.TCP(t, ending, 20*ms, nil))
	}
	// In duality both stand still for 2.9 s, and one goes on with gaps of 110 ms.
	if n.duality {
		x.streams[0] = exptest.TCP(t, ending, 20*ms, exptest.Within(inside+20*ms, inside+2880*ms))
		x.streams[1] = exptest.TCP(t, ending, 20*ms, exptest.Within(ending-500*ms, ending-420*ms))
	}
	flow := []node.Session{{Spread: "flow"}}
	x.spread = [2][]node.Session{flow, flow}
	x.events = append(x.events, node.Event{Time: exptest.At(changed), Kind: "spread-changed", Reason: "flow"})
	x.router = map[string]counter{"out1": {Packets: 10 + 515}, "out2": {Packets: 20 + 485}, "in1": {Packets: 30 + 482},
		"in2": {Packets: 40 + 518}}
	return x
}

// outcome extracts the results.
func (x *record) outcome() outcome {
	o := outcome{Name: x.n.name, SetupMs: x.setupTook}
	c := came{entered: exptest.At(inside), now: exptest.At(ending), states: x.states, broken: x.broken, streams: x.streams,
		up: x.up, down: x.down, queues: x.queues}
	o.read(x.sessions, x.events, exptest.At(inside))
	o.hear([]byte(x.doctor), x.n)
	o.flows(c)
	if x.n.duality {
		o.Whole = &whole{}
		o.Daemon.spread(x.spread, x.events)
	}
	seen := x.air.wire(x.n)
	seen.dropped = x.missed
	o.wired(seen, x.n, c.entered, c.entered, c.now)
	if x.n.late {
		o.turned(c)
	}
	if x.n.duality {
		before := map[string]counter{"out1": {Packets: 10}, "out2": {Packets: 20}, "in1": {Packets: 30}, "in2": {Packets: 40}}
		o.Whole.watched(c, exptest.Origin, exptest.At(ending), before, x.router)
	}
	return o
}

// faults are those of one network: by name, the claims that fail, and what is wrong.
func faults(t testing.TB, n network) (list []struct {
	name      string
	red, grey string
	alter     func(*record)
}) {
	add := func(name, red, grey string, alter func(*record)) {
		list = append(list, struct {
			name      string
			red, grey string
			alter     func(*record)
		}{name, red, grey, alter})
	}
	const ms = time.Millisecond
	add("no ILNP", "setup", "", func(x *record) { x.air.deaf = true })
	missed := "setup answer"
	if n.late {
		missed += " lost"
	}
	add("the captures lose one", "", missed, func(x *record) { x.missed = 1 })
	add("the daemon says nothing", "", "", func(x *record) { x.sessions = nil })
	add("no traffic in time", "setup", "", func(x *record) { x.setupTook = 0 })
	for i := range 2 {
		add("a connection died", "survives", "", func(x *record) { x.states[i].Alive = false })
		add("a connection stalls", "survives", "", func(x *record) { x.states[i].Last = exptest.At(ending - lively) })
	}
	add("bytes are wrong", "survives", "", func(x *record) { x.broken = errors.New("message 7 is not whole") })
	silent := func(d *exptest.Datagram) { d.Lost = d.At > ending-lively-20*ms }
	lost := ""
	if n.duality || n.late {
		lost = " lost"
	}
	add("no datagrams out", "survives"+lost, share(n), func(x *record) { x.up = udpFlow(t, silent) })
	add("no datagrams in", "survives"+lost, share(n), func(x *record) { x.down = udpFlow(t, silent) })
	add("becomes plain", "answer", "", func(x *record) { x.air.plain = true })
	if n.told != "" {
		add("doctor is silent", "told", "", func(x *record) { x.doctor = "" })
		add("doctor says it of names", "told", "", func(x *record) {
			x.doctor = strings.Replace(x.doctor, `"path"`, `"names"`, 1)
		})
		add("doctor says another thing", "told", "", func(x *record) {
			x.doctor = strings.ReplaceAll(x.doctor, n.told, "no")
		})
	}
	if n.duality {
		dualityFaults(t, add)
		return list
	}
	wireFaults(t, n, add)
	return list
}

// planted adds a fault to a list.
type planted func(name, red, grey string, alter func(*record))

// dualityFaults are those of a network with two paths.
func dualityFaults(t testing.TB, add planted) {
	const ms = time.Millisecond
	for i := range 2 {
		add("an end spreads by packet to the end", "answer gaps", "share", func(x *record) {
			x.air.changed[i] = ending - 980*ms
		})
		add("an end's daemon says that it spreads by packet", "", "", func(x *record) {
			x.spread[i] = []node.Session{{Spread: "packet"}}
		})
		add("stands still", "stall", "", func(x *record) {
			x.streams[i] = exptest.TCP(t, ending, 20*ms, exptest.Within(inside+20*ms, inside+3100*ms))
		})
		add("a gap", "gaps", "", func(x *record) {
			x.streams[i] = exptest.TCP(t, ending, 20*ms, exptest.Within(8*time.Second, 8*time.Second+120*ms))
		})
		add("a gap at the end", "gaps", "", func(x *record) {
			x.streams[i] = exptest.TCP(t, ending-130*ms, 20*ms, nil)
		})
	}
	add("never told", "answer", "", func(x *record) { x.events = x.events[:3] })
	add("a gap before the daemon says that it changed", "gaps", "", func(x *record) {
		x.events[3].Time = exptest.At(8 * time.Second)
		x.streams[1] = exptest.TCP(t, ending, 20*ms, exptest.Within(8*time.Second, 8*time.Second+120*ms))
	})
	add("one lost out", "lost", "", func(x *record) {
		x.up = udpFlow(t, func(d *exptest.Datagram) { d.Lost = d.At == inside })
	})
	add("one lost in", "lost", "", func(x *record) {
		x.down = udpFlow(t, func(d *exptest.Datagram) { d.Lost = d.At == ending-10*ms })
	})
	add("uneven out", "share", "", func(x *record) { x.router["out1"] = counter{Packets: 10 + 535} })
	add("uneven in", "share", "", func(x *record) { x.router["in2"] = counter{Packets: 40 + 545} })
	add("nothing counted", "", "share", func(x *record) {
		x.router["in1"], x.router["in2"] = counter{Packets: 30}, counter{Packets: 40}
	})
	pause := func(d *exptest.Datagram) {
		if exptest.Within(7*time.Second, 7*time.Second+120*ms)(d.At) {
			d.Delay = 7*time.Second + 125*ms - d.At
		}
	}
	add("the machine pauses", "", "gaps share", func(x *record) { x.up = udpFlow(t, pause) })
	add("the machine pauses in", "", "gaps share", func(x *record) { x.down = udpFlow(t, pause) })
	full := func(d *exptest.Datagram) { d.Dropped = d.At == inside }
	add("a socket drops one", "", "", func(x *record) { x.up = udpFlow(t, full) })
	add("a socket drops one of two", "lost", "", func(x *record) {
		x.up = udpFlow(t, func(d *exptest.Datagram) { full(d); d.Lost = d.At == inside+20*ms })
	})
	queue := func(from uint64) *scene.Losses { // of every datagram from a number on
		l := scene.NewLosses(udpPort)
		for seq := from; seq < 1e5; seq++ {
			l.Add(0, seq)
		}
		return l
	}
	gone := func(d *exptest.Datagram) { d.Lost = d.At == inside }
	add("a queue drops one", "", "", func(x *record) { x.up, x.queues = udpFlow(t, gone), queue(0) })
	add("a queue drops another", "lost", "", func(x *record) { x.up, x.queues = udpFlow(t, gone), queue(99_999) })
}

// share are the claims that a silent UDP flow keeps from being measured.
func share(n network) string {
	if n.duality {
		return "gaps share"
	}
	return ""
}

// ids prefixes claims with the name of their network.
func ids(n network, words string) (out []string) {
	for _, w := range strings.Fields(words) {
		out = append(out, n.name+"-"+w)
	}
	return out
}

// victim is a case of the attacker: what its router counted.
func victim(p plan, sent int) attack {
	a := attack{Name: p.name, Alone: p.alone, RTTMs: 20}
	a.rated(map[string]counter{"to_attacker": {Bytes: 5_000}}, map[string]counter{"to_attacker": {Bytes: 2_005_000}},
		2*time.Second)
	a.counted(map[string]counter{"to_victim": {Bytes: sent, Packets: 9}, "from_victim": {Bytes: 1_000}})
	return a
}

// allowances are how many bytes may go to the victim in each case: 10 packets and three
// times what came from there, and in one case two round trips at 1 MB/s.
var allowances = map[string]int{"listed": 18_000, "listed_forged": 18_000, "alone": 18_000 + 40_000}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	sound := map[string]outcome{}
	for _, n := range networks {
		sound[n.name] = healthy(t, n).outcome()
	}
	var cases []exptest.Case
	add := func(name string, red, grey []string, made func() map[string]outcome, victims map[string]int) {
		cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey, Judge: func(r *result.Result, _ int) {
			env := &exp.Env{Result: r, View: live.New(&strings.Builder{})}
			var list []outcome
			outcomes := made()
			for _, n := range networks {
				list = append(list, kept(t, outcomes[n.name]))
			}
			report(env, networks, list)
			var attacks []attack
			for _, p := range plans {
				attacks = append(attacks, victim(p, victims[p.name]))
			}
			reportAttacks(env, attacks)
		}})
	}
	well := func() map[string]outcome { return sound }
	add("sound", nil, nil, well, allowances)
	for _, n := range networks {
		for _, f := range faults(t, n) {
			add(n.name+": "+f.name, ids(n, f.red), ids(n, f.grey), func() map[string]outcome {
				x := healthy(t, n)
				f.alter(x)
				outcomes := maps.Clone(sound)
				outcomes[n.name] = x.outcome()
				return outcomes
			}, allowances)
		}
	}
	for _, p := range plans {
		victims := maps.Clone(allowances)
		victims[p.name]++
		add("victim "+p.name, []string{"victim-" + strings.ReplaceAll(p.name, "_", "-")}, nil, well, victims)
	}
	exptest.Claims(t, Experiment, nil, cases...)
}

// kept is an outcome as a resumed run reads it.
func kept(t testing.TB, o outcome) (back outcome) {
	b, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}
