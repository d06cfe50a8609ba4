package main

import (
	"context"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) counterCommand() *cobra.Command {
	var all bool
	show := func(cmd *cobra.Command, _ []string) error { return a.counterShow(cmd.Context(), all) }
	noun := &cobra.Command{Use: "counter", Short: "Show the counters of the data plane, drops by reason", Args: cli.NoArgs,
		RunE: show}
	verb := &cobra.Command{Use: "show", Short: "Show the counters that are not zero", Args: cli.NoArgs, RunE: show}
	verb.Flags().BoolVar(&all, "all", false, "also show counters that are zero")
	noun.AddCommand(verb)
	return noun
}

// counterShow prints the counters. JSON always lists all of them, so that scripts need not
// handle absent ones.
func (a *app) counterShow(ctx context.Context, all bool) error {
	var list []control.Counter
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		list, err = b.Counters(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	t := a.Table("COUNTER", "VALUE", "MEANING")
	for _, c := range list {
		if c.Value > 0 || all {
			t.Row(cli.Text("%s", c.Name), cli.Number("%d", c.Value), cli.Text("%s", c.Meaning))
		}
	}
	t.Print(a.Out)
	return nil
}
