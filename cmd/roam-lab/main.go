// Command roam-lab runs the experiments of the lab on this machine, and reads
// their results.
//
// It implements the verbs of roam-lab(8), each a thin layer over lab/runner,
// lab/result, lab/report and lab/linkem. It omits everything that a host which uses Roam needs:
// roam and roamd have that, and the experiments run them as a user would. People and scripts
// run it, directly or as `roam lab`.
package main

import (
	"os"

	"roam/internal/cli"

	"github.com/spf13/cobra"
)

// version is set when the binary is linked.
var version = "devel"

func main() {
	if status, ok := runAgent(os.Args[1:]); ok {
		os.Exit(status)
	}
	a := &app{cli.NewTerminal("roam-lab", os.Stdout, os.Stderr)}
	os.Exit(a.run(os.Args[1:]))
}

// app is one run of the command.
type app struct{ *cli.Terminal }

// run carries out one command line and returns the exit status.
func (a *app) run(args []string) int { return a.Run(a.root(), args, interrupted) }

// root returns the tree of commands.
func (a *app) root() *cobra.Command {
	root := a.Root(&cobra.Command{
		Use:   "roam-lab",
		Short: "Run experiments with Roam in network namespaces of this machine",
		Long: "Run experiments with Roam in network namespaces of this machine, and judge them.\n\n" +
			"To begin, `roam-lab list`, `roam-lab show quickstart`, then, as root,\n" +
			"`roam-lab run quickstart --preset quick`. The manual is roam-lab(8).",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("%q needs a verb: list, show, run, interop, compare, report, export or link", cmd.CommandPath())
		},
	}, version)
	root.AddCommand(
		a.listCommand(), a.showCommand(), a.runCommand(), a.interopCommand(),
		a.compareCommand(), a.reportCommand(), a.exportCommand(), a.linkCommand(),
	)
	a.Ordered(root)
	return root
}
