package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// The exit statuses, as roam(8) documents them.
const (
	StatusOK       = 0
	StatusFailure  = 1
	StatusUsage    = 2 // the command line is wrong, or does not say what is meant
	StatusNoDaemon = 3 // no daemon answers
)

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as a mistake on the command line: the status is StatusUsage.
func Usage(err error) error { return usageError{err} }

// Usagef is Usage of a new error.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

type silentError struct{ status int }

func (e silentError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// Silent returns a failure that ends the program with a status and without a
// word, where the output has said everything.
func Silent(status int) error { return silentError{status} }

// NoArgs refuses arguments, and suggests the verb that one may have been meant
// as.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return Usagef("%q takes no argument: %q", cmd.CommandPath(), args[0])
	}
	err := fmt.Errorf("%q is not a verb of %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = min(max(len(args[0])/2, 1), 2) // letters that may be wrong
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, s[0])
	}
	return Usage(err)
}

// Exactly wants one argument for each name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usagef("%q needs %s", cmd.CommandPath(), names[len(args)])
		case len(args) > len(names):
			return Usagef("%q takes no further argument: %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// AtMost wants n arguments or fewer.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return Usagef("%q takes no further argument: %q", cmd.CommandPath(), args[n])
		}
		return nil
	}
}
