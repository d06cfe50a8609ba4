package beyond

import (
	"errors"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// fault is what is wrong with the records of one cell; its zero value is nothing.
type fault struct {
	out, in  func(*exptest.Datagram) // of the UDP probe
	up, down func(time.Duration) bool
	died     error
	queued   []uint64      // numbers that the emulator had no room for, from the mobile host
	says     time.Duration // from the advertisement to the locator, as the daemon says
	unheard  bool          // no advertisement comes after the outage
	mbps     float64       // of each pair but the first, over both paths; alone it is 100
}

// short are parameters with which a cell lasts seconds.
var short = []string{"cells=delay,rate,loss,both,many,storm,outage,oneway", "loss_s=3", "both_handoffs=2",
	"many_handoffs=2", "storm_s=1", "outage_s=2", "oneway_s=2", "pairs=3"}

// The advertisement after the outage, and the first data after it: within the bounds by little.
const (
	advertAfter = 20 * time.Millisecond
	firstOut    = 1010 * time.Millisecond
	firstIn     = 1030 * time.Millisecond
)

// measured extracts the outcome of a cell from its records.
func measured(t testing.TB, p exp.Params, name string, f fault) *outcome {
	if name == "delay" || name == "rate" {
		o := &outcome{Cell: name, Alive: true}
		for i := range p.Int("pairs") {
			mbps := 95.5
			if i > 0 && f.mbps > 0 {
				mbps = f.mbps
			}
			o.transferred("alone", 100, 0)
			o.transferred("duality", mbps, 0)
		}
		return o
	}
	c := cells[name](p)
	c.name = name
	tr := &scene.Trace{Start: exptest.Origin, End: exptest.At(c.plan.Length), Events: map[string][]node.Event{},
		Drops: map[string]uint64{"cut": 3, "loss": 5}}
	away := [2]func(time.Duration) bool{exptest.Within(0, 0), exptest.Within(0, 0)}
	for _, s := range c.plan.Steps {
		tr.Steps = append(tr.Steps, scene.Done{Step: s, At: exptest.At(s.At)})
		if name == "outage" && s.Op == scene.Attach {
			usable := s.At + advertAfter
			tr.Adverts = []scene.Advert{{At: exptest.At(lead - time.Second), Link: "net1"}}
			if !f.unheard {
				tr.Adverts = append(tr.Adverts, scene.Advert{At: exptest.At(usable), Link: "net1"})
			}
			tr.Events["mn"] = []node.Event{{Time: exptest.At(usable + f.says), Kind: "locator-added",
				To: []node.LinkLocator{{Link: "net1"}}}}
			away = [2]func(time.Duration) bool{exptest.Within(lead, usable+firstOut), exptest.Within(lead, usable+firstIn)}
		}
	}
	l := &load{links: scene.NewLosses(udpPort), queues: scene.NewLosses(udpPort)}
	for _, seq := range f.queued {
		l.queues.Add(0, seq)
	}
	// Where links lose deliberately, they lose number 2500 of either way.
	bad := name == "loss" || name == "oneway"
	probe := func(way int, more func(*exptest.Datagram)) *udpflow.Flow {
		if bad {
			l.links.Add(way, 2500)
		}
		return exptest.UDP(t, c.plan.Length, time.Millisecond, 0, func(d *exptest.Datagram) {
			d.Lost = away[way](d.At) || bad && d.At == 2500*time.Millisecond
			if more != nil {
				more(d)
			}
		})
	}
	// The control has a gap of 4 ms, the rest one of 99 ms.
	read := func(way int, more func(time.Duration) bool) tcpflow.Stream {
		return exptest.TCP(t, c.plan.Length, time.Millisecond, func(d time.Duration) bool {
			return away[way](d) || exptest.Within(time.Second, time.Second+3*time.Millisecond)(d) ||
				exptest.Within(lead+100*time.Millisecond, lead+198*time.Millisecond)(d) || more != nil && more(d)
		})
	}
	l.up, l.down = probe(0, f.out), probe(1, f.in)
	l.reads = [2]tcpflow.Stream{read(0, f.up), read(1, f.down)}
	o := &outcome{Cell: name, Changes: c.changes}
	var errs []error
	if f.died != nil {
		errs = append(errs, f.died)
	}
	o.ended(errs)
	o.judge(c, tr, l, p)
	return o
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", short...)
	sound := map[string]*outcome{}
	for _, name := range cellNames {
		sound[name] = measured(t, p, name, fault{})
	}
	var cases []exptest.Case
	add := func(what, cell string, f fault, red, grey []string) {
		cases = append(cases, exptest.Case{Name: cell + " " + what, Red: red, Grey: grey,
			Judge: func(r *result.Result, _ int) {
				for _, name := range cellNames {
					o := sound[name]
					if name == cell {
						o = measured(t, p, name, f)
					}
					o.metrics(r)
				}
			}})
	}
	ms := time.Millisecond
	at := func(d time.Duration) func(*exptest.Datagram) {
		return func(x *exptest.Datagram) { x.Lost = x.Lost || x.At == d }
	}
	add("sound", "", fault{}, nil, nil)
	loss := map[string]string{"loss": "loss-only-its-own", "both": "both-no-loss", "many": "many-no-loss",
		"storm": "storm-no-loss", "oneway": "oneway-only-there"}
	for _, name := range cellNames[:2] {
		add("less", name, fault{mbps: 94}, []string{name + "-goodput"}, nil)
	}
	for _, name := range cellNames[2:] {
		end := cells[name](p).plan.Length
		alive, lost := name+"-alive", []string{}
		if id := loss[name]; id != "" {
			lost = []string{id}
			add("loses one out", name, fault{out: at(2600 * ms)}, lost, nil)
			add("loses one in", name, fault{in: at(2600 * ms)}, lost, nil)
			add("loses its first", name, fault{in: at(0)}, lost, nil)
			add("loses one in the last second but one", name, fault{in: at(end - 1001*ms)}, lost, nil)
			add("queue drops one", name, fault{out: at(2600 * ms), queued: []uint64{2600}}, nil, nil)
			add("queue drops another", name, fault{out: at(2600 * ms), queued: []uint64{2601}}, lost, nil)
			add("queue drops one of the other way", name, fault{in: at(2600 * ms), queued: []uint64{2600}}, lost, nil)
			full := func(x *exptest.Datagram) { x.Dropped = x.At == 2600*ms }
			add("socket drops one", name, fault{in: full}, nil, nil)
			add("socket drops one of two", name, fault{in: func(x *exptest.Datagram) {
				full(x)
				at(2601 * ms)(x)
			}}, lost, nil)
		}
		add("breaks", name, fault{died: errors.New("reset")}, []string{alive}, nil)
		ends(end, func(what string, f fault) { add(what, name, f, []string{alive}, nil) })
	}
	for _, name := range []string{"both", "many"} {
		gap := exptest.Within(lead+400*ms, lead+506*ms)
		add("TCP out pauses", name, fault{up: gap}, []string{name + "-no-gap"}, nil)
		add("TCP in pauses", name, fault{down: gap}, []string{name + "-no-gap"}, nil)
		hiccup := exptest.Within(lead-300*ms, lead-200*ms)
		add("TCP pauses in the lead", name, fault{up: hiccup, down: gap}, nil, []string{name + "-no-gap"})
		paused := func(d *exptest.Datagram) { // those within it arrive together at its end
			if exptest.Within(lead-300*ms, lead-255*ms)(d.At) {
				d.Delay = lead - 255*ms - d.At
			}
		}
		add("TCP pauses, UDP in the lead", name, fault{out: paused, up: gap}, []string{name + "-no-gap"}, nil)
	}
	usable := lead + p.Seconds("outage_s") + advertAfter
	late := func(by time.Duration) (func(*exptest.Datagram), func(time.Duration) bool) {
		gap := exptest.Within(usable, usable+by)
		return func(d *exptest.Datagram) { d.Lost = d.Lost || gap(d.At) }, gap
	}
	udp, tcp := late(1025 * ms)
	add("the daemon says its locator late", "outage", fault{says: time.Second}, nil, nil)
	add("UDP out resumes late, as the daemon's locator", "outage", fault{says: time.Second, out: udp},
		[]string{"outage-resume-out"}, nil)
	add("no advertisement comes", "outage", fault{unheard: true}, nil, []string{"outage-resume-out", "outage-resume-in"})
	add("UDP out resumes late", "outage", fault{out: udp}, []string{"outage-resume-out"}, nil)
	add("TCP out resumes late", "outage", fault{up: tcp}, []string{"outage-resume-out"}, nil)
	udp, tcp = late(1045 * ms)
	add("UDP in resumes late", "outage", fault{in: udp}, []string{"outage-resume-in"}, nil)
	add("TCP in resumes late", "outage", fault{down: tcp}, []string{"outage-resume-in"}, nil)
	_, tcp = late(time.Hour)
	add("TCP never resumes", "outage", fault{up: tcp, down: tcp}, []string{"outage-resume-out", "outage-resume-in"}, nil)
	cases = append(cases, without(t, sound))
	exptest.Claims(t, Experiment, nil, cases...)
}

// ends are the faults of the last second of a cell.
func ends(end time.Duration, add func(what string, f fault)) {
	last, ms := end-time.Second, time.Millisecond
	silent := func(d *exptest.Datagram) { d.Lost = d.Lost || d.At >= last }
	thin := func(d *exptest.Datagram) { d.Lost = d.Lost || d.At >= last && d.At/ms%9 == 0 }
	unsent := func(d *exptest.Datagram) {
		if d.At >= last {
			d.At -= 2 * time.Second
		}
	}
	late := func(d *exptest.Datagram) { // those sent just before the last second come in it
		if exptest.Within(last-100*ms, last)(d.At) {
			d.Delay = last - d.At
		}
	}
	add("is silent at the end", fault{out: silent, in: silent})
	add("is silent at the end out", fault{out: silent, in: late})
	add("is silent at the end in", fault{out: late, in: silent})
	add("loses a ninth at the end out", fault{out: thin})
	add("loses a ninth at the end in", fault{in: thin})
	add("sends nothing at the end out", fault{out: unsent, in: late})
	add("sends nothing at the end in", fault{out: late, in: unsent})
}

// without is a run of the cells with goodput alone.
func without(t *testing.T, sound map[string]*outcome) exptest.Case {
	expect, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	var grey []string
	for _, e := range expect {
		if e.ID != "delay-goodput" && e.ID != "rate-goodput" {
			grey = append(grey, e.ID)
		}
	}
	return exptest.Case{Name: "two cells", Grey: grey, Judge: func(r *result.Result, _ int) {
		if err := missing(r, []string{"delay", "rate"}); err != nil {
			t.Fatal(err)
		}
		sound["delay"].metrics(r)
		sound["rate"].metrics(r)
	}}
}
