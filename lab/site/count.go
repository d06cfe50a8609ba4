package site

import (
	"context"
	"fmt"
	"strings"

	"roam/lab/topo"
)

// Passed are the packets of applications that the other ends of a border's links received:
// by link, with a source of that link's provider; and with another source.
type Passed struct {
	Link   [2]uint64
	Strays uint64
}

// countTable is the table of rules of Count.
const countTable = "shares"

// end is the receiving end of a border's link.
type end struct {
	host   *topo.Host
	ifname string
	border int // 0: the near one
	link   int
}

// ends are those at the providers, and at the core for the far border.
func (s *Site) ends() []end {
	list := []end{{s.Provider[0], "site", 0, 0}, {s.Provider[1], "site", 0, 1}}
	if s.FarRouter != nil {
		list = append(list, end{s.Core, "far0", 1, 0}, end{s.Core, "far1", 1, 1})
	}
	return list
}

// countRules are the rules by which a host counts what it receives from borders: echoes of at
// least that length from the IPv6 header on, which no probe of a daemon has, and datagrams of
// a port.
func countRules(ends []end, echo, port int) string {
	var counters, rules strings.Builder
	for _, e := range ends {
		name := fmt.Sprintf("b%d_%d", e.border, e.link)
		fmt.Fprintf(&counters, "\tcounter own_%s {}\n\tcounter stray_%s {}\n", name, name)
		for _, kind := range []string{
			fmt.Sprintf("icmpv6 type { echo-request, echo-reply } meta length >= %d", echo),
			fmt.Sprintf("udp sport %d", port), fmt.Sprintf("udp dport %d", port),
		} {
			for _, as := range []string{"== " + Providers[e.border][e.link].String() + " counter name own_",
				"!= " + Providers[e.border][e.link].String() + " counter name stray_"} {
				fmt.Fprintf(&rules, "\t\tiifname %q %s ip6 saddr %s%s\n", e.ifname, kind, as, name)
			}
		}
	}
	return "table ip6 " + countTable + " {\n" + counters.String() +
		"\tchain in {\n\t\ttype filter hook prerouting priority -300;\n" + rules.String() + "\t}\n}\n"
}

// Count begins to count echoes of at least that length and datagrams of a port at the
// receiving ends of the borders' links.
func (s *Site) Count(ctx context.Context, echo, port int) error {
	at := map[*topo.Host][]end{}
	for _, e := range s.ends() {
		at[e.host] = append(at[e.host], e)
	}
	for h, ends := range at {
		if err := runOn(ctx, h, countRules(ends, echo, port), "nft", "-f", "-"); err != nil {
			return fmt.Errorf("count packets: %w", err)
		}
	}
	return nil
}

// Counted returns what was counted, by border.
func (s *Site) Counted(ctx context.Context) (passed [2]Passed, err error) {
	for _, e := range s.ends() {
		all, err := e.host.Counters(ctx)
		if err != nil {
			return passed, err
		}
		name, p := fmt.Sprintf("b%d_%d", e.border, e.link), &passed[e.border]
		own, known := all["own_"+name]
		if !known {
			return passed, fmt.Errorf("%s does not count what it receives on %s", e.host.Name(), e.ifname)
		}
		p.Link[e.link] = uint64(own.Packets)
		p.Strays += uint64(all["stray_"+name].Packets)
	}
	return passed, nil
}

// Since returns what passed after an earlier count.
func (p Passed) Since(before Passed) Passed {
	for i := range p.Link {
		p.Link[i] -= before.Link[i]
	}
	p.Strays -= before.Strays
	return p
}
