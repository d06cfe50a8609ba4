package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// stopTime is how long the daemon may take to restore the host.
const stopTime = 15 * time.Second

// stopped is what `roam down --json` prints.
type stopped struct {
	Stopped bool `json:"stopped"` // a daemon ran and has ended
}

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Stop the daemon, remove the data plane and restore the host", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.down(cmd.Context()) },
	}
}

func (a *app) down(ctx context.Context) error {
	b, err := a.backend()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	s, err := b.Status(ctx)
	ran := err == nil
	switch {
	case errors.Is(err, control.ErrNotRunning):
		// The data plane continues without its daemon by design, so it may still be there.
		err = stopNone(ctx, a)
	case err != nil:
		return err
	default:
		err = a.stop(ctx, b, s)
	}
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(stopped{Stopped: ran})
	}
	fmt.Fprintln(a.Out, "down: the host is restored")
	return nil
}

// stop stops a daemon that answers.
func (a *app) stop(ctx context.Context, b control.Backend, s control.Status) error {
	if a.host.Systemd(ctx) && s.PID != 0 && a.host.UnitPID(ctx) == s.PID {
		// The unit restarts a daemon that exits, so systemd must stop it. The data plane
		// remains, and is removed afterwards.
		if err := a.host.Systemctl(ctx, "stop"); err != nil {
			return err
		}
		return a.restore(ctx, s.Config)
	}
	if err := b.Shutdown(ctx, true); err != nil {
		return err
	}
	gone := a.host.Until(ctx, func() bool {
		if s.PID != 0 {
			return !a.host.Alive(s.PID)
		}
		_, err := b.Status(ctx)
		return errors.Is(err, control.ErrNotRunning)
	})
	if !gone {
		return control.Errorf(control.CodeUnavailable, "the daemon (pid %d) agreed to end and has not after %v", s.PID, stopTime).
			WithHint("look at its log; `kill -9 %d` and `roam down` again remove what is left", s.PID)
	}
	if !a.host.Root() {
		return nil
	}
	// The daemon can no longer report the result. A second restoration finds nothing to do,
	// or reports why it fails.
	return a.restore(ctx, s.Config)
}

// stopNone restores the host when no daemon answers. One that waits for an address, or that systemd is about to
// restart, would set the host up again: the unit is stopped first, which does nothing to a stopped one.
func stopNone(ctx context.Context, a *app) error {
	if a.configPath == "" && a.socketPath == "" && a.host.Root() && a.host.Systemd(ctx) {
		if err := a.host.Systemctl(ctx, "stop"); err != nil {
			return err
		}
	}
	return a.restore(ctx, "")
}

// restore restores the host without a daemon.
func (a *app) restore(ctx context.Context, file string) error {
	if !a.host.Root() {
		return control.Errorf(control.CodeInvalid, "restore the host: only root may").WithHint("sudo roam down")
	}
	if file == "" {
		file = a.configFileAbs()
	}
	if _, err := config.Load(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// The daemon's files beside its socket list the changes to undo.
		kept := config.Rescue(file).InForce()
		if a.socketPath != "" {
			kept = filepath.Join(filepath.Dir(a.socketPath), filepath.Base(kept))
		}
		if a.host.Read(kept) != "" {
			file = kept
		}
	}
	return a.host.Roamd(ctx, "restore", "--config", file)
}
