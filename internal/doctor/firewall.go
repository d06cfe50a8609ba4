package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

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
	links := uplinksOf(f)
	parseNft(f.NFT, f.IPTables).judge(e, session, links)
	judgeIPTables(e, f.IPTables, session, links)
	if f.Root && (f.NFT != "" || f.IPTables != "") && e.clean("firewall") {
		e.ok("firewall", "no rule of this host drops packets of sessions")
	}
}

func (n nft) judge(e *examination, session netip.Prefix, links []string) {
	chains := n.outChains(links)
	for _, c := range n.chains {
		if c.Family != "inet" && c.Family != "ip6" || c.Hook == "" {
			continue
		}
		rules := slices.DeleteFunc(slices.Clone(n.rules), func(r *nftRule) bool { return !r.in(c) })
		switch c.Hook {
		case "output", "postrouting":
			n.judgeOutput(e, c, chains)
		case "forward":
			n.judgeForward(e, rules)
		case "prerouting", "input":
			judgeReverse(e, rules, session)
		}
	}
}

// judgeOutput finds what drops outgoing Locator Updates and probes.
func (n nft) judgeOutput(e *examination, c *nftChain, chains outChains) {
	if c.Type == "nat" || c.Family == "ip6" && n.saved[c.Table] {
		return // connection tracking keeps Locator Updates from chains of the type nat
	}
	r, ok := chains.decides(c.key(c.Name))
	switch {
	case ok && r.verdict == verdictDrop:
		e.add(Fault, "firewall", doOutput, "%s drops %s: peers do not learn of moves", r.text, cmp.Or(r.names, namesAll))
	case !ok && c.Policy == "drop":
		e.add(Fault, "firewall", doOutput, "chain %s %s %s drops whatever no rule accepts, and none accepts ICMPv6 type 156 "+
			"(Locator Updates) behind a destination options header", c.Family, c.Table, c.Name)
	}
}

// judgeForward finds rules that name control messages of other hosts to drop them. Those for all that connection
// tracking considers invalid are too common to name.
func (n nft) judgeForward(e *examination, rules []*nftRule) {
	for _, r := range rules {
		for _, o := range n.outRules(r, nil) {
			if o.drops() && o.names != "" && o.names != namesInvalid {
				e.add(Note, "firewall", "accept it there, if hosts behind this one use Roam",
					"%s drops %s of others that pass through this host", o.text, o.names)
			}
		}
	}
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
