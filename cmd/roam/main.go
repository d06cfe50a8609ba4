// Command roam shows what the daemon roamd does and tells it what to do.
//
// It implements the verbs of roam(8): one file per noun, each a thin layer
// over the control socket. It omits everything that the daemon can do itself;
// the verbs up and down are what is left, since no daemon runs then. People
// and scripts drive it.
package main

import (
	"errors"
	"fmt"
	"os"

	"roam/internal/control"

	"github.com/spf13/cobra"
)

// The exit statuses, as roam(8) documents them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitNoRoamd = 3
)

// version is set when the binary is linked.
var version = "devel"

func main() {
	if status, ok := runAgent(os.Args[1:]); ok {
		os.Exit(status)
	}
	os.Exit(newApp(os.Stdout, os.Stderr).run(os.Args[1:]))
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// silentError ends with a status without a word: all has been said.
type silentError struct{ status int }

func (e silentError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// run carries out one command line and returns the exit status.
func (a *app) run(args []string) int {
	root := a.root()
	// Of nil cobra would make the arguments of the process.
	root.SetArgs(append([]string{}, args...))
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var silent silentError
	if errors.As(err, &silent) {
		return silent.status
	}
	status, hint := exitFailure, control.Hint(err)
	var usage usageError
	var refusal *control.Error
	switch {
	case errors.As(err, &usage):
		status = exitUsage
		if hint == "" {
			hint = "see `roam --help` or man 8 roam"
		}
	case errors.Is(err, control.ErrNotRunning):
		status = exitNoRoamd
	case errors.As(err, &refusal) && refusal.Code == control.CodeChoice:
		status = exitUsage // what was meant is not said: the hint names the options
	}
	a.complain(err, hint, status)
	return status
}

// root returns the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "roam",
		Short: "Show and steer Roam: sessions that survive moves",
		Long: "Without a verb, roam shows the host at a glance: its identity, its locators,\nits correspondents, the last move of each and what it cost.\n\n" +
			"To begin: `roam up` here and on another host, `roam export` there, `roam add LINE`\nhere, and the other way round. " +
			"Then `roam doctor PEER` says whether all is\nwell. roam(8) tells more.",
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.SetVersionTemplate("roam {{.Version}}\n")
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print JSON (see roam(8))")
	flags.StringVar(&a.configPath, "config", "", "`FILE` is the configuration (default /etc/roam/roam.conf)")
	flags.StringVar(&a.socketPath, "socket", "", "`PATH` of the daemon's control socket (default: from the configuration)")
	root.AddCommand(
		a.sessionCommand(), a.locatorCommand(), a.counterCommand(), a.modeCommand(),
		a.monitorCommand(), a.configCommand(), a.upCommand(), a.downCommand(),
		a.exportCommand(), a.addCommand(), a.removeCommand(), a.renameCommand(), a.peerCommand(), a.doctorCommand(), a.explainCommand(), a.reportCommand(),
		a.labCommand(), a.versionCommand(),
	)
	return root
}

// noArgs and exactly are cobra's checks with our exit status.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%q is not a verb of %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // letters that may be wrong
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, s[0])
	}
	return usageError{err}
}

func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError{fmt.Errorf("%q needs %s", cmd.CommandPath(), names[len(args)])}
		case len(args) > len(names):
			return usageError{fmt.Errorf("%q takes no further argument: %q", cmd.CommandPath(), args[len(names)])}
		}
		return nil
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError{fmt.Errorf("%q takes no further argument: %q", cmd.CommandPath(), args[n])}
		}
		return nil
	}
}
