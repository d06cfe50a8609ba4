package main

import (
	"context"
	"fmt"
	"strings"

	"roam/internal/control"
	"roam/naming"

	"github.com/spf13/cobra"
)

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Print the line that makes this host known to another", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context()) },
	}
}

func (a *app) addCommand() *cobra.Command {
	return &cobra.Command{
		Use: "add LINE", Short: "Make another host known by a line of its `roam export`, or of the hosts file",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("%q needs LINE, the output of `roam export` on the other host", cmd.CommandPath())}
			}
			return nil
		},
		// A line of the hosts file has blanks; it need not be quoted.
		RunE: func(cmd *cobra.Command, args []string) error { return a.add(cmd.Context(), strings.Join(args, " ")) },
	}
}

func (a *app) export(ctx context.Context) error {
	var line string
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		line, err = b.Export(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(control.Exported{Line: line})
	}
	fmt.Fprintln(a.out, line)
	return nil
}

func (a *app) add(ctx context.Context, line string) error {
	// A damaged line is told here, with or without a daemon.
	if _, err := naming.ParseAny(line); err != nil {
		return control.Errorf(control.CodeInvalid, "add: %w", err).WithHint("on the other host: roam export")
	}
	var p control.Peer
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		p, err = b.AddPeer(ctx, line)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	fmt.Fprintf(a.out, "%s is %v, reached as %s\n", strings.Join(p.Names, ", "), p.NID, p.Address)
	if p.Warning != "" {
		a.warn("%s", p.Warning)
	}
	return nil
}
