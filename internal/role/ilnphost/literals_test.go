package ilnphost

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestHooksOfBefore: a daemon that attaches no hooks for literal addresses, as they are switched off or cannot be
// loaded, detaches those of the daemon before it, whose table nobody keeps.
func TestHooksOfBefore(t *testing.T) {
	for name, enabled := range map[string]bool{"switched off": false, "no such cgroup": true} {
		h := newKeeper(t, "", "")
		h.log = slog.New(slog.DiscardHandler)
		h.cfg.Host.RunDir = t.TempDir()
		h.cfg.Literals.Enabled, h.cfg.Literals.Cgroup = enabled, filepath.Join(t.TempDir(), "none")
		dir := filepath.Join(h.cfg.Pins(), "ilnp")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		stay, hooks := []string{"link_2_in", "link_watch_post_bind6"}, []string{"connect6", "sendmsg6", "recvmsg6"}
		pins := slices.Clone(stay)
		for _, hook := range append(hooks, "getpeername6", "getsockname6") {
			pins = append(pins, "link_"+hook)
		}
		for _, pin := range pins {
			if err := os.WriteFile(filepath.Join(dir, pin), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h.startLiterals()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if !slices.Equal(left, stay) || len(h.warnings) > 0 != enabled {
			t.Errorf("%s: %v are left, want %v; warns of %v", name, left, stay, h.warnings)
		}
	}
}
