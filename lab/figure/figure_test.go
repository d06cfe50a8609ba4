package figure

import (
	"fmt"
	"reflect"
	"testing"

	"roam/lab/result"
)

func TestPlot(t *testing.T) {
	p := Plot{Title: "Rates", Caption: "of links", X: Time, Panels: []Panel{
		{Title: Way("out"), Kind: result.Stack, Y: "Mb/s", Arm: "roam", Marked: true, Height: 130,
			Refs: []result.Ref{{Label: "published", At: 10}}, Curves: []Curve{
				{Name: "a", Label: "net1", Unit: "Mb/s", X: []float64{1}, Y: []float64{2}}, {Name: "elsewhere", Label: "net2"},
			}},
		{Kind: result.CDF, Y: "share", LogX: true,
			Curves: []Curve{{Name: "b", Label: "gaps", Unit: "ms", Y: []float64{3, 4}}}},
	}}
	r := result.New("x")
	p.AddTo(r)
	Step(r, "roam", 1.23456, "soft 1")
	series := []result.Series{{Name: "a", Unit: "Mb/s", X: []float64{1}, Y: []float64{2}},
		{Name: "b", Unit: "ms", Y: []float64{3, 4}}}
	if !reflect.DeepEqual(r.Series, series) {
		t.Errorf("series %+v", r.Series)
	}
	want := []result.Figure{{Title: "Rates", Caption: "of links", XLabel: "time since the start of the schedule (s)",
		Panels: []result.Panel{
			{Title: "from the mobile host", Kind: "stack", YLabel: "Mb/s", Series: []string{"a", "elsewhere"},
				Labels: []string{"net1", "net2"},
				Arm:    "roam", Marks: true, Height: 130, Refs: []result.Ref{{Label: "published", At: 10}}},
			{Kind: "cdf", YLabel: "share", Series: []string{"b"}, Labels: []string{"gaps"}, LogX: true},
		}}}
	if !reflect.DeepEqual(r.Figures, want) {
		t.Errorf("figures\n%+v, want\n%+v", r.Figures, want)
	}
	if e := []result.Event{{T: 1.235, Arm: "roam", Kind: "step", Label: "soft 1"}}; !reflect.DeepEqual(r.Events, e) {
		t.Errorf("events %+v", r.Events)
	}
	hidden := result.New("y")
	p.AddData(hidden)
	if len(hidden.Figures) > 0 || !reflect.DeepEqual(hidden.Series, series) {
		t.Errorf("data alone: %+v", hidden)
	}
}

func TestTable(t *testing.T) {
	got := Table("Squares", "of numbers", []int{2, 3},
		Col("n", func(n int) string { return fmt.Sprint(n) }), Col("n²", func(n int) string { return fmt.Sprint(n * n) }))
	want := result.Table{
		Title:   "Squares",
		Note:    "of numbers",
		Columns: []string{"n", "n²"},
		Rows:    [][]string{{"2", "4"}, {"3", "9"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
