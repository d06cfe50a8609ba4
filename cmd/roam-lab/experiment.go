package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"roam/internal/cli"
	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/runner"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the experiments by paper", Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.list(runner.List()) },
	}
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show the topology, parameters, presets and claims of an experiment",
		Args: cli.Exactly("NAME"), ValidArgsFunction: experimentNames,
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := runner.Show(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			return a.show(e)
		},
	}
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

func (a *app) runCommand() *cobra.Command {
	var opt runner.Options
	cmd := &cobra.Command{
		Use: "run NAME", Short: "Run an experiment (status 0: pass, 1: fail, 3: inconclusive)",
		Args: cli.Exactly("NAME"), ValidArgsFunction: experimentNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.measure(cmd.Context(), args[0], opt)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Preset, "preset", "standard", "use the preset `NAME`: quick, standard or paper")
	f.IntVar(&opt.Runs, "runs", 1, "run it `N` times")
	f.Uint64Var(&opt.Seed, "seed", 1, "seed the first run with `S`")
	f.StringArrayVar(&opt.Set, "set", nil, "set a parameter, `KEY=VALUE`; may be repeated")
	f.StringVar(&opt.Engine, "engine", "netns", "use the engine `NAME`: netns, sim or vm, if the experiment supports it")
	f.StringVar(&opt.Pcap, "pcap", "", "keep captures in `DIR`")
	f.BoolVar(&opt.Resume, "resume", false, "continue the same command after an interruption, without its finished parts")
	f.StringVar(&opt.JSON, "json", "", "write the result to `FILE`")
	f.StringVar(&opt.Report, "report", "", "write the HTML report to `FILE`")
	return cmd
}

func (a *app) measure(ctx context.Context, name string, opt runner.Options) error {
	if opt.Runs < 1 {
		return cli.Usagef("--runs %d: want 1 or more", opt.Runs)
	}
	opt.Out, opt.Show = a.Out, a.result
	res, err := runner.Run(ctx, name, opt)
	if errors.Is(err, runner.ErrUsage) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	return verdict(res) // the table has said which claims fail
}

// The exit statuses besides those of every program.
const (
	statusInconclusive = 3
	statusInterrupted  = 130 // 128 and SIGINT, as a shell has it
)

// verdict is the exit status of a result, without a word: its table has said all.
func verdict(res *result.Result) error {
	switch runner.Verdict(res) {
	case result.Failed:
		return cli.Silent(cli.StatusFailure)
	case result.Inconclusive:
		return cli.Silent(statusInconclusive)
	}
	return nil
}

// interrupted gives the status of a failure by an interrupt.
func interrupted(err error) (status int, hint string) {
	if errors.Is(err, context.Canceled) {
		return statusInterrupted, ""
	}
	return cli.StatusFailure, ""
}

// list prints one line for each experiment under the paper that it belongs
// to.
func (a *app) list(list []runner.Info) error {
	if a.JSON {
		return a.PrintJSON(list)
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
			fmt.Fprintln(a.Out)
		}
		fmt.Fprintln(a.Out, a.Paint(cli.Bold, p))
		for _, e := range list {
			if e.Group == p {
				a.Fill(fmt.Sprintf("  %-*s  ", width, e.Name), e.Title)
			}
		}
	}
	return nil
}

func (a *app) show(e runner.Info) error {
	if a.JSON {
		return a.PrintJSON(e)
	}
	a.Fill("", e.Name+": "+e.Title)
	a.Fill("", e.Source)
	if e.Group != e.Source {
		a.Fill("", e.Group)
	}
	fmt.Fprintf(a.Out, "engines: %s\n\n%s\n", strings.Join(e.Engines, ", "), strings.TrimRight(e.Drawing, "\n"))
	a.heading("presets")
	for _, name := range exp.Presets {
		a.showPreset(name, e.PresetValues[name])
	}
	a.heading("parameters")
	t := a.Table("NAME", "DEFAULT", "LIMITS", "MEANING")
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		p := e.Parameters[name]
		t.Row(cli.Text("%s", name), cli.Text("%v", p.Default), cli.Text("%s", p.Limits()), cli.Text("%s", p.Doc))
	}
	t.Print(a.Out)
	a.heading("claims")
	t = a.Table("METRIC", "BOUND", "PUBLISHED", "CLAIM")
	for _, c := range e.Claims {
		t.Row(cli.Text("%s", c.Metric), cli.Text("%s", boundText(c)), cli.Text("%s", publishedText(c)), cli.Text("%s", c.Says))
	}
	t.Print(a.Out)
	return nil
}

func (a *app) heading(s string) { fmt.Fprintf(a.Out, "\n%s\n", a.Paint(cli.Bold, s)) }

func (a *app) showPreset(name string, p exp.Preset) {
	about := p.About
	if p.Seconds > 0 {
		about += fmt.Sprintf("; about %.0f s", p.Seconds)
	}
	a.Fill(fmt.Sprintf("  %-9s ", name), about)
	var set []string
	for _, key := range slices.Sorted(maps.Keys(p.Set)) {
		set = append(set, fmt.Sprintf("%s=%v", key, p.Set[key]))
	}
	if len(set) > 0 {
		a.Fill("            ", "sets "+strings.Join(set, " "))
	}
	for _, l := range p.LeavesOut {
		a.Fill("            ", "leaves out: "+l)
	}
	for _, id := range slices.Sorted(maps.Keys(p.Harder)) {
		if of := p.Harder[id]; of != "" {
			a.Fill("            ", fmt.Sprintf("judges %s, which is harder, in place of %s", of, id))
		}
	}
}

// boundText formats the bound of a claim.
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

// publishedText formats the published value, and its place in the paper.
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
