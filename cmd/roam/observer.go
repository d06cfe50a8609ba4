package main

import (
	"context"
	"math"
	"strconv"
	"strings"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) observerCommand() *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error { return a.observerShow(cmd.Context()) }
	noun := &cobra.Command{Use: "observer", Short: "Show the packets on each link, by kind (role observer)",
		Args: cli.NoArgs, RunE: show}
	noun.AddCommand(&cobra.Command{Use: "show", Short: "Show the packets on each link, by kind",
		Args: cli.NoArgs, RunE: show})
	return noun
}

func (a *app) observerShow(ctx context.Context) error {
	var list []control.ObservedCount
	if shown, err := a.roleReport(ctx, "observer", &list); err != nil || shown {
		return err
	}
	figure, size := count, nbytes
	if a.Wide {
		figure = func(n uint64) string { return strconv.FormatUint(n, 10) }
		size = figure
	}
	t := a.Table("LINK", "DIR", "PROTO", "FLAGS", "CHECKSUM", "PACKETS", "BYTES", "PKT/S")
	for _, n := range list {
		t.Row(cli.Text("%s", n.Link), cli.Text("%s", n.Direction), cli.Text("%s", n.Protocol),
			cli.Text("%s", strings.Join(n.Flags, " ")), cli.Text("%s", n.Checksum),
			cli.Number("%s", figure(n.Packets)), cli.Number("%s", size(n.Bytes)),
			cli.Number("%s", figure(uint64(math.Round(n.PacketsPerS)))))
	}
	t.Print(a.Out)
	return nil
}
