// Command roam shows the state of the daemon roamd and controls it.
//
// It implements the verbs of roam(8): one file per noun, each a thin layer over the control
// socket. It omits everything that the daemon can do itself; the verbs up and down also work
// without a daemon. It omits the lab too: the verb lab runs the program roam-lab. People and
// scripts drive it.
package main

import (
	"errors"
	"os"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// version is set when the binary is linked.
var version = "devel"

func main() {
	os.Exit(newApp(os.Stdout, os.Stderr).run(os.Args[1:]))
}

// run carries out one command line and returns the exit status.
func (a *app) run(args []string) int { return a.Run(a.root(), args, judge) }

// judge returns the exit status and the hint of an error of the daemon, or of the connection
// to it.
func judge(err error) (status int, hint string) {
	status = cli.StatusFailure
	var refusal *control.Error
	switch {
	case errors.Is(err, control.ErrNotRunning):
		status = cli.StatusNoDaemon
	case errors.As(err, &refusal) && refusal.Code == control.CodeChoice:
		status = cli.StatusUsage // the request is ambiguous: the hint names the options
	}
	return status, control.Hint(err)
}

// root returns the tree of commands.
func (a *app) root() *cobra.Command {
	root := a.Root(&cobra.Command{
		Use:   "roam",
		Short: "Show and control Roam: sessions that survive moves",
		Long: "Roam keeps TCP and UDP sessions alive while this host moves between networks,\n" +
			"and uses all of its networks at once. Both ends of a session must run it.\n\n" +
			"Without a verb, roam shows this host: identity, locators, peers, last moves.\n\n" +
			"To begin, run `roam up` here and on another host, then `roam export` there and\n" +
			"`roam add LINE` here, and the same in the other direction. Then `roam doctor\n" +
			"PEER` checks everything. The manual is roam(8).",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}, version)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configPath, "config", "", "find the daemon by the configuration `FILE` (default /etc/roam/roam.conf)")
	flags.StringVar(&a.socketPath, "socket", "", "use the control socket `PATH` (default: that of the configuration)")
	root.AddCommand(
		a.sessionCommand(), a.pathCommand(), a.topCommand(), a.locatorCommand(), a.counterCommand(), a.modeCommand(),
		a.monitorCommand(), a.configCommand(), a.upCommand(), a.downCommand(),
		a.exportCommand(), a.addCommand(), a.removeCommand(), a.renameCommand(), a.peerCommand(), keyCommand(a),
		a.doctorCommand(), a.explainCommand(), a.reportCommand(),
		a.observerCommand(), a.borderCommand(), a.policyCommand(), a.labCommand(), a.versionCommand(), a.statusCommand(),
	)
	a.Ordered(root)
	grouped(root)
	return root
}
