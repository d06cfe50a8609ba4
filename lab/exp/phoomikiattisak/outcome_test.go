package phoomikiattisak

import (
	"slices"
	"testing"

	"roam/lab/cc"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
)

// A handoff is at its first Locator Update, a cut at its step. Only of a hard one segments on the
// old locator are stale. The daemon's outage is that of a cut. The control's windows begin three
// seconds after the old network is gone.
func TestMomentsOfAFlow(t *testing.T) {
	env := &exp.Env{Params: exptest.Params(t, Experiment.Params, "standard", "flow_s=16")}
	for _, c := range []struct {
		kind          string
		at            float64
		stale         bool
		daemonMs      float64
		before, after int
	}{
		{soft, 6.03, false, 0, 3, 4}, {hard, 6.03, true, 0, 3, 4}, {cut, 6, false, 37, 3, 6},
	} {
		x := newScript(env, "wan-wan", c.kind, "cubic")
		x.says = 7 * ms
		o := x.outcome(t)
		if o.At != c.at || o.Stale > 0 != c.stale || o.DaemonOutageMs != c.daemonMs || len(o.OldGaps) != c.before ||
			len(o.NewGaps) != c.after {
			t.Errorf("%s: at %g s, %d stale, daemon %g ms, %d and %d windows", c.kind, o.At, o.Stale, o.DaemonOutageMs,
				len(o.OldGaps), len(o.NewGaps))
		}
	}
}

// An update that is never acknowledged takes for ever, whatever becomes of a later one.
func TestUnacknowledged(t *testing.T) {
	list := []packets.Packet{message(planned, false, 2, 1), message(planned+ms, false, 2, 1), message(leaves, false, 2),
		message(leaves+3*ms, true, 2)}
	took, messages, first := exchanges(list, exptest.At(planned))
	if !slices.Equal(took, []float64{never, 3}) || messages != 3 || !first.Equal(exptest.At(planned)) {
		t.Errorf("%v, %d messages, first at %v", took, messages, first)
	}
	if a, b := duration(took[0]), duration(took[1]); a != "never" || b != "3.0 ms" {
		t.Errorf("%q, %q", a, b)
	}
}

// The drawing of a handoff has what was sent and what came from half a second before it to a second
// after it, and twice the outage more; only the first repetition is drawn.
func TestDrawingOfAHandoff(t *testing.T) {
	env := &exp.Env{Params: exptest.Params(t, Experiment.Params, "standard", "flow_s=16")}
	for kind, c := range map[string]struct {
		from, to float64
		resent   bool
	}{soft: {5.53, 7.03, false}, cut: {5.5, 7.06, true}} {
		o := newScript(env, "wan-wan", kind, "cubic").outcome(t)
		if _, resent := o.Sequence["retransmitted"]; resent != c.resent {
			t.Errorf("%s: retransmissions are drawn: %v, want %v", kind, resent, c.resent)
		}
		for _, what := range []string{"sent", "came by net1", "came by net2"} {
			at := o.Sequence[what][0]
			if len(at) < 2 || slices.Min(at) < c.from || slices.Max(at) > c.to {
				t.Errorf("%s: %s at %v", kind, what, at)
			}
		}
		sent := len(o.Sequence["sent"][0])
		came := len(o.Sequence["came by net1"][0]) + len(o.Sequence["came by net2"][0])
		if came > sent/3 || came < sent/6 {
			t.Errorf("%s: of %d segments %d arrivals are drawn, want one of four", kind, sent, came)
		}
		if at := o.Sequence["sent"][0]; slices.Min(at) > c.from+0.02 || slices.Max(at) < c.to-0.02 {
			t.Errorf("%s: sent from %g to %g s", kind, slices.Min(at), slices.Max(at))
		}
	}
	x := newScript(env, "wan-wan", soft, "cubic")
	again := &cell{env: env, scenario: x.scenario, kind: x.kind, repetition: 1,
		control: &cc.Control{Name: x.variant, Algorithm: x.variant}}
	if o, err := again.judge(x.pass(t)); err != nil || o.Sequence != nil || len(o.Profile) != 2 {
		t.Errorf("the second repetition: %d series, %d profiles, %v", len(o.Sequence), len(o.Profile), err)
	}
}
