package bothmove

import (
	"errors"
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

// fault is what one mode shows beside what it should.
type fault struct {
	up, down time.Duration // of the second move, in place of a tolerable time
	bulk     time.Duration
	early    bool // a datagram arrives before the names change
	lost     bool // one is lost long after
	lead     time.Duration
	errors   int
	broken   error // of the connection
}

const tolerable = 1900 * millisecond

// records returns the records of one mode.
func records(t *testing.T, p exp.Params, mode string, f fault) *seen {
	schedule := plan(p, nil)
	// isApart reports whether nothing gets through: from a move until a time after the change.
	isApart := func(at, second time.Duration) bool {
		for i := range p.Int("moves") {
			after := tolerable
			if i == 1 && second > 0 {
				after = second
			}
			if at >= begin(p, i) && at < change(p, i)+after {
				return true
			}
		}
		return false
	}
	flow := func(second time.Duration) *udpflow.Flow {
		return exptest.UDP(t, schedule.Length, pause, millisecond, func(d *exptest.Datagram) {
			d.Lost = isApart(d.At, second) || exptest.Within(lead-time.Second, lead-time.Second+f.lead)(d.At)
			if f.early && d.At == begin(p, 0)+800*millisecond {
				d.Lost = false
			}
			if f.lost && d.At == change(p, 0)+2500*millisecond {
				d.Lost = true
			}
		})
	}
	v := &seen{
		mode: mode, up: flow(f.up), down: flow(f.down), bufferErrors: f.errors, broken: f.broken,
		Trace: &scene.Trace{Start: exptest.Origin, End: exptest.At(schedule.Length)},
	}
	v.bulk = exptest.TCP(t, schedule.Length, pause, func(at time.Duration) bool { return isApart(at, f.bulk) })
	for _, step := range schedule.Steps {
		v.Steps = append(v.Steps, scene.Done{Step: step, At: exptest.At(step.At), Over: exptest.At(step.At)})
	}
	return v
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "moves=3")
	var sound []*seen
	for _, mode := range []string{"soft", "duality"} {
		sound = append(sound, records(t, p, mode, fault{}))
	}
	var cases []exptest.Case
	add := func(name string, red, grey []string, all []*seen) {
		cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey, Judge: func(r *result.Result, _ int) {
			judge(&exp.Env{Params: p, Result: r}, all)
		}})
	}
	add("sound", nil, nil, sound)
	for i, s := range sound {
		with := func(f fault) []*seen {
			all := append([]*seen(nil), sound...)
			all[i] = records(t, p, s.mode, f)
			return all
		}
		id, late := s.mode+"-", 2020*millisecond
		never := p.Seconds("stay_s") + p.Seconds("apart_s")
		add(id+"up late", []string{id + "udp", id + "lost"}, nil, with(fault{up: late}))
		add(id+"down late", []string{id + "udp", id + "lost"}, nil, with(fault{down: late}))
		add(id+"TCP late", []string{id + "tcp"}, nil, with(fault{bulk: late}))
		add(id+"TCP breaks", []string{"connections"}, nil, with(fault{broken: errors.New("reset")}))
		add(id+"TCP hangs", []string{"connections", id + "tcp", id + "found"}, nil,
			with(fault{broken: errors.New("hangs"), bulk: never}))
		add(id+"never", []string{id + "udp", id + "tcp", id + "found", id + "lost"}, nil,
			with(fault{up: never, down: never, bulk: never}))
		add(id+"something in common", []string{id + "apart"}, nil, with(fault{early: true}))
		add(id+"lost later", []string{id + "lost"}, nil, with(fault{lost: true}))
		add(id+"buffers overflow", nil, []string{"soft-lost", "duality-lost"}, with(fault{errors: 1}))
		add(id+"a slow machine", nil,
			[]string{"soft-udp", "soft-tcp", "soft-lost", "duality-udp", "duality-tcp",
				"duality-lost"}, with(fault{lead: 220 * millisecond}))
	}
	exptest.Claims(t, Experiment, nil, cases...)
}

// The figure shows what took longest of each move.
func TestFigure(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "moves=3", "modes=soft")
	for name, f := range map[string]fault{
		"TCP is faster": {bulk: 100 * millisecond},
		"UDP is faster": {up: 100 * millisecond, down: 100 * millisecond},
	} {
		r := result.New("")
		judge(&exp.Env{Params: p, Result: r}, []*seen{records(t, p, "soft", f)})
		if s, ok := r.Find("soft"); !ok || len(s.Y) != 3 || s.Y[1] < ms(tolerable)-10 || s.Y[1] > ms(tolerable)+10 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
