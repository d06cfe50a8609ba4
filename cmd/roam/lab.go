package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/runner"

	"github.com/spf13/cobra"
)

func (a *app) labCommand() *cobra.Command {
	noun := &cobra.Command{
		Use: "lab", Short: "Experiments in network namespaces of this machine", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%q needs a verb: list, show, run, interop, compare, report, export or link", cmd.CommandPath())}
		},
	}
	noun.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the experiments by paper", Args: noArgs,
			RunE: func(*cobra.Command, []string) error { return a.labList(runner.List()) },
		},
		&cobra.Command{
			Use: "show NAME", Short: "Show an experiment: topology, parameters, presets, claims and published values",
			Args: exactly("NAME"), ValidArgsFunction: experimentNames,
			RunE: func(_ *cobra.Command, args []string) error {
				e, err := runner.Show(args[0])
				if err != nil {
					return usageError{err}
				}
				return a.labShow(e)
			},
		},
		a.labRunCommand(), a.labInteropCommand(), a.labCompareCommand(), a.labReportCommand(), a.labExportCommand(), a.labLinkCommand(),
	)
	return noun
}

// experimentNames completes the first argument.
func experimentNames(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, e := range runner.List() {
			names = append(names, e.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) labRunCommand() *cobra.Command {
	var opt runner.Options
	cmd := &cobra.Command{
		Use: "run NAME", Short: "Run an experiment; status 0 only when every claim that was measured holds",
		Args: exactly("NAME"), ValidArgsFunction: experimentNames,
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

// labList prints one line for each experiment under the paper that it belongs
// to.
func (a *app) labList(list []runner.Info) error {
	if a.json {
		return a.printJSON(list)
	}
	var papers []string
	width := 0
	for _, e := range list {
		width = max(width, len(e.Name))
		if !slices.Contains(papers, e.Group) {
			papers = append(papers, e.Group)
		}
	}
	for i, p := range papers {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, paint(a.colour, bold, p))
		for _, e := range list {
			if e.Group == p {
				fmt.Fprintf(a.out, "  %-*s  %s\n", width, e.Name, e.Title)
			}
		}
	}
	return nil
}

func (a *app) labShow(e runner.Info) error {
	if a.json {
		return a.printJSON(e)
	}
	fmt.Fprintf(a.out, "%s: %s\n%s\n", paint(a.colour, bold, e.Name), e.Title, e.Source)
	if e.Group != e.Source {
		fmt.Fprintln(a.out, e.Group)
	}
	fmt.Fprintf(a.out, "engines: %s\n\n%s\n", strings.Join(e.Engines, ", "), strings.TrimRight(e.Drawing, "\n"))
	a.heading("presets")
	for _, name := range exp.Presets {
		a.showPreset(name, e.PresetValues[name])
	}
	a.heading("parameters")
	t := a.table("NAME", "DEFAULT", "LIMITS", "MEANING")
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		p := e.Parameters[name]
		t.row(text("%s", name), text("%v", p.Default), text("%s", p.Limits()), text("%s", p.Doc))
	}
	t.print(a.out)
	a.heading("claims")
	t = a.table("METRIC", "BOUND", "PUBLISHED", "CLAIM")
	for _, c := range e.Claims {
		t.row(text("%s", c.Metric), text("%s", boundText(c)), text("%s", publishedText(c)), text("%s", c.Says))
	}
	t.print(a.out)
	return nil
}

func (a *app) heading(s string) { fmt.Fprintf(a.out, "\n%s\n", paint(a.colour, bold, s)) }

func (a *app) showPreset(name string, p exp.Preset) {
	about := p.About
	if p.Seconds > 0 {
		about += fmt.Sprintf("; about %.0f s", p.Seconds)
	}
	fmt.Fprintf(a.out, "  %-9s %s\n", name, about)
	var set []string
	for _, key := range slices.Sorted(maps.Keys(p.Set)) {
		set = append(set, fmt.Sprintf("%s=%v", key, p.Set[key]))
	}
	if len(set) > 0 {
		fmt.Fprintf(a.out, "            sets %s\n", strings.Join(set, " "))
	}
	for _, l := range p.LeavesOut {
		fmt.Fprintf(a.out, "            leaves out: %s\n", l)
	}
}

// boundText is what must hold of a claim.
func boundText(c result.Expectation) string {
	if c.Unit == "yes" {
		return "yes"
	}
	s := strings.TrimSpace(c.Op + " " + strconv.FormatFloat(c.Bound, 'g', 6, 64) + " " + c.Unit)
	if c.Of != "" {
		s += " (" + c.Of + " of the runs)"
	}
	return s
}

// publishedText is what the paper found, and where it says so.
func publishedText(c result.Expectation) string {
	if c.Published == nil {
		return "-"
	}
	s := c.Published.String()
	if c.Published.Value != nil && c.Unit != "yes" {
		s = strings.TrimSpace(s + " " + c.Unit)
	}
	if c.Place != "" {
		s += " (" + c.Place + ")"
	}
	return s
}
