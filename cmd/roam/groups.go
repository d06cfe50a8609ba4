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
	{"Peers:", []string{"export", "add", "rename", "remove", "key"}},
	{"Configure:", []string{"mode", "config"}},
	{"Diagnose:", []string{"doctor", "explain", "report"}},
	{"Other roles:", []string{"observer", "border", "policy"}},
	{"Other:", []string{"lab", "version", "completion", "help"}},
}

// meant are the names that other programs have for a verb: who types one is told of the verb.
var meant = map[string][]string{
	"up": {"start"}, "down": {"stop"}, "status": {"list", "ls", "show", "info"},
	"remove": {"del", "delete", "rm", "forget"}, "export": {"id", "whoami"},
	"monitor": {"watch", "events", "log", "tail"}, "locator": {"link", "links", "interface"},
	"doctor": {"check", "test", "diagnose"}, "path": {"route", "routes"}, "session": {"connection", "connections"},
}

// grouped sorts the verbs into their groups, in the order of the groups.
func grouped(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, name := range g.verbs {
			i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
			c := root.Commands()[i]
			c.GroupID, c.SuggestFor = g.title, meant[name]
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
