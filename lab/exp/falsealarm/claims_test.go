package falsealarm

import (
	"fmt"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/workload/udpflow"
)

// fault is what one mode shows beside what it should; cells count from 1.
type fault struct {
	left  int // a cell in which the mobile host keeps off a link for a while
	early int // a cell in which it does so from the beginning to the end
	taken int // a cell in which the other end takes the other link for a while
	whole int // a cell whose links are not impaired
}

// records returns the records of one mode.
func records(t *testing.T, p exp.Params, mode string, f fault) *seen {
	v := &seen{mode: mode, start: exptest.Origin, events: map[string][]node.Event{
		"mn": {{Kind: "path-avoided"}, {Kind: "path-returned"}}, "cn1": {{Kind: "path-avoided"}}}}
	cellAt := func(at time.Duration) (int, time.Duration) {
		for i := range cells {
			if in := at - begin(p, i); in >= 0 && in < p.Seconds("cell_s") {
				return i + 1, in
			}
		}
		return 0, 0
	}
	flow := func() *udpflow.Flow {
		n := 0
		return exptest.UDP(t, begin(p, len(cells)), 10*time.Millisecond, p.Millis("delay_ms"), func(d *exptest.Datagram) {
			cell, in := cellAt(d.At)
			if n++; cell == 0 || cell == f.whole {
				return
			}
			switch cells[cell-1] {
			case "load":
				d.Delay += 60 * time.Millisecond
			case "loss":
				d.Lost = n%20 == 0
			case "jitter":
				d.Delay += time.Duration(n%30) * 10 * time.Millisecond
			case "queue":
				d.Delay += min(in/4, p.Seconds("queue_s"))
			}
		})
	}
	v.up, v.down = flow(), flow()
	sum := reading{up: map[string]uint64{}, own: map[string]uint64{}}
	for at := time.Duration(0); at < begin(p, len(cells)); at += every {
		cell, in := cellAt(at)
		while := in >= 5*time.Second && in < 5500*time.Millisecond
		next := reading{at: exptest.At(at), up: map[string]uint64{}, own: map[string]uint64{}}
		for link, share := range map[string]uint64{"net1": 100, "net2": 9900} {
			if mode == "duality" {
				share = 5000
			}
			mine, others := share, share
			if (while && cell == f.left || cell > 0 && cell == f.early) && link == "net2" {
				mine = 0
			}
			if while && cell == f.taken {
				others = 10000 - share + 1000
				if mode == "duality" && link == "net1" {
					others = 0
				}
			}
			next.up[link], next.own[link] = sum.up[link]+mine, sum.own[link]+others
		}
		v.readings, sum = append(v.readings, next), next
	}
	return v
}

// Each claim fails by a record of one move, by either end, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "cell_s=12", "queue_s=2")
	modes := []string{"soft", "duality"}
	judged := func(mode string, f fault) func(*result.Result, int) {
		return func(r *result.Result, _ int) {
			var all []*seen
			for _, m := range modes {
				if m == mode {
					all = append(all, records(t, p, m, f))
				} else {
					all = append(all, records(t, p, m, fault{}))
				}
			}
			judge(&exp.Env{Params: p, Result: r}, all)
		}
	}
	cases := []exptest.Case{{Name: "sound", Judge: judged("", fault{})}}
	for _, mode := range modes {
		for i, cell := range cells {
			id := mode + "-" + cell
			cases = append(cases,
				exptest.Case{Name: id + " left", Red: []string{id}, Judge: judged(mode, fault{left: i + 1})},
				exptest.Case{Name: id + " left at once", Red: []string{id}, Judge: judged(mode, fault{early: i + 1})},
				exptest.Case{Name: id + " taken", Red: []string{id}, Judge: judged(mode, fault{taken: i + 1})},
				exptest.Case{Name: id + " not impaired", Grey: []string{id}, Judge: judged(mode, fault{whole: i + 1})})
		}
	}
	exptest.Claims(t, Experiment, nil, cases...)
}

// The links of a cell carry what the mode needs, or less by what the cell says.
func TestImpairedLinks(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard")
	need := float64(8 * p.Int("udp_rate") * (p.Int("udp_size") + headers))
	for mode, n := range map[string]int{"soft": 1, "duality": 2} {
		for cell, share := range map[string]float64{"load": 0.98, "queue": 0.85} {
			var rate float64
			for _, step := range plan(p, mode).Steps {
				if step.Name == cell {
					rate = float64(step.Out.Rate) * float64(n)
				}
			}
			if rate < 0.99*share*need || rate > 1.01*share*need {
				t.Errorf("%s, %s: the links in use carry %.0f bit/s of %.0f", mode, cell, rate, need)
			}
		}
	}
	if q := impaired(p, "queue", 1); q.QueueBytes < int(1.9*float64(q.Rate)/8) {
		t.Errorf("the queue holds %d bytes at %d bit/s", q.QueueBytes, q.Rate)
	}
	if impaired(p, "jitter", 1).Validate() != nil || impaired(p, "loss", 1) == (linkem.Params{}) {
		t.Error("impossible links")
	}
}

// The table has what the datagrams met, and beside it is what the daemons say.
func TestTable(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "cell_s=12", "queue_s=2")
	v, r := records(t, p, "soft", fault{left: 2}), result.New("")
	v.up = exptest.UDP(t, begin(p, len(cells)), 10*time.Millisecond, p.Millis("delay_ms"), func(d *exptest.Datagram) {
		d.Lost = exptest.Within(begin(p, 1), begin(p, 1)+6*time.Second)(d.At) ||
			exptest.Within(begin(p, 3), begin(p, 3)+p.Seconds("cell_s"))(d.At)
	})
	judge(&exp.Env{Params: p, Result: r}, []*seen{v})
	delay := fmt.Sprintf("%.0f, %.0f", p.Float("delay_ms"), p.Float("delay_ms"))
	want := [][]string{
		{"soft", "load", "0", "0", "0.0", delay}, {"soft", "loss", "2", "0", "50.0", delay},
		{"soft", "jitter", "0", "0", "0.0", delay}, {"soft", "queue", "0", "0", "100.0", "-"},
	}
	if got := r.Tables[0].Rows; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("table\n%v, want\n%v", got, want)
	}
	moved := "[[soft loss mobile host 4.9 net2 net1] [soft loss mobile host 5.1 net1 net2]]"
	if len(r.Tables) != 2 || fmt.Sprint(r.Tables[1].Rows) != moved {
		t.Errorf("moves: %v", r.Tables[1:])
	}
	if n := r.Metrics["daemon_soft_avoided"]; n != 2 {
		t.Errorf("%v paths avoided", n)
	}
	if r.Unmeasured["soft_queue_moves"] != "" || r.Unmeasured["duality_queue_moves"] == "" {
		t.Errorf("not measured: %v", r.Unmeasured)
	}
}

// A link is in use that carries more than a twentieth of the bytes since.
func TestUsedBetween(t *testing.T) {
	before := map[string]uint64{"net1": 1000, "net2": 1000}
	for more, want := range map[uint64]string{49: "[net2]", 50: "[net2]", 51: "[net1 net2]", 951: "[net1]"} {
		after := map[string]uint64{"net1": 1000 + more, "net2": 2000 - more}
		if got := usedBetween(before, after); fmt.Sprint(got) != want {
			t.Errorf("%d of a thousand: %v", more, got)
		}
	}
}

// Ten datagrams say whether a link is impaired, nine do not.
func TestFewDatagrams(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard")
	for n, want := range map[int]bool{9: false, 10: true} {
		length := time.Duration(n) * 10 * time.Millisecond
		f := exptest.UDP(t, length, 10*time.Millisecond, p.Millis("delay_ms")+60*time.Millisecond, nil)
		if got := isThere(p, "load", f, exptest.At(0), exptest.At(length)); got != want {
			t.Errorf("%d datagrams: %v", n, got)
		}
	}
}
