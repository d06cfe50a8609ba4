package instants

import (
	"strings"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick", "instants=4")
	length, ms := plan(p).Length, time.Millisecond
	rtt := time.Duration(2 * p.Float("delay_ms") * float64(ms))
	var cases []exptest.Case
	// Both probes pause for 1.15 round trips after the second handoff in all runs.
	pause := exptest.Within(begin(p, 1)+10*ms, begin(p, 1)+10*ms+rtt*115/100-ms)
	udp := func(more func(*exptest.Datagram)) *udpflow.Flow {
		return exptest.UDP(t, length, ms, ms, func(d *exptest.Datagram) {
			if pause(d.At) { // those within the pause arrive together at its end
				d.Delay = begin(p, 1) + 10*ms + rtt*115/100 - d.At
			}
			if more != nil {
				more(d)
			}
		})
	}
	tcp := func(more func(time.Duration) bool) tcpflow.Stream {
		return exptest.TCP(t, length, ms, func(d time.Duration) bool { return pause(d) || more != nil && more(d) })
	}
	add := func(name string, red, grey []string, alter func(*seen)) {
		s := &seen{Trace: trace(p, exptest.Origin, allMove), hasTCP: true, whole: 2, up: udp(nil), down: udp(nil),
			out: tcp(nil), in: tcp(nil)}
		alter(s)
		cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey, Judge: func(r *result.Result, _ int) {
			s.judge(&exp.Env{Params: p, Result: r})
		}})
	}
	one := func(at time.Duration) func(*exptest.Datagram) {
		return func(d *exptest.Datagram) { d.Lost = d.At == at }
	}
	add("sound", nil, nil, func(*seen) {})
	for i := range 4 {
		from := begin(p, i) + 40*ms
		add("one never moves out", []string{"instants"}, nil, func(s *seen) {
			s.Trace = trace(p, exptest.Origin, stays{n: i, out: true})
		})
		add("one never moves in", []string{"instants"}, nil, func(s *seen) {
			s.Trace = trace(p, exptest.Origin, stays{n: i, in: true})
		})
		add("the daemon never says so", nil, nil, func(s *seen) {
			s.Trace = trace(p, exptest.Origin, stays{n: i, silently: true})
		})
		add("one lost out", []string{"udp-lost"}, nil, func(s *seen) { s.up = udp(one(from)) })
		add("one lost in", []string{"udp-lost"}, nil, func(s *seen) { s.down = udp(one(from)) })
		gap := exptest.Within(from, from+rtt*125/100)
		late := func(d *exptest.Datagram) {
			if gap(d.At) {
				d.Delay = from + rtt*125/100 - d.At
			}
		}
		add("UDP out pauses", []string{"udp-gap"}, nil, func(s *seen) { s.up = udp(late) })
		add("UDP in pauses", []string{"udp-gap"}, nil, func(s *seen) { s.down = udp(late) })
		add("TCP out pauses", []string{"tcp-gap"}, nil, func(s *seen) { s.out = tcp(gap) })
		add("TCP in pauses", []string{"tcp-gap"}, nil, func(s *seen) { s.in = tcp(gap) })
	}
	add("a connection is not whole", []string{"tcp-whole"}, nil, func(s *seen) { s.whole = 1 })
	first := begin(p, 0) + 40*ms
	add("a socket drops one", nil, nil, func(s *seen) {
		s.up = udp(func(d *exptest.Datagram) { d.Dropped = d.At == first })
	})
	add("a socket drops one of two", []string{"udp-lost"}, nil, func(s *seen) {
		s.up = udp(func(d *exptest.Datagram) { d.Dropped, d.Lost = d.At == first, d.At == first+ms })
	})
	queue := func(seq time.Duration) *scene.Losses {
		l := scene.NewLosses(udpPort)
		l.Add(0, uint64(seq/ms))
		return l
	}
	add("a queue drops one", nil, nil, func(s *seen) { s.up, s.queues = udp(one(first)), queue(first) })
	add("a queue drops another", []string{"udp-lost"}, nil, func(s *seen) {
		s.up, s.queues = udp(one(first)), queue(first+ms)
	})
	add("nothing of TCP was logged", []string{"tcp-whole", "tcp-gap"}, nil, func(s *seen) {
		s.whole, s.out, s.in = 0, nil, nil
	})
	add("no TCP", nil, []string{"tcp-whole", "tcp-gap"}, func(s *seen) { s.hasTCP, s.out, s.in = false, nil, nil })
	exptest.Claims(t, Experiment, nil, cases...)
}

// The table lists what cost most: losses first, then the longer gap of the two.
func TestWorstInstants(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick")
	gap := func(udp, tcp int) instant {
		return instant{udpGap: time.Duration(udp) * time.Millisecond, tcpGap: time.Duration(tcp) * time.Millisecond}
	}
	list := []instant{gap(9, 1), gap(1, 8), gap(7, 2), {lost: 1}, gap(5, 3), gap(4, 6)}
	var order []string
	for _, row := range worst(list, p, true).Rows {
		order = append(order, row[2]+" "+row[3])
	}
	if want := "0.00 0.00, 9.00 1.00, 1.00 8.00, 7.00 2.00, 4.00 6.00, 5.00 3.00"; strings.Join(order, ", ") != want {
		t.Errorf("%q", order)
	}
	long := make([]instant, 20)
	if n := len(worst(long, p, false).Rows); n != 8 {
		t.Errorf("%d rows", n)
	}
}
