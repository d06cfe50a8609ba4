package flood

import (
	"errors"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/result"
)

// healthy are the records of a run in which each claim holds by little.
func healthy(t testing.TB) measured {
	m := measured{
		base: time.Millisecond, most: 1e6, rate: 1e6, sent: 10_000, arrived: 9_990, acked: before + 12,
		start: memory{maps: 1 << 20, rss: 10 << 20}, end: memory{maps: 1<<20 + 12*entry + 63<<10, rss: 20 << 20},
		peak: 73 << 20,
		up:   exptest.UDP(t, 600*time.Millisecond, time.Millisecond, 0, nil),
		down: exptest.UDP(t, 600*time.Millisecond, time.Millisecond, 0, nil),
	}
	for i := range 12 {
		h := honest{first: time.Millisecond}
		if i == 3 {
			h.first = 1900 * time.Microsecond
		}
		m.during = append(m.during, h)
	}
	return m
}

// The mean is that of the peers that got an answer.
func TestMeanOfHonestPeers(t *testing.T) {
	m := healthy(t)
	m.during = []honest{{first: time.Millisecond}, {err: errors.New("no echo"), first: time.Hour},
		{first: 2 * time.Millisecond}}
	r := result.New("")
	if m.metrics(r); r.Metrics["honest_mean_ms"] != 1.5 || r.Metrics["honest_failed"] != 1 {
		t.Errorf("%v", r.Metrics)
	}
	m.during = nil
	r = result.New("")
	if m.metrics(r); r.Metrics["honest_during"] != 0 || r.Unmeasured["honest_mean_ms"] != "" {
		t.Errorf("of no peers: %v, %v", r.Metrics, r.Unmeasured)
	}
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	var cases []exptest.Case
	add := func(name string, red, grey []string, alter func(*measured)) {
		m := healthy(t)
		alter(&m)
		cases = append(cases, exptest.Case{Name: name, Red: red, Grey: grey,
			Judge: func(r *result.Result, _ int) { m.metrics(r) }})
	}
	one := func(d *exptest.Datagram) { d.Lost = d.At == 300*time.Millisecond }
	add("healthy", nil, nil, func(*measured) {})
	add("packets missing", []string{"sent"}, nil, func(m *measured) { m.arrived = 9_980 })
	add("the daemon counts none and has no session", nil, nil, func(m *measured) {
		m.daemonArrived,
			m.daemonSessions = 0, 0
	})
	add("packets missing that the daemon counts", []string{"sent"}, nil, func(m *measured) {
		m.arrived, m.daemonArrived = 9_980, 10_000
	})
	add("a peer without a session that the daemon counts", []string{"honest"}, nil, func(m *measured) {
		m.acked, m.daemonSessions = m.acked-1, before+12+1
	})
	add("one lost out", []string{"lost"}, nil, func(m *measured) {
		m.up = exptest.UDP(t, 600*time.Millisecond, time.Millisecond, 0, one)
	})
	add("one lost in", []string{"lost"}, nil, func(m *measured) {
		m.down = exptest.UDP(t, 600*time.Millisecond, time.Millisecond, 0, one)
	})
	add("maps grew", []string{"maps"}, nil, func(m *measured) { m.end.maps += 2 << 10 })
	add("the daemon grew", []string{"daemon"}, nil, func(m *measured) { m.end.rss = 75 << 20 })
	add("the daemon grew for a while", []string{"daemon"}, nil, func(m *measured) { m.peak = 75 << 20 })
	add("a peer without a session", []string{"honest"}, nil, func(m *measured) { m.acked-- })
	slow := []string{"honest", "honest-time"}
	add("a peer without an answer", slow, nil, func(m *measured) { m.during[2] = honest{err: errors.New("no echo")} })
	add("no peer with an answer", slow, nil, func(m *measured) {
		for i := range m.during {
			m.during[i] = honest{err: errors.New("no echo")}
		}
	})
	add("a slow peer", []string{"honest-time"}, nil, func(m *measured) { m.during[5].first = 2100 * time.Microsecond })
	add("few peers", nil, []string{"honest-time"}, func(m *measured) {
		m.acked, m.during, m.end.maps = before+9, m.during[:9], 1<<20
	})
	add("next to no datagrams", nil, []string{"lost"}, func(m *measured) {
		m.up = exptest.UDP(t, 300*time.Millisecond, time.Millisecond, 0, nil)
	})
	full := func(d *exptest.Datagram) { d.Dropped = d.At == 300*time.Millisecond }
	add("a socket drops one", nil, nil, func(m *measured) {
		m.up = exptest.UDP(t, 600*time.Millisecond, time.Millisecond, 0, full)
	})
	add("a socket drops one of two", []string{"lost"}, nil, func(m *measured) {
		m.up = exptest.UDP(t, 600*time.Millisecond, time.Millisecond, 0, func(d *exptest.Datagram) {
			full(d)
			d.Lost = d.At == 301*time.Millisecond
		})
	})
	exptest.Claims(t, Experiment, nil, cases...)
}
