package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// typeUpdate is the ICMPv6 type of Locator Updates (RFC 6743 §8).
const typeUpdate = 156

const (
	doOutput = "accept it out of every uplink before that rule: nft `icmpv6 type { 156, echo-request } accept` " +
		"(docs/firewall.md)"
	doReverse = "let session addresses pass before it: nft `ip6 saddr %s accept` in that chain, if it filters nothing " +
		"else (docs/firewall.md)"
	doTrust = "exempt the session addresses (%s) before it"
)

// lookFirewall finds rules of this host that block control packets or sessions. Rules about
// arriving control packets do not matter: the data plane takes those before the first hook.
func lookFirewall(e *examination, f Facts) {
	session := f.Config.SessionNet()
	rules := TrustedByNft([]byte(f.NFT), session)
	if len(rules) == 0 {
		rules = TrustedByIPTables(f.IPTables, session)
	}
	for _, r := range rules {
		e.add(Warning, "firewall", fmt.Sprintf(doTrust, session), "a rule trusts more than it should: %s; session "+
			"addresses lie in it, so it admits every correspondent", r)
	}
	parseNft(f.NFT).judge(e, session)
	judgeIPTables(e, f.IPTables, session)
	if f.Root && (f.NFT != "" || f.IPTables != "") && e.clean("firewall") {
		e.ok("firewall", "no rule of this host drops packets of sessions")
	}
}

// nft is a rule set, indexed by chain.
type nft struct {
	chains []*nftChain
	rules  []*nftRule
}

func parseNft(text string) nft {
	var doc struct {
		Items []nftItem `json:"nftables"`
	}
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nft{}
	}
	var out nft
	for _, it := range doc.Items {
		if it.Chain != nil {
			out.chains = append(out.chains, it.Chain)
		}
		if it.Rule != nil {
			out.rules = append(out.rules, it.Rule)
		}
	}
	return out
}

func (r *nftRule) in(c *nftChain) bool {
	return r.Family == c.Family && r.Table == c.Table && r.Chain == c.Name
}

func (n nft) judge(e *examination, session netip.Prefix) {
	for _, c := range n.chains {
		if c.Family != "inet" && c.Family != "ip6" || c.Hook == "" {
			continue
		}
		rules := slices.DeleteFunc(slices.Clone(n.rules), func(r *nftRule) bool { return !r.in(c) })
		switch c.Hook {
		case "output", "postrouting":
			n.judgeOutput(e, c, rules)
		case "forward":
			for _, r := range rules {
				if what := dropsControl(r); what != "" {
					e.add(Note, "firewall", "accept it there, if hosts behind this one use Roam",
						"%v drops %s of others that pass through this host", r, what)
				}
			}
		case "prerouting", "input":
			judgeReverse(e, rules, session)
		}
	}
}

// judgeOutput finds rules that drop outgoing Locator Updates and probes.
func (n nft) judgeOutput(e *examination, c *nftChain, rules []*nftRule) {
	for _, r := range rules {
		if acceptsControl(r) {
			return
		}
		if what := dropsControl(r); what != "" {
			e.add(Fault, "firewall", doOutput, "%v drops %s: peers do not learn of moves", r, what)
			return
		}
	}
	if c.Policy != "drop" {
		return
	}
	// A chain that rules jump to may accept it, so any accepting rule suffices.
	for _, r := range n.rules {
		if r.Family == c.Family && r.Table == c.Table && acceptsControl(r) {
			return
		}
	}
	e.add(Fault, "firewall", doOutput, "chain %s %s %s drops whatever no rule accepts, and none accepts ICMPv6 type 156 "+
		"(Locator Updates) behind a destination options header", c.Family, c.Table, c.Name)
}

// dropsControl names the control messages that a rule drops; "" for none.
func dropsControl(r *nftRule) string {
	if !hasVerdict(r.Expr, "drop", "reject") {
		return ""
	}
	for _, m := range nftMatches(r.Expr) {
		p := m.Left.Payload
		switch {
		case m.Left.Exthdr.Name == "dst" && string(m.Right) == "true":
			return "destination options"
		case p.Protocol == "ip6" && p.Field == "nexthdr" && covers(m.Right, "ipv6-opts", 60):
			return "destination options"
		case p.Protocol == "icmpv6" && p.Field == "type" && covers(m.Right, "", typeUpdate):
			return "ICMPv6 type 156 (Locator Updates)"
		}
	}
	return ""
}

// acceptsControl reports whether a rule accepts Locator Updates: a rule without conditions,
// or on ICMPv6. `ip6 nexthdr icmpv6` does not match behind a Destination Options header,
// and connection tracking does not know that type.
func acceptsControl(r *nftRule) bool {
	if !accepts(r.Expr) {
		return false
	}
	conditions := 0
	for _, item := range r.Expr {
		if _, ok := item["match"]; ok {
			conditions++
		}
	}
	if conditions == 0 {
		return true
	}
	for _, m := range nftMatches(r.Expr) {
		p := m.Left.Payload
		if p.Protocol == "icmpv6" && p.Field == "type" && covers(m.Right, "", typeUpdate) ||
			m.Left.Meta.Key == "l4proto" && covers(m.Right, "ipv6-icmp", 58) ||
			m.Left.Exthdr.Name == "dst" || p.Protocol == "ip6" && p.Field == "nexthdr" && covers(m.Right, "ipv6-opts", 60) {
			return true
		}
	}
	return false
}

// covers reports whether the right side of a match equals or contains a value, by name or
// by number.
func covers(right json.RawMessage, name string, number int) bool {
	var v any
	if json.Unmarshal(right, &v) != nil {
		return false
	}
	return coversValue(v, name, float64(number))
}

func coversValue(v any, name string, number float64) bool {
	switch v := v.(type) {
	case string:
		return name != "" && v == name || name == "ipv6-icmp" && v == "icmpv6"
	case float64:
		return v == number
	case map[string]any:
		if set, ok := v["set"].([]any); ok {
			return slices.ContainsFunc(set, func(x any) bool { return coversValue(x, name, number) })
		}
		if r, ok := v["range"].([]any); ok && len(r) == 2 {
			lo, ok1 := r[0].(float64)
			hi, ok2 := r[1].(float64)
			return ok1 && ok2 && lo <= number && number <= hi
		}
	}
	return false
}

// judgeReverse finds reverse path filters: the route to session addresses is on the session
// device, not on the link on which the packets arrive.
func judgeReverse(e *examination, rules []*nftRule, session netip.Prefix) {
	for _, r := range rules {
		if accepts(r.Expr) && slices.ContainsFunc(sources(r.Expr, r.Table, nil), func(p netip.Prefix) bool {
			return p.Bits() <= session.Bits() && p.Contains(session.Addr())
		}) {
			return
		}
		for _, m := range nftMatches(r.Expr) {
			if slices.Contains(m.Left.Fib.Flags, "iif") && slices.Contains(m.Left.Fib.Flags, "saddr") &&
				string(m.Right) == "false" && hasVerdict(r.Expr, "drop", "reject") {
				e.add(Fault, "firewall", fmt.Sprintf(doReverse, session), "%v is a reverse-path check that drops all sessions: "+
					"their packets come from an uplink, and the route back is by the session device", r)
				return
			}
		}
	}
}

// judgeIPTables is the same for the output of ip6tables-save.
func judgeIPTables(e *examination, save string, session netip.Prefix) {
	closed, open := false, false
	for line := range strings.Lines(save) {
		w := strings.Fields(line)
		if len(w) < 2 {
			continue
		}
		closed = closed || w[0] == ":OUTPUT" && w[1] == "DROP"
		if w[0] != "-A" {
			continue
		}
		target, rule := after(w, "-j"), strings.TrimSpace(line)
		drops := target == "DROP" || target == "REJECT"
		update := after(w, "--icmpv6-type") == "156"
		options := after(w, "--header") == "dst" || after(w, "--header") == "ipv6-opts" || after(w, "-m") == "dst"
		switch {
		case w[1] == "OUTPUT" && target == "ACCEPT" && (len(w) == 4 || update || slices.Contains(w, "ipv6-icmp") &&
			!slices.Contains(w, "--icmpv6-type")):
			open = true
		case w[1] == "OUTPUT" && drops && (update || options) && !open:
			e.add(Fault, "firewall", "before it: ip6tables -I OUTPUT -p icmpv6 --icmpv6-type 156 -j ACCEPT",
				"ip6tables %s drops outgoing Locator Updates", rule)
		case w[1] == "PREROUTING" && drops && slices.Contains(w, "rpfilter") && slices.Contains(w, "--invert") &&
			!slices.Contains(w, "--loose"):
			e.add(Fault, "firewall", fmt.Sprintf("before it: ip6tables -t raw -I PREROUTING -s %s -j ACCEPT", session),
				"ip6tables %s is a reverse-path check that drops all sessions", rule)
		}
	}
	if closed && !open {
		e.add(Fault, "firewall", "ip6tables -I OUTPUT -p icmpv6 -j ACCEPT", "ip6tables drops in OUTPUT whatever no rule "+
			"accepts, and none accepts ICMPv6 type 156 (Locator Updates)")
	}
}
