package ilnphost

import (
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"

	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/testutil"

	"golang.org/x/sys/unix"
)

// TestFirstStartReadOnly: a state directory that cannot be written is named, with what to do, before the key costs
// anything.
func TestFirstStartReadOnly(t *testing.T) {
	testutil.NeedRoot(t)
	cfg := config.Default()
	cfg.Host.StateDir = t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with its mounts
		mounted := errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("none", cfg.Host.StateDir, "tmpfs", unix.MS_RDONLY, ""))
		if mounted != nil {
			done <- mounted
			return
		}
		_, err := identity(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
		done <- err
	}()
	err := <-done
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "write to "+cfg.Host.StateDir+": ") ||
		!strings.Contains(control.Hint(err), "host.state_dir") {
		t.Errorf("%v, %q", err, control.Hint(err))
	}
	if files, err := os.ReadDir(cfg.Host.StateDir); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}
