package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// trusts reports whether a source prefix stands for "our own networks" and contains the
// session prefix: inside fc00::/7, and wider than the session prefix, which nobody names by
// accident.
func trusts(source, session netip.Prefix) bool {
	return source.Addr().Is6() && source.Bits() >= 7 && source.Bits() < session.Bits() && source.Contains(session.Addr())
}

// nftItem is the part of one object of `nft -j list ruleset` that this package reads.
type nftItem struct {
	Rule  *nftRule  `json:"rule"`
	Chain *nftChain `json:"chain"`
	Set   *nftSet   `json:"set"`
	Map   *nftSet   `json:"map"`
}

// nftSet is a named set, or a named map.
type nftSet struct {
	Family string            `json:"family"`
	Table  string            `json:"table"`
	Name   string            `json:"name"`
	Elem   []json.RawMessage `json:"elem"`
}

type nftRule struct {
	Family string                       `json:"family"`
	Table  string                       `json:"table"`
	Chain  string                       `json:"chain"`
	Handle int                          `json:"handle"`
	Expr   []map[string]json.RawMessage `json:"expr"`
}

// nftChain is a chain; only base chains have a hook.
type nftChain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Hook   string `json:"hook"`
	Policy string `json:"policy"`
}

// String identifies the rule for a person.
func (r *nftRule) String() string {
	return fmt.Sprintf("nft %s %s %s handle %d", r.Family, r.Table, r.Chain, r.Handle)
}

// TrustedByNft returns the accepting rules whose source address covers the session prefix,
// as text for a person. It ignores rules that it cannot read: its result is for a warning.
func TrustedByNft(ruleset []byte, session netip.Prefix) (out []string) {
	var doc struct {
		Items []nftItem `json:"nftables"`
	}
	if json.Unmarshal(ruleset, &doc) != nil {
		return nil
	}
	sets := make(map[string][]json.RawMessage)
	for _, it := range doc.Items {
		if it.Set != nil {
			sets[it.Set.Table+" @"+it.Set.Name] = it.Set.Elem
		}
	}
	for _, it := range doc.Items {
		if r := it.Rule; r != nil && accepts(r.Expr) && !onLoopback(r.Expr) {
			for _, p := range sources(r.Expr, r.Table, sets) {
				if trusts(p, session) {
					out = append(out, fmt.Sprintf("%v (ip6 saddr %s accept)", r, p))
				}
			}
		}
	}
	return out
}

func accepts(expr []map[string]json.RawMessage) bool { return hasVerdict(expr, "accept") }

// hasVerdict reports whether a rule ends with one of the verdicts.
func hasVerdict(expr []map[string]json.RawMessage, verdicts ...string) bool {
	return slices.ContainsFunc(expr, func(e map[string]json.RawMessage) bool {
		return slices.ContainsFunc(verdicts, func(v string) bool { _, ok := e[v]; return ok })
	})
}

// nftMatch is one comparison of a rule.
type nftMatch struct {
	Op   string `json:"op"`
	Left struct {
		Payload struct {
			Protocol string `json:"protocol"`
			Field    string `json:"field"`
		} `json:"payload"`
		Meta struct {
			Key string `json:"key"`
		} `json:"meta"`
		Exthdr struct {
			Name  string `json:"name"`
			Field string `json:"field"`
		} `json:"exthdr"`
		CT struct {
			Key string `json:"key"`
		} `json:"ct"`
		Fib struct {
			Flags []string `json:"flags"`
		} `json:"fib"`
	} `json:"left"`
	Right json.RawMessage `json:"right"`
}

func nftMatches(expr []map[string]json.RawMessage) (out []nftMatch) {
	for _, e := range expr {
		var m nftMatch
		if raw, ok := e["match"]; ok && json.Unmarshal(raw, &m) == nil && m.Op != "!=" {
			out = append(out, m)
		}
	}
	return out
}

// onLoopback reports whether a rule matches packets of this host.
func onLoopback(expr []map[string]json.RawMessage) bool {
	for _, m := range nftMatches(expr) {
		if k := m.Left.Meta.Key; (k == "iif" || k == "iifname") && string(m.Right) == `"lo"` {
			return true
		}
	}
	return false
}

// sources returns the source prefixes that a rule matches.
func sources(expr []map[string]json.RawMessage, table string, sets map[string][]json.RawMessage) (out []netip.Prefix) {
	for _, m := range nftMatches(expr) {
		if m.Left.Payload.Protocol != "ip6" || m.Left.Payload.Field != "saddr" {
			continue
		}
		var name string
		if json.Unmarshal(m.Right, &name) == nil && strings.HasPrefix(name, "@") {
			for _, e := range sets[table+" "+name] {
				out = append(out, nftPrefixes(e)...)
			}
			continue
		}
		out = append(out, nftPrefixes(m.Right)...)
	}
	return out
}

// nftPrefixes reads {"prefix": ...}, or an anonymous set of them.
func nftPrefixes(raw json.RawMessage) (out []netip.Prefix) {
	var v struct {
		Prefix *struct {
			Addr string `json:"addr"`
			Len  int    `json:"len"`
		} `json:"prefix"`
		Set []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(raw, &v) != nil {
		return nil // a single address is too narrow to matter
	}
	if v.Prefix != nil {
		if a, err := netip.ParseAddr(v.Prefix.Addr); err == nil {
			out = append(out, netip.PrefixFrom(a, v.Prefix.Len))
		}
	}
	for _, e := range v.Set {
		out = append(out, nftPrefixes(e)...)
	}
	return out
}

// TrustedByIPTables is the same for the output of ip6tables-save.
func TrustedByIPTables(save string, session netip.Prefix) (out []string) {
	for line := range strings.Lines(save) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "-A" || after(f, "-j") != "ACCEPT" || after(f, "-i") == "lo" {
			continue
		}
		p, err := netip.ParsePrefix(after(f, "-s"))
		if err == nil && trusts(p, session) {
			out = append(out, "ip6tables "+strings.TrimSpace(line))
		}
	}
	return out
}

// after returns the word behind an option, unless the option is negated.
func after(fields []string, option string) string {
	i := slices.Index(fields, option)
	if i < 1 || i+1 >= len(fields) || fields[i-1] == "!" {
		return ""
	}
	return fields[i+1]
}
