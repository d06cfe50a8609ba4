package main

import (
	"slices"

	"roam/internal/cli"

	"github.com/spf13/cobra"
)

// groups are the parts of `roam --help` and of roam(8), each with its verbs in the order in
// which a reader needs them.
var groups = []struct {
	title string
	verbs []string
}{
	{"Start and stop:", []string{"up", "down"}},
	{"Show:", []string{"status", "session", "path", "top", "locator", "peer", "monitor", "counter"}},
	{"Peers:", []string{"export", "add", "rename", "remove"}},
	{"Configure:", []string{"mode", "config"}},
	{"Diagnose:", []string{"doctor", "explain", "report"}},
	{"Other roles:", []string{"observer", "border", "policy"}},
	{"Other:", []string{"lab", "version", "completion", "help"}},
}

// grouped sorts the verbs into their groups, in the order of the groups.
func grouped(root *cobra.Command) {
	cobra.EnableCommandSorting = false // its order is the alphabet's
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short, c.Long = "Print a summary of a verb", "Print a summary of a verb. The manual is roam(8)."
		case "completion":
			c.Short = "Print a completion script for a shell"
			c.Long = "Print a script that completes verbs, links, peers and kinds of events."
		}
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, name := range g.verbs {
			i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
			c := root.Commands()[i]
			c.GroupID = g.title
			root.RemoveCommand(c)
			root.AddCommand(c)
		}
	}
}

// statusCommand is what roam shows without a verb, for those who look for a verb.
func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show an overview of this host, as roam does without a verb", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}
