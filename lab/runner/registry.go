package runner

import (
	"cmp"
	"slices"

	"roam/lab/exp"
	"roam/lab/exp/beyond"
	"roam/lab/exp/bothmove"
	"roam/lab/exp/example"
	"roam/lab/exp/falsealarm"
	"roam/lab/exp/flood"
	"roam/lab/exp/hostile"
	"roam/lab/exp/instants"
	"roam/lab/exp/paths"
	"roam/lab/exp/phoomikiattisak"
	"roam/lab/exp/quickstart"
	"roam/lab/exp/shares"
	"roam/lab/exp/silent"
	"roam/lab/exp/simpson"
	"roam/lab/exp/video"
	"roam/lab/exp/yanagida"
	"roam/lab/result"
)

// experiments returns all experiments in the order of the list.
func experiments() []exp.Experiment {
	return slices.Concat(
		[]exp.Experiment{quickstart.Experiment},
		yanagida.Experiments,
		video.Experiments,
		[]exp.Experiment{phoomikiattisak.Experiment, beyond.Experiment, instants.Experiment,
			hostile.Experiment, flood.Experiment, silent.Experiment, falsealarm.Experiment,
			bothmove.Experiment, simpson.Host, simpson.Experiment, shares.Experiment},
		paths.Experiments,
	)
}

// unlisted returns the experiments that run but are not listed: templates and tests.
func unlisted() []exp.Experiment { return []exp.Experiment{example.Experiment} }

// Info describes an experiment to people.
type Info struct {
	Name    string            `json:"name"`
	Group   string            `json:"group"` // the paper
	Title   string            `json:"title"`
	Source  string            `json:"source"`
	Engines []string          `json:"engines"`
	Presets map[string]string `json:"presets"` // name to description
	// PresetValues holds the settings, omissions and duration of each preset.
	PresetValues map[string]exp.Preset    `json:"preset_values"`
	Parameters   map[string]exp.Parameter `json:"parameters"`
	Claims       []result.Expectation     `json:"claims"`
	Drawing      string                   `json:"drawing"`
	Readme       string                   `json:"readme"`
}

// List describes all experiments. A test checks their files, so none is faulty here.
func List() (out []Info) {
	for _, e := range experiments() {
		out = append(out, describe(e))
	}
	return out
}

// Show describes one experiment.
func Show(name string) (Info, error) {
	e, err := find(name)
	if err != nil {
		return Info{}, err
	}
	return describe(e), nil
}

func describe(e exp.Experiment) Info {
	info := Info{
		Name: e.Name, Group: cmp.Or(e.Group, e.Source), Title: e.Title, Source: e.Source,
		Drawing: e.Drawing, Readme: e.Readme,
		Presets: map[string]string{},
	}
	for _, engine := range exp.Engines {
		if e.Supports(engine) {
			info.Engines = append(info.Engines, engine)
		}
	}
	if d, err := exp.ParseParams(e.Params); err == nil {
		info.Parameters, info.PresetValues = d.Parameters, d.Presets
		for name, p := range d.Presets {
			info.Presets[name] = p.About
		}
	}
	if claims, err := result.ParseExpect(e.Expect); err == nil {
		info.Claims = claims
	}
	return info
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
	for _, e := range unlisted() {
		if e.Name == name {
			return e, nil
		}
	}
	return exp.Experiment{}, exp.Unknown("experiment", name, names)
}
