package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"roam/internal/cli"
	"roam/lab/result"
	"roam/lab/runner"
)

// result prints a result as text: the experiment's tables, then the claims.
func (a *app) result(r *result.Result) {
	for _, t := range r.Tables {
		a.heading(t.Title)
		table := a.Table(t.Columns...)
		for _, row := range t.Rows {
			cells := make([]cli.Cell, len(t.Columns))
			for i := range cells {
				if i < len(row) {
					cells[i].Text = row[i]
				}
			}
			table.Row(cells...)
		}
		table.Print(a.Out)
	}
	a.heading("claims")
	table := a.Table("VERDICT", "CLAIM", "MEASURED", "BOUND")
	for _, c := range r.Claims {
		says := c.Says
		if c.Reason != "" { // why it was not measured, or not judged
			says += " (" + c.Reason + ")"
		}
		if c.Published != nil {
			says += "; published: " + published(c)
		}
		table.Row(verdictCell(c), cli.Text("%s", says), cli.Text("%s", measured(c)), cli.Text("%s", bound(c)))
	}
	table.Print(a.Out)
	for _, l := range r.Losses {
		a.Fill("", fmt.Sprintf("datagrams, %s", l))
	}
	for _, line := range r.StallMonitor.InWords() {
		a.Fill("", "disturbed: "+line)
	}
	for _, l := range r.LeftOut {
		a.Fill("", fmt.Sprintf("left out by preset %s: %s", r.Preset, l))
	}
	a.Fill("", fmt.Sprintf("%s: %s in %.0f s%s", r.Experiment, runner.Verdict(r), r.Seconds, undecided(r)))
	if r.Summary != "" {
		a.Fill("", r.Summary)
	}
}

// undecided says what keeps a result from being conclusive, and what decides it.
func undecided(r *result.Result) string {
	if os.Getenv(runner.JudgeVariable) == result.Correctness {
		return " (judged by correctness alone)"
	}
	var names []string
	for _, c := range r.Undecided() {
		names = append(names, c.ID)
	}
	if r.Verdict != result.Inconclusive || len(names) == 0 {
		return ""
	}
	return "; not decided: " + strings.Join(names, ", ")
}

func measured(c result.Claim) string {
	if c.Value == nil {
		return "-"
	}
	return withUnit(*c.Value, c.Unit)
}

func bound(c result.Claim) string {
	if c.Unit == "yes" {
		return ""
	}
	return c.Op + " " + withUnit(c.Bound, c.Unit)
}

// published returns the paper's value.
func published(c result.Claim) string {
	if c.Published.Value == nil {
		return c.Published.Text
	}
	return withUnit(*c.Published.Value, c.Unit)
}

func withUnit(v float64, unit string) string {
	if unit == "yes" {
		return map[bool]string{true: "yes", false: "no"}[v == 1]
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'g', 4, 64) + " " + unit)
}
