package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// ruledPort is the port of the flow that has a rule.
const ruledPort = 5001

// answered is a pair of hosts, a flow with a rule and one without, both with answers.
type answered struct {
	*forked
	flow, other *Flow
	last        map[*Flow]roam.L64 // where the last answer came in
	stray       int                // answers of the other flow elsewhere than by the link in use
}

func newAnswered(t *testing.T, mode ilnp.Mode) *answered {
	t.Helper()
	a := &answered{forked: newForked(t, mode, multipath.Normal, 1, near), last: make(map[*Flow]roam.L64)}
	a.up.Stop()
	a.down.Stop()
	a.Delivered = func(h *Node, _ ilnp.SessionKey, d Datagram) {
		if h == a.mobile && d.answer {
			a.last[d.flow] = d.sentTo
		}
	}
	a.flow = a.mobile.run(&Flow{From: a.mobile, To: a.server, Echo: true, Port: ruledPort}, time.Millisecond)
	a.other = a.mobile.run(&Flow{From: a.mobile, To: a.server, Echo: true, Port: ruledPort + 1}, 700*time.Microsecond)
	return a
}

// comes waits until answers of the flow come in at a locator, and wants them to go on doing so.
func (a *answered) comes(t *testing.T, within time.Duration, want roam.L64, when string) {
	t.Helper()
	from := a.Elapsed()
	is := func() bool {
		came := a.flow.Back.Sub(sim.Start) > from && a.last[a.flow] == want
		for range 20 { // answers in a row
			if came {
				a.Run(time.Millisecond)
				came = a.last[a.flow] == want
			}
		}
		return came
	}
	if !a.RunUntil(within, is) {
		t.Errorf("%s: no answers at %v within %v, the last one at %v", when, want, within, a.last[a.flow])
		return
	}
	t.Logf("%s: after %v", when, a.Elapsed()-from)
}

// TestAnswersOnThePathOfARule: the peer answers a flow with a rule on the path that it came by, a link in
// reserve in the soft mode, and every other flow as before. Without the rule, or when its link
// is gone, answers are back to normal within a second.
func TestAnswersOnThePathOfARule(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		t.Run(mode.String(), func(t *testing.T) {
			a := newAnswered(t, mode)
			a.Run(time.Second)
			at := make(map[roam.L64]int)
			count := a.Delivered
			a.Delivered = func(h *Node, k ilnp.SessionKey, d Datagram) {
				count(h, k, d)
				if h == a.mobile && d.answer && d.flow == a.other {
					at[d.sentTo]++
				}
			}
			a.mobile.setRule(1, ruledPort, netA)
			a.comes(t, 1200*time.Millisecond, netA, "with the rule") // the peer's daemon looks once a second
			if paths := a.server.peer(a.mobile).Paths; mode == ilnp.Soft && (len(paths) != 1 || at[netA] > 0) {
				t.Errorf("the flow without a rule: paths %v, answers at %v", paths, at)
			}
			a.mobile.setRule(2, ruledPort, netB)
			a.comes(t, 200*time.Millisecond, netB, "with another rule")
			a.mobile.setRule(3, ruledPort, netA)
			a.comes(t, time.Second, netA, "with the first rule")
			a.mobile.setRule(4, ruledPort, netA, netB)
			a.Run(time.Second)
			a.mobile.Down(1)
			a.comes(t, time.Second, netB, "failover")
			a.mobile.Up(1, netA, near, roam.Infinite)
			a.mobile.setRule(5, 0)
			a.Run(time.Second)
			clear(at)
			a.Delivered = func(_ *Node, _ ilnp.SessionKey, d Datagram) {
				if d.answer {
					at[d.sentTo]++
				}
			}
			a.Run(time.Second)
			if mode == ilnp.Duality && (at[netA] < 300 || at[netB] < 300) || mode == ilnp.Soft && len(at) != 1 {
				t.Errorf("without rules: answers at %v", at)
			}
			if a.server.plane.entries[ilnp.SessionKey{Local: serverNID, Remote: mobileNID}].Answers {
				t.Error("the peer of a host without rules still looks for marks")
			}
		})
	}
}

// viewOf returns what a host knows of a path to another one, by the locator of the mobile host.
func viewOf(h, o *Node, at roam.L64) (v ilnp.PathView) {
	for _, v := range h.peer(o).Views {
		if v.Local.L64 == at || v.Remote == at {
			return v
		}
	}
	return v
}

// TestPathsOfRulesAreShown: a path that only a rule uses is in use at both ends, with its rate. Without the rule it is
// not.
func TestPathsOfRulesAreShown(t *testing.T) {
	a := newAnswered(t, ilnp.Soft)
	a.other.Stop()
	a.mobile.setRule(1, ruledPort, netA)
	a.comes(t, 3*time.Second, netA, "with the rule")
	a.Run(3 * time.Second)
	for _, c := range []struct {
		name     string
		from, to *Node
		why      string
		out, in  float64 // 1,000 datagrams a second of 1,000 bytes, with answers of 100
	}{
		{"mobile", a.mobile, a.server, "in use, only for rule 1", 1e6, 1e5},
		{"server", a.server, a.mobile, "in use, for answers to the peer's rules", 1e5, 1e6},
	} {
		ruled, other := viewOf(c.from, c.to, netA), viewOf(c.from, c.to, netB)
		carries := isNear(ruled.Out.Rate, c.out, 0.1) && isNear(ruled.In.Rate, c.in, 0.1)
		if !ruled.InUse || ruled.Why != c.why || ruled.Share != 0 || !carries {
			t.Errorf("%s: the path of the rule is %+v", c.name, ruled)
		}
		if !other.InUse || other.Why != "in use" || other.Share != 1 || other.Out.Rate > 0 {
			t.Errorf("%s: the other path is %+v", c.name, other)
		}
	}
	if p := a.server.peer(a.mobile); len(p.Answers) != 2 || len(a.mobile.peer(a.server).Answers) > 0 {
		t.Errorf("the server answers along %v, the mobile host along %v", p.Answers, a.mobile.peer(a.server).Answers)
	}
	a.mobile.setRule(2, 0)
	a.Run(8 * time.Second)
	for name, v := range map[string]ilnp.PathView{
		"mobile": viewOf(a.mobile, a.server, netA), "server": viewOf(a.server, a.mobile, netA),
	} {
		if v.InUse || len(v.Rules) > 0 {
			t.Errorf("%s: without the rule its path is %+v", name, v)
		}
	}
	if p := a.server.peer(a.mobile).Answers; len(p) > 0 {
		t.Errorf("without the rule the server answers along %v", p)
	}
}

// TestAnswersWhenThePathDies: when the path of a rule dies in silence, in either direction, answers are
// back to normal within a second, and on the path of the rule again when it lives. Each death is
// the first of its path: one that flaps is judged more slowly.
func TestAnswersWhenThePathDies(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for name, way := range map[string]sim.Direction{"up": sim.Forward, "down": sim.Backward, "both": sim.Both} {
			t.Run(mode.String()+" "+name, func(t *testing.T) {
				a := newAnswered(t, mode)
				a.Run(time.Second)
				a.mobile.setRule(1, ruledPort, netA)
				a.comes(t, 1200*time.Millisecond, netA, "with the rule")
				a.cut(1, way)
				if mode == ilnp.Soft || way != sim.Forward { // the peer goes on using a path that lives in its direction
					a.comes(t, time.Second, netB, "path died")
				}
				a.Run(time.Second)
				if late := a.Now().Sub(a.flow.Back); late > 50*time.Millisecond {
					t.Errorf("path died: no answer for %v", late)
				}
				a.mobile.at(1).wire.Mend(way)
				a.comes(t, 10*time.Second, netA, "path lives again")
			})
		}
	}
}

// TestOwnRuleOfThePeerWins: a peer with a rule of its own for a flow follows that one.
func TestOwnRuleOfThePeerWins(t *testing.T) {
	a := newAnswered(t, ilnp.Soft)
	a.mobile.setRule(1, ruledPort, netA)
	a.comes(t, 1200*time.Millisecond, netA, "with a rule of the sender")
	a.server.setRule(1, 0, netS) // the flows' other port is 0
	a.comes(t, time.Second, netB, "with a rule of the peer")
	a.server.setRule(2, 1, netS)
	a.comes(t, time.Second, netA, "with a rule of the peer for another flow")
}

// TestAnswersGoToValidatedLocatorsOnly: a peer may ask for answers, and mark packets, from where it
// likes; its host sends nothing to a place that has not been validated.
func TestAnswersGoToValidatedLocatorsOnly(t *testing.T) {
	a := newAnswered(t, ilnp.Soft)
	a.mobile.setRule(1, ruledPort, netA)
	a.comes(t, 1200*time.Millisecond, netA, "with the rule")
	key := ilnp.SessionKey{Local: serverNID, Remote: mobileNID}
	e := a.server.plane.entries[key]
	if len(e.Back) != 1 || e.Back[0].Remote != netA {
		t.Fatalf("paths back %v", e.Back)
	}
	var to []roam.L64
	a.Tap = func(p Packet) *Packet {
		if p.Data.answer {
			to = append(to, p.Dst.L64)
		}
		return &p
	}
	out := a.mobile.plane.state.Egress(ns(a.Now()), Packet{
		Src:  roam.ILV{L64: roam.DefaultSessionPrefix, NID: mobileNID},
		Dst:  roam.ILV{L64: roam.DefaultSessionPrefix, NID: serverNID},
		Data: Datagram{Size: 100, flow: a.flow},
	}.asSeen(0))
	for range 50 {
		a.Inject(Packet{
			Src: roam.ILV{NID: mobileNID, L64: netC}, Dst: roam.ILV{NID: serverNID, L64: netS},
			label: out.Label, Data: Datagram{Size: 100, flow: a.flow},
		})
		a.Run(time.Millisecond)
	}
	if out.Label == 0 || slices.Contains(to, netC) || len(to) == 0 {
		t.Errorf("label %#x, answers to %v", out.Label, to)
	}
}
