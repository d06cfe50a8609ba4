package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/config"
	"roam/internal/control"
)

// TestChangedRunDirectory: while one run directory holds what a daemon has left, none starts in another one, and
// nothing is restored there; when it is restored, or gone with a reboot, the other one is as good.
func TestChangedRunDirectory(t *testing.T) {
	for name, rebooted := range map[string]bool{"restored": false, "rebooted": true} {
		t.Run(name, func(t *testing.T) {
			var before config.Config
			b := newBench(t, func(_ *bench, cfg *config.Config) {
				cfg.Host.RunDir = filepath.Join(t.TempDir(), "a")
				if err := os.MkdirAll(cfg.Host.RunDir, 0o755); err != nil {
					t.Fatal(err)
				}
				before = *cfg
			})
			b.start()
			b.stop()
			if err := b.end(); err != nil {
				t.Fatal(err)
			}
			next := before
			next.Host.RunDir = filepath.Join(t.TempDir(), "b")
			t.Cleanup(func() { _ = unmountBPF(next.Pins()) })
			err := newDaemon(b.d.opts, next, nil).takeRunDir()
			if err == nil || !strings.Contains(err.Error(), before.Host.RunDir) ||
				!strings.Contains(control.Hint(err), "roam down --config "+before.InForce()) {
				t.Fatalf("a daemon with another run directory: %v; %s", err, control.Hint(err))
			}
			if _, err := os.Stat(next.Host.RunDir); err == nil {
				t.Error("the other run directory was made")
			}
			if err := checkRunDir(before); err != nil {
				t.Errorf("a daemon with the same one: %v", err)
			}
			copied := next
			copied.Host.StateDir = t.TempDir()
			note := before.Host.RunDir + "\nnet:[1]\n"
			if err := os.WriteFile(runDirFile(copied), []byte(note), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := checkRunDir(copied); err != nil {
				t.Errorf("a daemon with a state directory out of another network namespace: %v", err)
			}
			if rebooted {
				err = os.RemoveAll(before.Host.RunDir)
			} else {
				err = restore(before, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := checkRunDir(next); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
