package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"roam/lab/runner"

	"github.com/spf13/cobra"
)

func (a *app) labCommand() *cobra.Command {
	noun := &cobra.Command{
		Use: "lab", Short: "Experiments in network namespaces of this machine", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%q needs a verb: list or run", cmd.CommandPath())}
		},
	}
	noun.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the experiments with their presets", Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return a.labList(runner.List()) },
		},
		a.labRunCommand(),
	)
	return noun
}

func (a *app) labRunCommand() *cobra.Command {
	var opt runner.Options
	cmd := &cobra.Command{
		Use: "run NAME", Short: "Run an experiment; status 0 only when every claim that was measured holds",
		Args: exactly("NAME"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, e := range runner.List() {
				names = append(names, e.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.labRun(orBackground(cmd.Context()), args[0], opt)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Preset, "preset", "standard", "`NAME` of the preset: quick, standard or paper")
	f.IntVar(&opt.Runs, "runs", 1, "`N` repetitions")
	f.Uint64Var(&opt.Seed, "seed", 1, "`S` is the seed of the first run")
	f.StringArrayVar(&opt.Set, "set", nil, "`KEY=VALUE` sets a parameter; may be repeated")
	f.StringVar(&opt.Engine, "engine", "netns", "`NAME` of what carries it out: netns, sim or vm, where the experiment can")
	f.StringVar(&opt.Pcap, "pcap", "", "keep captures in `DIR`")
	f.BoolVar(&opt.Resume, "resume", false, "go on with the same command that was interrupted; finished parts are not measured again")
	f.StringVar(&opt.JSON, "json", "", "write the result to `FILE`")
	f.StringVar(&opt.Report, "report", "", "write the HTML report to `FILE`")
	return cmd
}

func (a *app) labList(list []runner.Info) error {
	if a.json {
		return a.printJSON(list)
	}
	t := a.table("NAME", "TITLE", "SOURCE")
	for _, e := range list {
		t.row(text("%s", e.Name), text("%s", e.Title), text("%s", e.Source))
	}
	t.print(a.out)
	for _, e := range list {
		fmt.Fprintf(a.out, "\n%s\n", paint(a.colour, bold, e.Name))
		for _, p := range slices.Sorted(maps.Keys(e.Presets)) {
			fmt.Fprintf(a.out, "  --preset %-9s %s\n", p, e.Presets[p])
		}
	}
	return nil
}

func (a *app) labRun(ctx context.Context, name string, opt runner.Options) error {
	if opt.Runs < 1 {
		return usageError{fmt.Errorf("--runs %d: want 1 or more", opt.Runs)}
	}
	opt.Out = a.out
	res, err := runner.Run(ctx, name, opt)
	if err != nil {
		return err
	}
	if !runner.Verdict(res) {
		return silentError{exitFailure} // the table has said which claims fail
	}
	return nil
}
