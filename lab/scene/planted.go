//go:build planted

package scene

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Planted names the environment variable that chooses a fault, for tests that an experiment
// says no.
const Planted = "ROAM_LAB_PLANTED"

// lateBy is how late a cut is if the fault is "late".
const lateBy = 2 * time.Second

// plant plants the fault before a step of a pass with Roam: "drop" loses one datagram of the
// probe in each handoff, "kill" resets a connection, "late" cuts links late, "dead" stops all
// traffic from the first handoff on.
func (s *Scene) plant(ctx context.Context, step Step) error {
	if s.Mobile().Node == nil {
		return nil
	}
	fault := os.Getenv(Planted)
	handoff := step.Op == Attach && step.From != ""
	switch {
	case fault == "late" && step.Op == Detach:
		return until(ctx, time.Now().Add(lateBy))
	case fault == "drop" && handoff:
		return s.rules(ctx, "udp dport 7001 quota until 150 bytes drop")
	case fault == "kill" && handoff:
		return s.rules(ctx, "tcp dport 5201 reject with tcp reset")
	case fault == "dead" && handoff:
		return s.rules(ctx, "drop")
	}
	return nil
}

// rules replaces those of the core's forwarding.
func (s *Scene) rules(ctx context.Context, rule string) error {
	path := filepath.Join(s.env.Dir, "planted.nft")
	text := fmt.Sprintf("table ip6 planted\ndelete table ip6 planted\ntable ip6 planted {\n\tchain forward {\n"+
		"\t\ttype filter hook forward priority 0;\n\t\t%s\n\t}\n}\n", rule)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("plant fault: %w", err)
	}
	if out, err := s.Core.Command(ctx, "nft", "-f", path).CombinedOutput(); err != nil {
		return fmt.Errorf("plant fault: %w: %s", err, out)
	}
	return nil
}
