package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// versions is what `roam version --json` prints.
type versions struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Daemon  string `json:"daemon,omitempty"` // absent if no daemon answers
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the versions of roam and of the running daemon", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.version(cmd.Context()) },
	}
}

func (a *app) version(ctx context.Context) error {
	v := versions{Version: version, Go: runtime.Version()}
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		s, err := b.Status(ctx)
		if err == nil {
			v.Daemon = s.Version
		}
		return err
	})
	if err != nil && !errors.Is(err, control.ErrNotRunning) {
		a.Warn("ask the daemon for its version: %v", err)
	}
	if a.JSON {
		return a.PrintJSON(v)
	}
	fmt.Fprintf(a.Out, "roam %s (%s)\n", v.Version, v.Go)
	if v.Daemon != "" {
		fmt.Fprintf(a.Out, "roamd %s\n", v.Daemon)
	}
	if v.Daemon != "" && v.Daemon != v.Version {
		a.Warn("roam and roamd are of different versions: restart the daemon")
	}
	return nil
}
