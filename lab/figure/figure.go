// Package figure declares the plots and tables of a result.
//
// It implements plots whose curves hold their own data, so that a series and its
// description stand together, and tables whose columns hold the format of their cells. It
// omits drawing, which lab/report does from the result alone. It is driven by the
// experiments below lab/exp.
package figure

import (
	"math"

	"roam/lab/result"
)

// Plot is a figure with its data.
type Plot struct {
	Title, Caption string
	X              string // the label of the horizontal axis
	Panels         []Panel
}

// Panel is one pair of axes.
type Panel struct {
	Title  string
	Kind   string // result.Lines or another kind
	Y      string // the label of the vertical axis
	LogX   bool
	Height int    // pixels; 0 means the usual
	Arm    string // whose events are marked
	Marked bool   // mark them
	Curves []Curve
	Refs   []result.Ref // published values
}

// Curve is one series in a panel.
type Curve struct {
	Name  string // unique within a result
	Label string // its name in the legend
	Unit  string
	X, Y  []float64 // without Y the series is another plot's, or missing
}

// Time is the axis label of data over the time of a schedule.
const Time = "time since the start of the schedule (s)"

// The ways of traffic as legends call them, by the word in names of series.
var ways = map[string]string{"out": "from the mobile host", "in": "to the mobile host"}

// Way returns the description of the direction "out" or "in".
func Way(word string) string { return ways[word] }

// AddTo adds the plot and its data to a result.
func (p Plot) AddTo(r *result.Result) {
	p.AddData(r)
	f := result.Figure{Title: p.Title, Caption: p.Caption, XLabel: p.X}
	for _, panel := range p.Panels {
		f.Panels = append(f.Panels, panel.axes())
	}
	r.Figures = append(r.Figures, f)
}

// AddData adds only the data of a plot, without the plot.
func (p Plot) AddData(r *result.Result) {
	for _, panel := range p.Panels {
		for _, c := range panel.Curves {
			if c.Y != nil {
				r.AddSeries(c.Name, c.Unit, c.X, c.Y)
			}
		}
	}
}

func (p Panel) axes() result.Panel {
	out := result.Panel{
		Title: p.Title, Kind: p.Kind, YLabel: p.Y, LogX: p.LogX, Height: p.Height, Arm: p.Arm, Marks: p.Marked, Refs: p.Refs,
	}
	for _, c := range p.Curves {
		out.Series, out.Labels = append(out.Series, c.Name), append(out.Labels, c.Label)
	}
	return out
}

// Step marks a step of a schedule in the panels of an arm, at so many seconds.
func Step(r *result.Result, arm string, at float64, label string) {
	r.Mark(result.Event{T: math.Round(at*1e3) / 1e3, Arm: arm, Kind: "step", Label: label})
}

// Column is one column of a table with rows of type T.
type Column[T any] struct {
	Head string
	Text func(T) string
}

// Col is a column with its heading.
func Col[T any](head string, text func(T) string) Column[T] { return Column[T]{Head: head, Text: text} }

// Table prints a row for each value.
func Table[T any](title, note string, values []T, columns ...Column[T]) result.Table {
	t := result.Table{Title: title, Note: note}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Head)
	}
	for _, v := range values {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.Text(v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
