package sbr

import (
	"fmt"
	"slices"
	"strings"

	"roam"
	"roam/wire/ip6"
)

// Question is a packet about which somebody asks what the policy does with it.
type Question struct {
	Src, Dst   roam.ILV
	Proto      uint8 // 0: any
	From, To   uint16
	TCPPackets bool // TCP is divided by packets
}

// Explain says in sentences what a border with this policy and these links does with a
// packet of a flow whose outside node knows all site locators.
func Explain(p Policy, t Table, q Question) []string {
	src, srcKnown := p.Entry(q.Src.L64)
	dst, dstKnown := p.Entry(q.Dst.L64)
	_, dstSite := t.Behind[q.Dst.L64]
	switch {
	case srcKnown && src.Internal() && dstKnown && dst.Internal():
		return []string{"Both locators are internal: the packet does not cross the border, and stays as it is."}
	case srcKnown && src.Internal() && dstSite:
		return explainHairpin(src, t, q)
	case srcKnown && src.Internal():
		return explainOutward(src, t.Inside[q.Src.L64], t, q)
	case dstSite:
		return []string{
			fmt.Sprintf("The packet comes from outside to %v.", q.Dst.L64.Prefix()),
			fmt.Sprintf("The destination becomes the internal locator of its flow; without a flow it becomes %v (line %d).",
				t.Behind[q.Dst.L64].Prefix(), entryLine(p, t.Behind[q.Dst.L64])),
		}
	case dstKnown && dst.Internal():
		return []string{"From outside nothing reaches an internal locator: the border drops the packet (drop_internal)."}
	}
	return []string{"No locator of the packet is in the policy as one that is rewritten: the packet stays as it is."}
}

// explainHairpin is Explain for a packet from inside to a site locator. The source gets the locator of the same
// provider if it has one there, so that the answer comes from the address that was asked.
func explainHairpin(src Entry, t Table, q Question) []string {
	from, live := q.Dst.L64, t.Inside[src.L64].locators()
	if t.Behind[from] != src.L64 && !slices.Contains(live, from) {
		if len(live) == 0 {
			return []string{"The destination is inside, by a locator of another provider than the source has, and no link " +
				"of the source's label is up: the border drops the packet (drop_no_link)."}
		}
		from = live[0]
	}
	return []string{fmt.Sprintf("The destination is inside, by a site locator. The border rewrites it to %v, "+
		"the source to %v, and forwards the packet back inside.", t.Behind[q.Dst.L64].Prefix(), from.Prefix())}
}

func entryLine(p Policy, l roam.L64) int {
	e, _ := p.Entry(l)
	return e.Line
}

// explainOutward is Explain for a packet from inside.
func explainOutward(e Entry, g Group, t Table, q Question) []string {
	out := []string{fmt.Sprintf("The source %v is internal (line %d): it is rewritten to a locator with label %d.",
		e.L64.Prefix(), e.Line, e.Rewrite)}
	if len(g.Members) == 0 {
		return append(out, "No link of that label is up: the border drops the packet (drop_no_link).")
	}
	first := g.Members[0].L64
	link := func(l roam.L64) string {
		if id, ok := t.Link(l); ok && id != 0 {
			return ""
		}
		return ", for which no link is configured"
	}
	switch {
	case len(g.Members) == 1:
		return append(out, fmt.Sprintf("Only one is up: the packet leaves from %v%s.", first.Prefix(), link(first)))
	case g.Advice == AdviceNone:
		return append(out, fmt.Sprintf("Advice none: the packet leaves from the most preferred that is up, %v.",
			first.Prefix()))
	case q.Proto == ip6.TCP && !q.TCPPackets:
		l := g.Members[OfConnection(g.Members, q.Dst.L64, q.From, q.To)].L64
		return append(out, "Advice vlb: "+shares(g.Members)+".",
			fmt.Sprintf("TCP keeps to one locator: the connection of ports %d and %d leaves from %v.",
				q.From, q.To, l.Prefix()))
	}
	return append(out,
		"Advice vlb: the packet leaves from the locator that is furthest below its share of the packets: "+
			shares(g.Members)+".", "Until the outside node has acknowledged all of them, it leaves from one that is.")
}

// shares says what part of the packets each member gets.
func shares(list []Member) string {
	total := uint64(0)
	for _, m := range list {
		total += uint64(m.Weight)
	}
	parts := make([]string, len(list))
	for i, m := range list {
		parts[i] = fmt.Sprintf("%v %.1f %%", m.L64.Prefix(), 100*float64(m.Weight)/float64(total))
	}
	return strings.Join(parts, ", ")
}
