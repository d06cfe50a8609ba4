package result

import (
	"fmt"
	"maps"
	"slices"
)

// Comparison sets two results of one experiment side by side.
type Comparison struct {
	Experiment string       `json:"experiment"`
	Conditions []Difference `json:"conditions"` // differences of the setup; everything else was equal
	Claims     []ClaimPair  `json:"claims"`
	Metrics    []MetricPair `json:"metrics"`
}

// Difference is a condition under which the two were not measured alike.
type Difference struct {
	What string `json:"what"` // "preset", "seed", "kernel", "parameter NAME"
	A    string `json:"a"`
	B    string `json:"b"`
	// Weighty differences make the figures incomparable. The seed and the version of the
	// program under test are not weighty.
	Weighty bool `json:"weighty"`
}

// ClaimPair is one claim in both results.
type ClaimPair struct {
	ID   string `json:"id"`
	Says string `json:"says"`
	A    Claim  `json:"a"`
	B    Claim  `json:"b"`
}

// MetricPair is one metric in both results; nil where it has no value.
type MetricPair struct {
	Name       string   `json:"name"`
	A          *float64 `json:"a"`
	B          *float64 `json:"b"`
	Difference *float64 `json:"difference"` // B less A
	Percent    *float64 `json:"percent"`    // of A; nil where A is 0
}

// Compare compares two results of one experiment; results of different experiments are an
// error.
func Compare(a, b *Result) (*Comparison, error) {
	if a.Experiment != b.Experiment {
		return nil, fmt.Errorf("compare results: one is of %s, the other of %s", a.Experiment, b.Experiment)
	}
	c := &Comparison{
		Experiment: a.Experiment,
		Conditions: conditions(a, b),
		Claims:     []ClaimPair{},
		Metrics:    []MetricPair{},
	}
	theirs := map[string]Claim{}
	for _, claim := range b.Claims {
		theirs[claim.ID] = claim
	}
	absent := Claim{Reason: "this result has no such claim"}
	for _, claim := range a.Claims {
		other, ok := theirs[claim.ID]
		if !ok {
			other = absent
		}
		delete(theirs, claim.ID)
		c.Claims = append(c.Claims, ClaimPair{claim.ID, claim.Says, claim, other})
	}
	for _, claim := range b.Claims {
		if _, only := theirs[claim.ID]; only {
			c.Claims = append(c.Claims, ClaimPair{claim.ID, claim.Says, absent, claim})
		}
	}
	names := maps.Clone(a.Metrics)
	maps.Copy(names, b.Metrics)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.Metrics = append(c.Metrics, pairOf(name, a, b))
	}
	return c, nil
}

func pairOf(name string, a, b *Result) MetricPair {
	p := MetricPair{Name: name}
	if v, ok := a.Metrics[name]; ok {
		p.A = &v
	}
	if v, ok := b.Metrics[name]; ok {
		p.B = &v
	}
	if p.A == nil || p.B == nil {
		return p
	}
	d := *p.B - *p.A
	p.Difference = &d
	if *p.A != 0 {
		share := 100 * d / *p.A
		p.Percent = &share
	}
	return p
}

// Alike reports whether there is no weighty difference.
func (c *Comparison) Alike() bool {
	return !slices.ContainsFunc(c.Conditions, func(d Difference) bool { return d.Weighty })
}

// conditions lists the differences of the setup of two runs.
func conditions(a, b *Result) []Difference {
	out := []Difference{}
	note := func(weighty bool, what string, x, y any) {
		if s, t := fmt.Sprint(x), fmt.Sprint(y); s != t {
			out = append(out, Difference{what, s, t, weighty})
		}
	}
	note(true, "preset", a.Preset, b.Preset)
	note(true, "engine", a.Engine, b.Engine)
	names := maps.Clone(a.Params)
	maps.Copy(names, b.Params)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		note(true, "parameter "+name, a.Params[name], b.Params[name])
	}
	note(true, "kernel", a.Machine.Kernel, b.Machine.Kernel)
	note(true, "processor", fmt.Sprintf("%s, %d cores", a.Machine.CPU, a.Machine.Cores),
		fmt.Sprintf("%s, %d cores", b.Machine.CPU, b.Machine.Cores))
	note(true, "congestion control", a.Machine.Congestion, b.Machine.Congestion)
	note(true, "disturbed by the machine", a.StallMonitor.Excuse() != "", b.StallMonitor.Excuse() != "")
	versions := maps.Clone(a.Machine.Versions)
	if versions == nil {
		versions = map[string]string{}
	}
	maps.Copy(versions, b.Machine.Versions)
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		note(name != "roam" && name != "roamd", "version of "+name, a.Machine.Versions[name], b.Machine.Versions[name])
	}
	note(false, "seed", a.Seed, b.Seed)
	note(false, "runs", a.Runs, b.Runs)
	return out
}
