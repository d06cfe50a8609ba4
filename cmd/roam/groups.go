package main

import (
	"slices"

	"roam/internal/cli"

	"github.com/spf13/cobra"
)

// groups are the parts of `roam --help`, each with its verbs.
var groups = []struct {
	title string
	verbs []string
}{
	{"Start and stop:", []string{"up", "down"}},
	{"Look:", []string{
		"status", "session", "path", "top", "locator", "peer", "monitor", "counter", "observer", "border", "policy",
	}},
	{"Peers:", []string{"export", "add", "remove", "rename", "key"}},
	{"Steer:", []string{"mode", "config"}},
	{"When something is wrong:", []string{"doctor", "explain", "report"}},
}

// grouped sorts the verbs into their groups; the others stand apart.
func grouped(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.verbs, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
}

// statusCommand is what roam shows without a verb, for those who look for a verb.
func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show an overview of the host, as roam does without a verb", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}
