package doctor

import (
	"encoding/json"
	"slices"
	"strings"
)

// typeUpdate is the ICMPv6 type of Locator Updates (RFC 6743 §8).
const typeUpdate = 156

// nft is a rule set.
type nft struct {
	chains []*nftChain
	rules  []*nftRule
	sets   map[string]json.RawMessage // sets and maps as if they were written into a rule, by table and name
	saved  map[string]bool            // tables of the family ip6 that ip6tables-save shows as well
}

// parseNft reads the output of `nft -j list ruleset`, given that of ip6tables-save.
func parseNft(text, save string) nft {
	var doc struct {
		Items []nftItem `json:"nftables"`
	}
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nft{}
	}
	out := nft{sets: make(map[string]json.RawMessage), saved: savedTables(save)}
	for _, it := range doc.Items {
		switch {
		case it.Chain != nil:
			out.chains = append(out.chains, it.Chain)
		case it.Rule != nil:
			out.rules = append(out.rules, it.Rule)
		}
		for _, set := range []*nftSet{it.Set, it.Map} {
			if set == nil {
				continue
			}
			if text, err := json.Marshal(map[string]any{"set": set.Elem}); err == nil {
				out.sets[nftKey(set.Family, set.Table, set.Name)] = text
			}
		}
	}
	return out
}

func nftKey(family, table, name string) string { return family + " " + table + " " + name }

func (c *nftChain) key(name string) string { return nftKey(c.Family, c.Table, name) }

func (r *nftRule) key(name string) string { return nftKey(r.Family, r.Table, name) }

func (r *nftRule) in(c *nftChain) bool {
	return r.Family == c.Family && r.Table == c.Table && r.Chain == c.Name
}

// outChains returns the chains as they concern Locator Updates that leave by links; nil: they
// are not known.
func (n nft) outChains(links []string) outChains {
	out := make(outChains)
	for _, r := range n.rules {
		out[r.key(r.Chain)] = append(out[r.key(r.Chain)], n.outRules(r, links)...)
	}
	return out
}

// outRules returns a rule as it concerns Locator Updates, or one for each entry of its verdict
// map, without those that they never match.
func (n nft) outRules(r *nftRule, links []string) (out []outRule) {
	for _, expr := range n.spread(r) {
		o := outRule{text: r.String(), sure: true}
		for _, statement := range expr {
			for name, raw := range statement {
				n.read(&o, r, name, raw, links)
			}
		}
		if !o.never {
			out = append(out, o)
		}
	}
	return out
}

// read adds a statement of a rule.
func (n nft) read(o *outRule, r *nftRule, name string, raw json.RawMessage, links []string) {
	switch name {
	case "match":
		var m nftMatch
		if json.Unmarshal(raw, &m) != nil || !slices.Contains([]string{"==", "!=", "in"}, m.Op) {
			o.sure = false
			return
		}
		m.Right = n.elements(r, m.Right)
		m.judge(o, links)
	case verdictAccept, verdictDrop, verdictReturn:
		o.verdict = name
	case "reject":
		o.verdict = verdictDrop
	case verdictJump, verdictGoto:
		var to struct {
			Target string `json:"target"`
		}
		_ = json.Unmarshal(raw, &to) // no chain, then
		o.verdict, o.target = name, r.key(to.Target)
	case "counter", "log", "mangle", "notrack":
	case "xt": // a condition or an action of ip6tables
		o.sure, o.icmp = false, true
	default: // a limit, or what this package does not know
		o.sure = false
	}
}

// judge adds a comparison to a rule.
func (m nftMatch) judge(o *outRule, links []string) {
	p, right, not := m.Left.Payload, m.Right, m.Op == "!="
	switch meta := m.Left.Meta.Key; {
	case m.Left.Exthdr.Name == "dst" && m.Left.Exthdr.Field == "":
		o.naming(namesOptions, string(right) == "true", not)
	case p.Protocol == "ip6" && p.Field == "nexthdr":
		o.naming(namesOptions, covers(right, "ipv6-opts", 60), not)
	case p.Protocol == "icmpv6" && p.Field == "type":
		o.naming(namesUpdates, covers(right, "", typeUpdate), not)
	case m.Left.CT.Key == "state":
		o.naming(namesInvalid, covers(right, "invalid", -1), not)
	case meta == "l4proto":
		holds := covers(right, "ipv6-icmp", 58)
		o.condition(holds != not)
		o.icmp = o.icmp || holds && !not
	case meta == "nfproto":
		o.condition(covers(right, "ipv6", 10) != not)
	case meta == "protocol":
		o.condition(covers(right, "ip6", 0x86dd) != not)
	case meta == "oif" || meta == "oifname":
		o.link(links, not, func(link string) bool { return covers(right, link, -1) })
	case slices.Contains([]string{"tcp", "udp", "udplite", "sctp", "dccp", "th", "ip", "icmp", "igmp"}, p.Protocol):
		o.never = true
	default:
		o.sure = false
	}
}

// elements returns the elements of a named set, or the right side of a comparison as it is.
func (n nft) elements(r *nftRule, right json.RawMessage) json.RawMessage {
	var name string
	if json.Unmarshal(right, &name) == nil && strings.HasPrefix(name, "@") {
		if set, ok := n.sets[r.key(name[1:])]; ok {
			return set
		}
	}
	return right
}

// spread returns the statements of a rule; of one with a verdict map, those for each of its
// entries, as if it were a rule of its own.
func (n nft) spread(r *nftRule) (out [][]map[string]json.RawMessage) {
	i := slices.IndexFunc(r.Expr, func(e map[string]json.RawMessage) bool { _, ok := e["vmap"]; return ok })
	if i < 0 {
		return append(out, r.Expr)
	}
	var vmap struct {
		Key  json.RawMessage `json:"key"`
		Data json.RawMessage `json:"data"`
	}
	var data struct {
		Entries [][2]json.RawMessage `json:"set"`
	}
	if json.Unmarshal(r.Expr[i]["vmap"], &vmap) != nil || json.Unmarshal(n.elements(r, vmap.Data), &data) != nil {
		return nil
	}
	for _, entry := range data.Entries {
		match, err := json.Marshal(map[string]any{"op": "==", "left": vmap.Key, "right": entry[0]})
		var verdict map[string]json.RawMessage
		if err != nil || json.Unmarshal(entry[1], &verdict) != nil {
			continue
		}
		out = append(out, append(slices.Clone(r.Expr[:i]), map[string]json.RawMessage{"match": match}, verdict))
	}
	return out
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
		begin, wild := strings.CutSuffix(v, "*")
		return name != "" && (v == name || wild && strings.HasPrefix(name, begin)) || name == "ipv6-icmp" && v == "icmpv6"
	case float64:
		return v == number
	case []any: // flags
		return slices.ContainsFunc(v, func(x any) bool { return coversValue(x, name, number) })
	case map[string]any:
		if set, ok := v["set"].([]any); ok {
			return slices.ContainsFunc(set, func(x any) bool { return coversValue(x, name, number) })
		}
		if x, ok := v["elem"].(map[string]any); ok { // of a set with timeouts or comments
			return coversValue(x["val"], name, number)
		}
		if r, ok := v["range"].([]any); ok && len(r) == 2 {
			lo, ok1 := r[0].(float64)
			hi, ok2 := r[1].(float64)
			return ok1 && ok2 && lo <= number && number <= hi
		}
	}
	return false
}
