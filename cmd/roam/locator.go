package main

import (
	"context"
	"fmt"
	"slices"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) locatorCommand() *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error { return a.locatorShow(cmd.Context()) }
	noun := &cobra.Command{Use: "locator", Short: "Show this host's locators; enable or disable a link",
		Args: cli.NoArgs, RunE: show}
	noun.AddCommand(&cobra.Command{Use: "show", Short: "Show the locators of all links", Args: cli.NoArgs, RunE: show})
	for _, v := range []struct {
		verb, short string
		enabled     bool
	}{
		{"enable", "Let this host use a link", true},
		{"disable", "Stop using a link gracefully", false},
	} {
		noun.AddCommand(&cobra.Command{
			Use: v.verb + " LINK", Short: v.short, Args: cli.Exactly("LINK"), ValidArgsFunction: a.completeLinks,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.locatorSet(cmd.Context(), args[0], v.enabled)
			},
		})
	}
	return noun
}

func (a *app) locatorShow(ctx context.Context) error {
	var list []control.Locator
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		list, err = b.Locators(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	a.locators(list)
	return nil
}

func (a *app) locatorSet(ctx context.Context, link string, enabled bool) error {
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		return b.SetLinkEnabled(ctx, link, enabled)
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(control.LinkRequest{Link: link, Enabled: enabled})
	}
	word := "disabled"
	if enabled {
		word = "enabled"
	}
	fmt.Fprintf(a.Out, "%s %s\n", link, word)
	return nil
}

func (a *app) completeLinks(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		// Completion has nowhere to report a failure.
		_ = a.ask(cmd.Context(), func(ctx context.Context, b control.Backend) error {
			list, err := b.Locators(ctx)
			for _, l := range list {
				if !slices.Contains(names, l.Link) {
					names = append(names, l.Link)
				}
			}
			return err
		})
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
