package ilnphost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"roam/flowrule"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
)

// Flows says which rules decide about flows to a port of a correspondent, and by which paths
// they leave.
func (h *Host) Flows(ctx context.Context, q control.FlowRequest) (out []control.Flow, err error) {
	if q.Port < 1 || q.Port > 0xffff {
		return nil, control.Errorf(control.CodeInvalid, "port %d; a port is from 1 to 65535", q.Port)
	}
	var refusal error
	err = h.do(ctx, func(now time.Time) {
		peers := h.engine.Core().PeersWith(now, q.Peer)
		if len(peers) == 0 {
			refusal = control.Errorf(control.CodeNotFound, "no correspondent has the identifier %v", q.Peer)
			return
		}
		for _, protocol := range []struct {
			name   string
			number int
		}{{"tcp", flowrule.TCP}, {"udp", flowrule.UDP}} {
			known := flowrule.Known{Protocol: protocol.number, Port: q.Port, OwnPort: -1, DSCP: -1}
			for _, f := range flowsOf(peers[0], h.cfg.Rules, known, h.linkNames()) {
				f.Protocol = protocol.name
				out = append(out, f)
			}
		}
	})
	if err == nil {
		err = refusal
	}
	return out, err
}

// flowsOf returns what may become of a flow, the first rule first, up to one that surely decides. A rule of the peer
// counts for a flow that no rule of this host matches.
func flowsOf(p ilnp.PeerState, set flowrule.Set, k flowrule.Known, names shownNames) (out []control.Flow) {
	if p.State == ilnp.Plain {
		return []control.Flow{{Paths: shownPaths(names, p.Paths), Reason: "the session is plain IPv6, so no rule applies"}}
	}
	for _, i := range set.Candidates(set.For(p.NID, p.Names), k) {
		f := control.Flow{Rule: i + 1, Name: set[i].Name, Policy: set[i].Policy.String(), Condition: condition(set[i].Match)}
		paths, reason := pathsOf(p, i, set[i])
		f.Paths, f.Reason = shownPaths(names, paths), reason
		if out = append(out, f); set[i].Says(k) == flowrule.Yes {
			return out
		}
	}
	if len(p.Answers) > 0 {
		out = append(out, control.Flow{
			Condition: "a rule at the peer", Paths: shownPaths(names, p.Answers),
			Reason: "answered along the path that it came by, as that rule asks",
		})
	}
	return append(out, control.Flow{Paths: shownPaths(names, p.Paths), Reason: "no rule matches"})
}

// condition says what a match asks for that a protocol and a port do not show.
func condition(m flowrule.Match) string {
	var parts []string
	for _, kv := range config.MatchLines(flowrule.Match{Cgroup: m.Cgroup, OwnPorts: m.OwnPorts, DSCP: m.DSCP}) {
		parts = append(parts, kv[0]+" = "+kv[1])
	}
	return strings.Join(parts, ", ")
}

// pathsOf returns the paths by which a rule, of that number, sends, and why by these.
func pathsOf(p ilnp.PeerState, rule int, r flowrule.Rule) ([]ilnp.Path, string) {
	if r.Policy == flowrule.Adaptive {
		return p.Paths, "the rule leaves these flows to the session"
	}
	table := p.RuleTables[rule]
	if table == nil {
		return p.Paths, "none of its links works, so these flows leave as without a rule"
	}
	carriers := table.Paths
	switch r.Policy {
	case flowrule.Failover:
		return carriers, "the first of its links that works"
	case flowrule.LowDelay:
		if rtt := p.RTTs[carriers[0]]; rtt > 0 {
			why := fmt.Sprintf("the shortest round trip, %v", rtt.Round(100*time.Microsecond))
			return carriers, why
		}
		return carriers, "the shortest round trip"
	case flowrule.Flow:
		return carriers, "each flow keeps to one of them"
	case flowrule.Weighted:
		return carriers, "packets take turns, and each link gets its share of the bytes"
	}
	return carriers, "packets take turns, and each link gets the same"
}

func shownPaths(names shownNames, paths []ilnp.Path) []control.Path {
	out := make([]control.Path, len(paths))
	for i, p := range paths {
		out[i] = pathFrom(p, names)
	}
	return out
}
