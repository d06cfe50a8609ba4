package silent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/udpflow"
)

const (
	millisecond = time.Millisecond
	pause       = 5 * millisecond
)

// fault is what one series shows beside what it should.
type fault struct {
	cost   map[int]time.Duration // of a cut, in place of a tolerable one
	held   time.Duration         // what leaves in the first cut arrives, so much later; 0: it is lost as usual
	thin   time.Duration         // of what leaves in the first cut half is lost, for twice this time
	living bool                  // the direction that lives loses one datagram
	unused int                   // 1: the link carried nothing before the second cut, 2: nor at its end
	lead   time.Duration         // a gap before the first cut
	errors int                   // of receive buffers
	bulk   time.Duration         // for which the connection stands still after the switch of the second cut
	broken error                 // of the connection
}

// tolerable is what a cut costs at a level, just within the bounds.
func tolerable(level string) time.Duration {
	if level == "fast" {
		return 130 * millisecond
	}
	return 480 * millisecond
}

// records returns the records of one series.
func records(t *testing.T, p exp.Params, s series, f fault) *seen {
	schedule := plan(p)
	// until is when a cut does not matter any more.
	until := func(i int) time.Duration {
		if cost, ok := f.cost[i]; ok {
			return begin(p, i) + cost
		}
		return begin(p, i) + tolerable(s.level)
	}
	flow := func(out bool, isDead func(way int) bool) *udpflow.Flow {
		n := 0
		return exptest.UDP(t, schedule.Length, pause, millisecond, func(d *exptest.Datagram) {
			n++
			d.Lost = exptest.Within(lead-time.Second, lead-time.Second+f.lead)(d.At)
			for i := range p.Int("cuts") {
				from := begin(p, i)
				switch {
				case !isDead(i % len(ways)):
					d.Lost = d.Lost || f.living && d.At == from+100*millisecond
				case out && i == 0 && f.held > 0:
					if exptest.Within(from, from+f.held)(d.At) {
						d.Delay = from + f.held - d.At
					}
				case out && i == 0 && f.thin > 0:
					d.Lost = d.Lost || exptest.Within(from, from+2*f.thin)(d.At) && n%2 == 0
				default:
					d.Lost = d.Lost || exptest.Within(from, until(i))(d.At)
				}
			}
		})
	}
	v := &seen{
		series: s, up: flow(true, func(way int) bool { return ways[way].out }),
		down:         flow(false, func(way int) bool { return ways[way].in }),
		bufferErrors: f.errors, broken: f.broken,
		Trace: &scene.Trace{Start: exptest.Origin, End: exptest.At(schedule.Length)},
	}
	v.bulk = exptest.TCP(t, schedule.Length, pause, func(at time.Duration) bool {
		for i := range p.Int("cuts") { // the connection stands still as long as datagrams are lost
			to := until(i)
			if i == 1 {
				to += f.bulk
			}
			if exptest.Within(begin(p, i), to)(at) {
				return true
			}
		}
		return false
	})
	for _, step := range schedule.Steps {
		v.Steps = append(v.Steps, scene.Done{Step: step, At: exptest.At(step.At), Over: exptest.At(step.At)})
	}
	counts := map[string]uint64{"net1": 0, "net2": 0}
	for at := time.Duration(0); at < schedule.Length; at += 100 * millisecond {
		counts = map[string]uint64{"net1": counts["net1"] + 1000, "net2": counts["net2"]}
		if !f.rests(p, at) {
			counts["net2"] += 1000
		}
		v.Samples = append(v.Samples, scene.Sample{At: exptest.At(at), Out: counts, In: counts})
	}
	return v
}

// rests reports whether the link that is cut carries nothing.
func (f fault) rests(p exp.Params, at time.Duration) bool {
	from, to := begin(p, 1), begin(p, 1)+p.Seconds("cut_s")
	return f.unused == 1 && at > from-time.Second && at <= from || f.unused == 2 && at > to-time.Second && at <= to
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "cuts=3", "period_s=4", "udp_rate=200")
	var sound []*seen
	for _, level := range []string{"normal", "fast"} {
		for _, mode := range []string{"soft", "duality"} {
			sound = append(sound, records(t, p, series{mode, level}, fault{}))
		}
	}
	var cases []exptest.Case
	add := func(name string, red, grey []string, all []*seen) {
		cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey, Judge: func(r *result.Result, _ int) {
			judge(&exp.Env{Params: p, Result: r}, all)
		}})
	}
	add("sound", nil, nil, sound)
	timing, counted := ids(t, "median", "worst", "tcp"), ids(t, "median", "worst", "tcp", "living")
	for i, s := range sound {
		with := func(f fault) []*seen {
			all := append([]*seen(nil), sound...)
			all[i] = records(t, p, s.series, f)
			return all
		}
		id := s.mode + "-" + s.level + "-"
		late, never := 520*millisecond, 740*millisecond
		if s.level == "fast" {
			late, never = 170*millisecond, 270*millisecond
		}
		add(id+"late", []string{id + "median"}, nil, with(fault{cost: map[int]time.Duration{0: late, 1: late}}))
		add(id+"once very late", []string{id + "worst"}, nil, with(fault{cost: map[int]time.Duration{2: never}}))
		add(id+"held in one direction of two", []string{id + "worst"}, nil, with(fault{held: never}))
		add(id+"half lost in one direction of two", []string{id + "worst"}, nil, with(fault{thin: never}))
		add(id+"TCP stands still", []string{id + "tcp"}, nil, with(fault{bulk: 320 * millisecond}))
		add(id+"TCP breaks", []string{"connections"}, nil, with(fault{broken: errors.New("reset")}))
		add(id+"TCP hangs", []string{"connections", id + "tcp"}, nil,
			with(fault{broken: errors.New("hangs"), bulk: time.Hour}))
		add(id+"the living loses", []string{id + "living"}, nil, with(fault{living: true}))
		add(id+"not in use", []string{id + "hit"}, nil, with(fault{unused: 1}))
		add(id+"has moved", []string{id + "stayed"}, nil, with(fault{unused: 2}))
		add(id+"buffers overflow", nil, counted, with(fault{errors: 1}))
		add(id+"a slow machine", nil, timing, with(fault{lead: 150 * millisecond}))
	}
	exptest.Claims(t, Experiment, nil, cases...)
}

// The figure has each cut at its own place, however long the others took.
func TestFigure(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "cuts=3", "period_s=4", "udp_rate=200", "levels=normal")
	late := fault{cost: map[int]time.Duration{0: 520 * millisecond}}
	r := result.New("")
	judge(&exp.Env{Params: p, Result: r}, []*seen{records(t, p, series{"soft", "normal"}, late)})
	s, ok := r.Find("soft normal")
	if !ok || len(s.Y) != 3 || s.Y[0] < 500 || s.Y[1] > 500 || s.Y[2] > 500 {
		t.Errorf("%+v", s)
	}
	if r.Metrics["soft_normal_worst_ms"] != s.Y[0] {
		t.Errorf("worst %v of %v", r.Metrics["soft_normal_worst_ms"], s.Y)
	}
}

// ids returns the claims whose names end so.
func ids(t *testing.T, ends ...string) (list []string) {
	t.Helper()
	expect, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range expect {
		for _, end := range ends {
			if strings.HasSuffix(e.ID, "-"+end) {
				list = append(list, e.ID)
			}
		}
	}
	return list
}
