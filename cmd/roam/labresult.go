package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"roam/lab/report"
	"roam/lab/result"

	"github.com/spf13/cobra"
)

func (a *app) labCompareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare A.json B.json", Short: "Set two results of one experiment side by side", Args: exactly("A.json", "B.json"),
		RunE: func(_ *cobra.Command, args []string) error {
			one, err := result.ReadJSON(args[0])
			if err != nil {
				return err
			}
			other, err := result.ReadJSON(args[1])
			if err != nil {
				return err
			}
			c, err := result.Compare(one, other)
			if err != nil {
				return err
			}
			return a.labCompare(c)
		},
	}
}

func (a *app) labCompare(c *result.Comparison) error {
	if a.json {
		return a.printJSON(c)
	}
	if len(c.Conditions) > 0 {
		t := a.table("CONDITION", "A", "B", "")
		for _, d := range c.Conditions {
			mark := ""
			if d.Weighty {
				mark = "not alike"
			}
			t.row(text("%s", d.What), text("%s", orDash(d.A)), text("%s", orDash(d.B)), cell{text: mark, colour: yellow})
		}
		t.print(a.out)
		fmt.Fprintln(a.out)
	}
	t := a.table("CLAIM", "A", "B", "BOUND", "VERDICT A", "VERDICT B")
	for _, p := range c.Claims {
		e := p.A.Expectation
		if e.ID == "" {
			e = p.B.Expectation
		}
		t.row(text("%s", p.Says), claimValue(p.A), claimValue(p.B), text("%s", boundText(e)), verdictCell(p.A), verdictCell(p.B))
	}
	t.print(a.out)
	fmt.Fprintln(a.out)
	t = a.table("METRIC", "A", "B", "B - A", "%")
	for _, m := range c.Metrics {
		percent := number("")
		if m.Percent != nil {
			percent = number("%+.1f", *m.Percent)
		}
		t.row(text("%s", m.Name), figureCell(m.A, ""), figureCell(m.B, ""), figureCell(m.Difference, "+"), percent)
	}
	t.print(a.out)
	if !c.Alike() {
		a.warn("the two were not measured under the same conditions: see above")
	}
	return nil
}

func claimValue(c result.Claim) cell {
	switch {
	case c.Value == nil:
		return text("-")
	case c.Unit == "yes" && *c.Value == 1:
		return text("yes")
	case c.Unit == "yes":
		return text("no")
	}
	return text("%s", strings.TrimSpace(strconv.FormatFloat(*c.Value, 'g', 4, 64)+" "+c.Unit))
}

func verdictCell(c result.Claim) cell {
	switch {
	case !c.Measured:
		return cell{text: c.Verdict(), colour: yellow}
	case c.Pass:
		return cell{text: c.Verdict(), colour: green}
	}
	return cell{text: c.Verdict(), colour: red}
}

// figureCell prints a figure, "-" where there is none; sign "+" shows the sign
// of a difference.
func figureCell(v *float64, sign string) cell {
	if v == nil {
		return number("-")
	}
	if sign != "" && *v > 0 {
		return number("+%s", strconv.FormatFloat(*v, 'g', 5, 64))
	}
	if math.Abs(*v) >= 1e5 {
		return number("%.0f", *v)
	}
	return number("%s", strconv.FormatFloat(*v, 'g', 5, 64))
}

func (a *app) labReportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "report DIR", Short: "Draw the reports of all results in a directory, and one page over them", Args: exactly("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := report.Overview(args[0])
			if err != nil {
				return err
			}
			return a.written([]string{path})
		},
	}
}

func (a *app) labExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export RESULT.json DIR", Short: "Write the figures of a result as SVG and its data as CSV", Args: exactly("RESULT.json", "DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := result.ReadJSON(args[0])
			if err != nil {
				return err
			}
			paths, err := report.Export(args[1], r)
			if err != nil {
				return err
			}
			return a.written(paths)
		},
	}
}

// written names the files that were made.
func (a *app) written(paths []string) error {
	if a.json {
		return a.printJSON(struct {
			Files []string `json:"files"`
		}{paths})
	}
	for _, p := range paths {
		fmt.Fprintln(a.out, p)
	}
	return nil
}
