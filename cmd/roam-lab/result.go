package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"roam/internal/cli"
	"roam/lab/report"
	"roam/lab/result"

	"github.com/spf13/cobra"
)

func (a *app) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare A.json B.json", Short: "Compare two results of one experiment", Args: cli.Exactly("A.json", "B.json"),
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
			return a.compare(c)
		},
	}
}

func (a *app) compare(c *result.Comparison) error {
	if a.JSON {
		return a.PrintJSON(c)
	}
	if len(c.Conditions) > 0 {
		t := a.Table("CONDITION", "A", "B", "")
		for _, d := range c.Conditions {
			mark := ""
			if d.Weighty {
				mark = "not alike"
			}
			t.Row(cli.Text("%s", d.What), cli.Text("%s", cli.OrDash(d.A)), cli.Text("%s", cli.OrDash(d.B)), cli.Cell{Text: mark, Colour: cli.Yellow})
		}
		t.Print(a.Out)
		fmt.Fprintln(a.Out)
	}
	t := a.Table("CLAIM", "A", "B", "BOUND", "VERDICT A", "VERDICT B")
	for _, p := range c.Claims {
		e := p.A.Expectation
		if e.ID == "" {
			e = p.B.Expectation
		}
		t.Row(cli.Text("%s", p.Says), claimValue(p.A), claimValue(p.B), cli.Text("%s", boundText(e)), verdictCell(p.A), verdictCell(p.B))
	}
	t.Print(a.Out)
	fmt.Fprintln(a.Out)
	t = a.Table("METRIC", "A", "B", "B - A", "%")
	for _, m := range c.Metrics {
		percent := cli.Number("")
		if m.Percent != nil {
			percent = cli.Number("%+.1f", *m.Percent)
		}
		t.Row(cli.Text("%s", m.Name), figureCell(m.A, ""), figureCell(m.B, ""), figureCell(m.Difference, "+"), percent)
	}
	t.Print(a.Out)
	if !c.Alike() {
		a.Warn("the two were not measured under the same conditions: see above")
	}
	return nil
}

func claimValue(c result.Claim) cli.Cell {
	switch {
	case c.Value == nil:
		return cli.Text("-")
	case c.Unit == "yes" && *c.Value == 1:
		return cli.Text("yes")
	case c.Unit == "yes":
		return cli.Text("no")
	}
	return cli.Text("%s", strings.TrimSpace(strconv.FormatFloat(*c.Value, 'g', 4, 64)+" "+c.Unit))
}

func verdictCell(c result.Claim) cli.Cell {
	switch {
	case !c.Measured:
		return cli.Cell{Text: c.Verdict(), Colour: cli.Yellow}
	case c.Pass:
		return cli.Cell{Text: c.Verdict(), Colour: cli.Green}
	}
	return cli.Cell{Text: c.Verdict(), Colour: cli.Red}
}

// figureCell prints a figure, "-" where there is none; sign "+" shows the sign
// of a difference.
func figureCell(v *float64, sign string) cli.Cell {
	if v == nil {
		return cli.Number("-")
	}
	if sign != "" && *v > 0 {
		return cli.Number("+%s", strconv.FormatFloat(*v, 'g', 5, 64))
	}
	if math.Abs(*v) >= 1e5 {
		return cli.Number("%.0f", *v)
	}
	return cli.Number("%s", strconv.FormatFloat(*v, 'g', 5, 64))
}

func (a *app) reportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "report DIR", Short: "Draw a report of each result in DIR, and an overview", Args: cli.Exactly("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := report.Overview(args[0])
			if err != nil {
				return err
			}
			return a.written([]string{path})
		},
	}
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export RESULT.json DIR", Short: "Write the figures of a result as SVG and its data as CSV", Args: cli.Exactly("RESULT.json", "DIR"),
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

// written lists the files that were written.
func (a *app) written(paths []string) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Files []string `json:"files"`
		}{paths})
	}
	for _, p := range paths {
		fmt.Fprintln(a.Out, p)
	}
	return nil
}
