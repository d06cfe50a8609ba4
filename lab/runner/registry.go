package runner

import (
	"cmp"
	"fmt"
	"strings"

	"roam/lab/exp"
	"roam/lab/exp/quickstart"
)

// experiments are all that there are, in the order in which they are listed.
func experiments() []exp.Experiment {
	return []exp.Experiment{
		quickstart.Experiment,
	}
}

// Info describes an experiment to people.
type Info struct {
	Name       string                   `json:"name"`
	Group      string                   `json:"group"` // the paper
	Title      string                   `json:"title"`
	Source     string                   `json:"source"`
	Engines    []string                 `json:"engines"`
	Presets    map[string]string        `json:"presets"` // name to what it does
	Parameters map[string]exp.Parameter `json:"parameters"`
	Drawing    string                   `json:"drawing"`
	Readme     string                   `json:"readme"`
}

// List describes all experiments. Their files are checked by a test, so that
// a faulty one does not come this far.
func List() []Info {
	var out []Info
	for _, e := range experiments() {
		info := Info{Name: e.Name, Group: cmp.Or(e.Group, e.Source), Title: e.Title, Source: e.Source, Drawing: e.Drawing, Readme: e.Readme, Presets: map[string]string{}}
		for _, engine := range exp.Engines {
			if e.Supports(engine) {
				info.Engines = append(info.Engines, engine)
			}
		}
		if d, err := exp.ParseParams(e.Params); err == nil {
			info.Parameters = d.Parameters
			for name, p := range d.Presets {
				info.Presets[name] = p.About
			}
		}
		out = append(out, info)
	}
	return out
}

// find returns the experiment of that name.
func find(name string) (exp.Experiment, error) {
	var names []string
	for _, e := range experiments() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return exp.Experiment{}, fmt.Errorf("no experiment is called %q; there are %s", name, strings.Join(names, ", "))
}
