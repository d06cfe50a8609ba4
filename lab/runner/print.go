package runner

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"roam/lab/result"
)

// Print writes a result as text: the experiment's tables, then the claims.
func Print(w io.Writer, r *result.Result) {
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "  "+strings.Join(t.Columns, "\t"))
		for _, row := range t.Rows {
			fmt.Fprintln(tw, "  "+strings.Join(row, "\t"))
		}
		_ = tw.Flush() // the writer below is the terminal
	}
	fmt.Fprintln(w, "\nclaims")
	tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	for _, c := range r.Claims {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", c.Verdict(), c.Says, measured(c), bound(c), published(c))
	}
	_ = tw.Flush()
	for _, l := range r.Losses {
		fmt.Fprintf(w, "datagrams, %s\n", l)
	}
	for _, line := range r.StallMonitor.InWords() {
		fmt.Fprintf(w, "disturbed: %s\n", line)
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "left out by preset %s: %s\n", r.Preset, l)
	}
	fmt.Fprintf(w, "%s: %s in %.0f s%s\n", r.Experiment, Verdict(r), r.Seconds, undecided(r))
	if r.Summary != "" {
		fmt.Fprintln(w, r.Summary)
	}
}

// undecided says what keeps a result from being conclusive, and what decides it.
func undecided(r *result.Result) string {
	if os.Getenv(JudgeVariable) == result.Correctness {
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
		return c.Reason
	}
	return withUnit(*c.Value, c.Unit)
}

func bound(c result.Claim) string {
	if c.Unit == "yes" {
		return ""
	}
	return "(" + c.Op + " " + withUnit(c.Bound, c.Unit) + ")"
}

// published returns the paper's value.
func published(c result.Claim) string {
	if c.Published == nil {
		return ""
	}
	return "published: " + c.Published.String()
}

func withUnit(v float64, unit string) string {
	if unit == "yes" {
		return map[bool]string{true: "yes", false: "no"}[v == 1]
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'g', 4, 64) + " " + unit)
}
