package yanagida

import (
	"fmt"
	"slices"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
)

// duality are the faults that only duality can have.
func (s *suite) duality() {
	f := s.f
	var off scene.Step
	for _, st := range f.plan.Steps {
		if st.Op == scene.Disable && off.Op != scene.Disable {
			off = st
		}
	}
	s.moving("uneven", "A12-equal-split", func(x *script) {
		// Seven of a hundred packets of the second phase come by the other link.
		for _, list := range []*[]packets.Packet{&x.s.mn, &x.s.cn} {
			n := 0
			for i, p := range *list {
				if at := p.At.Sub(exptest.Origin); !isData(p, false) || at < 4*time.Second || at >= 6*time.Second ||
					x.s.linkOf(p.SourceL64()) != "net2" {
					continue
				}
				if n++; n%14 == 0 {
					(*list)[i].Src = addr(l1, "mn").Addr()
					if p.Where == "net2" {
						(*list)[i].Where = "net1"
					}
				}
			}
		}
	}, nil)
	s.moving("comes after the removal", "A13-graceful-removal", func(x *script) {
		i := find(x.s.mn, true, number(off.At-100*ms))
		p := x.s.mn[i]
		p.At, p.Where = exptest.At(off.At+ms+x.cell.rtt+5*ms), off.Link
		x.s.mn = append(x.s.mn, p)
	}, nil)
	s.moving("sent after the removal", "A13-graceful-removal A13-nothing-sent", func(x *script) {
		i, n := find(x.s.cn, true, number(off.At-100*ms)), number(off.At-100*ms)
		p := x.s.cn[i]
		p.At, p.Dst = exptest.At(off.At+ms+x.cell.rtt/2+5*ms), addr(network[off.Link], "mn").Addr()
		x.s.cn = append(x.s.cn, p)
		p = x.s.mn[find(x.s.mn, true, n)]
		p.At, p.Where = exptest.At(off.At+ms+x.cell.rtt+5*ms), off.Link
		x.s.mn = append(x.s.mn, p)
	}, nil)
	s.moving("refreshed before the command takes effect", "", refreshedBefore(off), nil)
	s.moving("a removal not acknowledged", "A13-graceful-removal A1-two-messages", func(x *script) {
		last := f.plan.Steps[len(f.plan.Steps)-1].At
		x.s.mn = slices.DeleteFunc(x.s.mn, func(p packets.Packet) bool {
			u, ok := p.Update()
			return ok && u.Ack && p.At.After(exptest.At(last))
		})
	}, nil)
	held := &script{cell: f.roam(200*ms, 0).cell, held: true, swing: 0.04}
	held.run()
	s.with("waits for the acknowledgement", "A3-no-wait-for-ack", nil, map[string]*outcome{"roam200": f.judged(held, nil)},
		f.besides)
	s.unused()
	short := f.roam(0, 0.04)
	short.s.cell.plan.phases = slices.Clone(f.plan.phases)
	short.s.cell.plan.phases[3].to = short.s.cell.plan.phases[3].from + settle
	s.with("a short phase", "", f.guarded(s.t, "phases_too_short"), map[string]*outcome{"roam0": f.judged(short, nil)},
		f.besides)
	if !f.tcp {
		return
	}
	s.deadMPTCP("mptcp200", 200*ms)
	for _, rtt := range rtts {
		key := fmt.Sprintf("mptcp%d", rtt)
		x := f.mptcp(time.Duration(rtt)*ms, 0.02)
		s.with("MPTCP is more even", "A24-mptcp-less-even", nil, map[string]*outcome{key: f.judged(x, nil)}, f.besides)
	}
	none := map[string]*outcome{}
	for _, rtt := range rtts {
		none[fmt.Sprintf("mptcp%d", rtt)] = nil
	}
	s.with("no MPTCP", "", []string{"A24-mptcp-less-even", "mptcp-alive"}, none, f.besides)
	s.spreads()
}

// unused are phases whose new link carries no data, or only at the end. Such a link has not come into use before
// the acknowledgement either.
func (s *suite) unused() {
	i := slices.IndexFunc(s.f.plan.phases, func(p phase) bool {
		return slices.Equal(p.links, []string{"net2", "net3"}) && p.added != ""
	})
	p := s.f.plan.phases[i]
	late := func(rtt time.Duration) time.Duration { return p.to - settle - rtt - 100*ms }
	for _, c := range []struct {
		name     string
		rtt, use time.Duration // from when the link is used
		red      string
	}{
		{"never", 0, p.to, "A12-equal-split"},
		{"never", 200 * ms, p.to, "A12-equal-split A3-no-wait-for-ack"},
		{"at its end", 0, late(0), "A12-equal-split"},
		{"at its end", 200 * ms, late(200 * ms), "A12-equal-split A3-no-wait-for-ack A24-mptcp-less-even"},
	} {
		key := fmt.Sprintf("roam%d", c.rtt/ms)
		s.cases = append(s.cases, exptest.Case{Name: "a link is used " + c.name + " " + key, Red: s.f.known(s.t, c.red),
			Judge: func(r *result.Result, _ int) {
				x := s.f.roam(c.rtt, 0.04)
				x.reroute(p.from, c.use, p.added, "net3")
				s.f.metrics(r, map[string]*outcome{key: s.f.judged(x, nil)}, s.f.besides)
			}})
	}
}

// spreads are ten runs, of which one has other throughput than the rest.
func (s *suite) spreads() {
	var ids []string
	for _, e := range s.f.claims(s.t) {
		if e.Of != "" {
			ids = append(ids, e.ID)
		}
	}
	longer := func(rtt, more int) map[string]*outcome {
		d := time.Duration(rtt) * ms
		out := map[string]*outcome{}
		for key, x := range map[string]*script{fmt.Sprintf("roam%d", rtt): s.f.roam(d, 0.04),
			fmt.Sprintf("static%d", rtt): s.f.static(d)} {
			for _, list := range []*[]packets.Packet{&x.s.mn, &x.s.cn} {
				for i := range *list {
					(*list)[i].Length += more
				}
			}
			out[key] = s.f.judged(x, nil)
		}
		return out
	}
	add := func(name string, red, grey []string, altered map[string]*outcome, always bool) {
		judge := func(r *result.Result, n int) {
			if n != 4 && !always {
				s.f.metrics(r, nil, s.f.besides)
				return
			}
			s.f.metrics(r, altered, s.f.besides)
		}
		s.cases = append(s.cases, exptest.Case{Name: name, Red: red, Grey: grey, Runs: 10, Judge: judge})
	}
	for _, rtt := range rtts {
		red := []string{fmt.Sprintf("A9-spread-out-%dms", rtt), fmt.Sprintf("A9-spread-in-%dms", rtt)}
		add("one run is a little longer", nil, nil, longer(rtt, 45), false)
		add("one run is longer", red, nil, longer(rtt, 55), false)
	}
	for metric, alter := range map[string]func(*outcome){
		"emulator_drops":  func(o *outcome) { o.Drops = map[string]uint64{"queue": 1} },
		"capture_dropped": func(o *outcome) { o.CaptureDropped = 1 },
	} {
		o := *s.f.sound["roam20"]
		alter(&o)
		add(metric, nil, slices.Concat(ids, s.f.guarded(s.t, metric)), map[string]*outcome{"roam20": &o}, true)
	}
}

// refreshedBefore has the host refresh the set between a command to withdraw a link and the
// removal.
func refreshedBefore(off scene.Step) func(*script) {
	return func(x *script) {
		for i, d := range x.s.trace.Steps {
			if d.Step.At == off.At {
				x.s.trace.Steps[i].At = exptest.At(off.At - 400*ms)
			}
		}
		var set []string
		for _, l := range links {
			if x.weight(off.At - 300*ms)[l] > 0 {
				set = append(set, l)
			}
		}
		x.signal(off.At-300*ms, set[0], set...)
		x.sort()
	}
}
