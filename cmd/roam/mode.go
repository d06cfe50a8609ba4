package main

import (
	"context"
	"fmt"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) modeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mode [soft|hard|duality]", Short: "Show or set how the host uses several links",
		Long: "Show or set, until the next start, how the host uses several links:\n" +
			"  soft     the preferred one sends everything, the others still receive\n" +
			"  hard     the preferred one sends everything, the others are dropped at once\n" +
			"  duality  each carries its share\n" +
			"Preferred is the newest, unless uplinks.preference or uplinks.prefer in\n" +
			"roam.conf says otherwise.",
		Args: cli.AtMost(1), ValidArgs: []string{"soft", "hard", "duality"},
		RunE: func(cmd *cobra.Command, args []string) error { return a.mode(cmd.Context(), args) },
	}
}

func (a *app) mode(ctx context.Context, args []string) error {
	var now string
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		if len(args) == 1 {
			m, err := control.ParseMode(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			now = args[0]
			return b.SetMode(ctx, m)
		}
		s, err := b.Status(ctx)
		now = s.Mode
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(control.ModeRequest{Mode: now})
	}
	fmt.Fprintln(a.Out, now)
	return nil
}
