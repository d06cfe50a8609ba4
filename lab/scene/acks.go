package scene

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"roam/lab/topo"
)

// ackRules are the rules by which the core counts, for each correspondent on a wire, the
// acknowledgements of Locator Updates that it sends: ICMPv6 of type 156 with operation 2 behind
// a header for options.
func ackRules(correspondents []string) string {
	var counters, rules strings.Builder
	for _, name := range correspondents {
		fmt.Fprintf(&counters, "\tcounter acks_%s {}\n", name)
		fmt.Fprintf(&rules, "\t\tiifname %q icmpv6 type 156 exthdr dst exists @th,40,8 2 counter name acks_%s\n", name, name)
	}
	return "table ip6 acks {\n" + counters.String() + "\tchain forward {\n\t\ttype filter hook forward priority -10;\n" +
		rules.String() + "\t}\n}\n"
}

// CountAcks starts to count the acknowledgements of correspondents that do not move.
func (s *Scene) CountAcks(ctx context.Context) error {
	var names []string
	for _, e := range s.Ends[1:] {
		names = append(names, e.Host.Name())
	}
	path := filepath.Join(s.env.Dir, s.cfg.Name+"-acks.nft")
	if err := os.WriteFile(path, []byte(ackRules(names)), 0o644); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	if out, err := s.Core.Command(ctx, "/usr/sbin/nft", "-f", path).CombinedOutput(); err != nil {
		return fmt.Errorf("count acknowledgements: %w: %s", err, out)
	}
	return nil
}

// Acknowledged returns how many Locator Updates each correspondent has acknowledged.
func (s *Scene) Acknowledged(ctx context.Context) (map[string]int, error) {
	all, err := s.Core.Counters(ctx)
	if err != nil {
		return nil, err
	}
	return acknowledged(all), nil
}

// acknowledged reads the counters of ackRules.
func acknowledged(all map[string]topo.Counter) map[string]int {
	acks := map[string]int{}
	for name, c := range all {
		if of, ok := strings.CutPrefix(name, "acks_"); ok {
			acks[of] = c.Packets
		}
	}
	return acks
}
