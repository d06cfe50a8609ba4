package main

import (
	"context"
	"strings"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) observerCommand() *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error { return a.observerShow(cmd.Context()) }
	noun := &cobra.Command{Use: "observer", Short: "What the links carry", Args: cli.NoArgs, RunE: show}
	noun.AddCommand(&cobra.Command{Use: "show", Short: "Show the packets of each link", Args: cli.NoArgs, RunE: show})
	return noun
}

func (a *app) observerShow(ctx context.Context) error {
	var list []control.ObservedCount
	if shown, err := a.roleReport(ctx, "observer", &list); err != nil || shown {
		return err
	}
	t := a.Table("LINK", "DIRECTION", "PROTOCOL", "FLAGS", "CHECKSUM", "PACKETS", "BYTES", "PACKETS/S")
	for _, n := range list {
		t.Row(cli.Text("%s", n.Link), cli.Text("%s", n.Direction), cli.Text("%s", n.Protocol),
			cli.Text("%s", strings.Join(n.Flags, " ")), cli.Text("%s", n.Checksum),
			cli.Number("%d", n.Packets), cli.Number("%d", n.Bytes), cli.Number("%.0f", n.PacketsPerS))
	}
	t.Print(a.Out)
	return nil
}
