package ilnphost

import (
	"testing"

	"roam"
	"roam/flowrule"
	"roam/ilnp"
	"roam/internal/control"

	"github.com/google/go-cmp/cmp"
)

// TestFlowsOf: a flow that no rule of this host matches may be answered as a rule of the peer asks; no rule is for
// plain IPv6.
func TestFlowsOf(t *testing.T) {
	path := func(remote roam.L64) ilnp.Path {
		return ilnp.Path{Local: roam.LinkLocator{Link: 2, L64: 5}, Remote: remote}
	}
	shown := func(list ...roam.L64) (out []control.Path) {
		for _, l := range list {
			out = append(out, control.Path{Link: "wlan0", Local: 5, Remote: l})
		}
		return out
	}
	https := flowrule.Match{Ports: []flowrule.Range{{First: 443, Last: 443}}}
	set := flowrule.Set{{Match: https, Policy: flowrule.Failover}}
	idle := control.Flow{
		Rule: 1, Policy: "failover", Paths: shown(9),
		Reason: "none of its links works, so these flows leave as without a rule",
	}
	none := control.Flow{Paths: shown(9), Reason: "no rule matches"}
	answer := control.Flow{
		Condition: "a rule at the peer", Paths: shown(9, 8),
		Reason: "answered along the path that it came by, as that rule asks",
	}
	plain := control.Flow{Paths: shown(9), Reason: "the session is plain IPv6, so no rule applies"}
	answers := []ilnp.Path{path(9), path(8)}
	for _, c := range []struct {
		name  string
		state ilnp.SessionState
		back  []ilnp.Path
		port  int
		want  []control.Flow
	}{
		{"no rule", ilnp.Established, nil, 80, []control.Flow{none}},
		{"a rule without links", ilnp.Established, nil, 443, []control.Flow{idle}},
		{"a rule at the peer", ilnp.Established, answers, 80, []control.Flow{answer, none}},
		{"a rule at both ends", ilnp.Established, answers, 443, []control.Flow{idle}},
		{"plain", ilnp.Plain, nil, 443, []control.Flow{plain}},
	} {
		p := ilnp.PeerState{NID: 7, State: c.state, Paths: []ilnp.Path{path(9)}, Answers: c.back}
		k := flowrule.Known{Protocol: flowrule.TCP, Port: c.port, OwnPort: -1, DSCP: -1}
		if d := cmp.Diff(c.want, flowsOf(p, set, k, testNames)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}
