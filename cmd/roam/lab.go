package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"roam/internal/control"

	"github.com/spf13/cobra"
)

// labProgram runs the experiments. It is a separate program, since a host that uses Roam needs
// neither a link emulator nor a generator of forged packets.
const labProgram = "roam-lab"

func (a *app) labCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lab", Short: "Run experiments in network namespaces of this machine (roam-lab)",
		Long: "Run the program roam-lab, if it is installed, with the same arguments.\n" +
			"`roam lab --help` prints the help of roam-lab.",
		// Flags are those of roam-lab, --help and --json among them.
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return a.lab(args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return a.completeLab(cmd, append(args, word))
		},
	}
}

// lab replaces this process by roam-lab. It returns only if that fails.
func (a *app) lab(args []string) error {
	path, err := a.host.Program(labProgram)
	if err != nil {
		return control.Errorf(control.CodeUnavailable, "%w", err).
			WithHint("the lab is a program of its own: install the package %s, or run `make build` in the sources of Roam and use bin/%s there",
				labProgram, labProgram)
	}
	if err := a.host.Exec(path, args...); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// completeLab asks roam-lab to complete a command line. The answer is a line for each proposal,
// then a colon and the directive.
func (a *app) completeLab(cmd *cobra.Command, words []string) (list []string, directive cobra.ShellCompDirective) {
	path, err := a.host.Program(labProgram)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	lines := bufio.NewScanner(strings.NewReader(a.host.Output(cmd.Context(), path, append([]string{cobra.ShellCompRequestCmd}, words...)...)))
	for lines.Scan() {
		if last, found := strings.CutPrefix(lines.Text(), ":"); found {
			_, _ = fmt.Sscan(last, &directive) // unparsable: the default directive
			continue
		}
		list = append(list, lines.Text())
	}
	return list, directive
}

// Program looks beside this program first, so that all programs are of one build.
func (machine) Program(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s beside roam, or in PATH: %w", name, err)
	}
	return path, nil
}

func (machine) Exec(path string, args ...string) error {
	return syscall.Exec(path, append([]string{filepath.Base(path)}, args...), os.Environ())
}
