package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/durable"
)

// runDirFile names the file that holds the run directory of the last daemon, until what it did is restored: all that a
// successor adopts, and `roam down` undoes, lies there. Its second line names the network namespace of that daemon: a
// state directory that was copied into another one says nothing of what was done here.
func runDirFile(cfg config.Config) string { return filepath.Join(cfg.Host.StateDir, "run_dir") }

func keepRunDir(cfg config.Config) error {
	if err := os.MkdirAll(cfg.Host.StateDir, 0o755); err != nil {
		return err
	}
	return durable.Replace(runDirFile(cfg), []byte(cfg.Host.RunDir+"\n"+namespace()+"\n"), 0o644)
}

// namespace names the network namespace of this process; "" where none can be read.
func namespace() string {
	name, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return name
}

// checkRunDir refuses a run directory while another one holds what a daemon of this configuration's state directory
// has left: a daemon would set the host up a second time, and a restoration would leave the first one.
func checkRunDir(cfg config.Config) error {
	text, err := os.ReadFile(runDirFile(cfg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the run directory of the last daemon: %w", err)
	}
	last := cfg
	dir, where, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if last.Host.RunDir = dir; where != namespace() {
		return nil
	}
	if last.Host.RunDir == cfg.Host.RunDir || !exists(last.InForce()) && !exists(last.Journal()) {
		return nil
	}
	return control.Errorf(control.CodeConflict,
		"host.run_dir is %s, and the last daemon with host.state_dir %s has left its data plane in %s",
		cfg.Host.RunDir, cfg.Host.StateDir, last.Host.RunDir).
		WithHint("`roam down --config %s` ends its sessions and restores the host; or set host.run_dir to %s",
			last.InForce(), last.Host.RunDir)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
