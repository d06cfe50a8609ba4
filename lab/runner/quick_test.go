package runner

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"roam/lab/exp"
	"roam/lab/result"
)

// The preset quick judges the claims that standard judges, each on its hardest case: of a list of values
// that it shortens it has the hardest one, and a claim about a value that it drops is judged by one about
// a harder value, with a bound that is no looser, or is left out by name. A number that it changes lies on
// the harder side where one is named; what a shorter time or fewer repetitions leave out is said in words.
func TestQuickJudgesTheHardest(t *testing.T) {
	for _, e := range List() {
		for _, fault := range quickFaults(e) {
			t.Errorf("%s: %s", e.Name, fault)
		}
	}
}

// quickFaults says where the preset quick is easier than standard.
func quickFaults(e Info) (faults []string) {
	d := exp.Declaration{Parameters: e.Parameters, Presets: e.PresetValues}
	quick, err := d.Resolve("quick", nil)
	if err != nil {
		return []string{err.Error()}
	}
	standard, err := d.Resolve("standard", nil)
	if err != nil {
		return []string{err.Error()}
	}
	left, faults := leftOut(e)
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		switch e.Parameters[name].Default.(type) {
		case string:
			dropped := values(standard.Text(name))
			has := values(quick.Text(name))
			dropped = slices.DeleteFunc(dropped, func(v string) bool { return slices.Contains(has, v) })
			faults = append(faults, droppedFaults(e, name, quick.Text(name), dropped, left)...)
		case float64:
			faults = append(faults, numberFaults(e, name, quick.Float(name), standard.Float(name))...)
		case bool:
			if standard.Bool(name) && !quick.Bool(name) && len(left) == 0 {
				faults = append(faults, name+" is off, and no claim is left out by name")
			}
		}
	}
	return faults
}

// numberFaults says what is wrong with a number that quick changes: it lies on the easier side, or nothing says
// what it leaves out.
func numberFaults(e Info, name string, quick, standard float64) []string {
	side, why, declared := strings.Cut(e.Parameters[name].Hardest, ": ")
	switch {
	case quick == standard:
	case !declared && len(e.PresetValues["quick"].LeavesOut) == 0:
		return []string{fmt.Sprintf("%s is %g and not %g, and nothing says what that leaves out", name, quick, standard)}
	case declared && (why == "" || side != "less" && side != "more"):
		return []string{fmt.Sprintf("%s is hardest at %q, which is no side with a reason", name, e.Parameters[name].Hardest)}
	case declared && (side == "less") != (quick < standard):
		return []string{fmt.Sprintf("%s is %g in quick and %g in standard, which is harder: %s", name, quick, standard, why)}
	}
	return nil
}

// droppedFaults says what is wrong with a list of which quick lacks values.
func droppedFaults(e Info, name, quick string, dropped []string, left map[string]bool) (faults []string) {
	hardest, why, declared := strings.Cut(e.Parameters[name].Hardest, ": ")
	if declared && (why == "" || !slices.Contains(values(quick), hardest)) {
		faults = append(faults, fmt.Sprintf("%s is %q without the hardest, %q", name, quick, hardest))
	}
	for _, v := range dropped {
		about := claimsAbout(e, name, v)
		if len(about) == 0 && !declared {
			faults = append(faults, fmt.Sprintf("%s lacks %s, and nothing says which value is hardest", name, v))
		}
		for _, id := range about {
			if !left[id] {
				faults = append(faults, fmt.Sprintf("%s lacks %s, and no harder claim than %s is named", name, v, id))
			}
		}
	}
	return faults
}

// values are those of a list.
func values(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// claimsAbout returns the claims that one run judges and whose name or metric has a value of a list in it,
// or of all values the list's own name.
func claimsAbout(e Info, parameter, value string) (ids []string) {
	word := regexp.QuoteMeta(strings.ReplaceAll(value, "-", "_"))
	re := regexp.MustCompile(`(^|_)(` + word + `(p|ms)?|` + regexp.QuoteMeta(parameter) + `)(_|$)`)
	for _, c := range e.Claims {
		if c.Of == "" && (re.MatchString(strings.ReplaceAll(c.ID, "-", "_")) || re.MatchString(c.Metric)) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// leftOut returns the claims that quick leaves out, and what is wrong with those it judges instead.
func leftOut(e Info) (left map[string]bool, faults []string) {
	claims, left, quick := map[string]result.Expectation{}, map[string]bool{}, e.PresetValues["quick"]
	for _, c := range e.Claims {
		claims[c.ID] = c
	}
	instead := map[string]string{}
	for pattern, of := range quick.Harder {
		some := false
		for id := range claims {
			rest, ok := strings.CutPrefix(id, strings.TrimSuffix(pattern, "*"))
			if !ok || rest != "" && !strings.HasSuffix(pattern, "*") {
				continue
			}
			some, left[id] = true, true
			if of != "" {
				instead[id] = strings.ReplaceAll(of, "*", rest)
			} else if len(quick.LeavesOut) == 0 {
				faults = append(faults, "nothing says why "+id+" is left out")
			}
		}
		if !some {
			faults = append(faults, "there is no claim "+pattern)
		}
	}
	for id, of := range instead {
		c, h := claims[id], claims[of]
		looser := c.Op == "<=" && h.Bound > c.Bound || c.Op == ">=" && h.Bound < c.Bound ||
			c.Op == "==" && h.Bound != c.Bound
		if h.ID == "" || left[of] || h.Op != c.Op || h.Unit != c.Unit || looser {
			faults = append(faults, fmt.Sprintf("%s is not judged by %s: it is no claim, left out, or looser", id, of))
		}
	}
	return left, faults
}

// Each way in which quick can become easier is noticed.
func TestEasierQuickIsNoticed(t *testing.T) {
	sound := func() Info {
		return Info{
			Parameters: map[string]exp.Parameter{
				"cells": {Default: "near,far", Doc: "d"}, "rtts": {Default: "0,200", Doc: "d", Hardest: "200: it is"},
				"more":      {Default: true, Doc: "d"},
				"overlap_s": {Default: 2.0, Doc: "d", Hardest: "less: it is"}, "long_s": {Default: 60.0, Doc: "d"},
			},
			PresetValues: map[string]exp.Preset{
				"quick": {Set: map[string]any{"cells": "far", "rtts": "200", "more": false, "overlap_s": 1.5, "long_s": 5.0},
					LeavesOut: []string{"more"}, Harder: map[string]string{"near-*": "far-*", "more": ""}},
				"standard": {},
			},
			Claims: []result.Expectation{
				{ID: "near-lost", Op: "==", Metric: "near_lost"}, {ID: "far-lost", Op: "==", Metric: "far_lost"},
				{ID: "near-ms", Op: "<=", Bound: 20, Metric: "near_ms"}, {ID: "far-ms", Op: "<=", Bound: 20, Metric: "far_ms"},
				{ID: "more", Op: ">=", Bound: 1, Metric: "x"},
			},
		}
	}
	quick := func(change func(p *exp.Preset)) func(*Info) {
		return func(e *Info) {
			p := e.PresetValues["quick"]
			change(&p)
			e.PresetValues["quick"] = p
		}
	}
	for name, c := range map[string]struct {
		change func(*Info)
		faults int
	}{
		"as it should be":     {func(*Info) {}, 0},
		"without the hardest": {quick(func(p *exp.Preset) { p.Set["rtts"] = "0" }), 1},
		"none is the hardest": {func(e *Info) { e.Parameters["rtts"] = exp.Parameter{Default: "0,200"} }, 1},
		"the hardest without why": {func(e *Info) {
			e.Parameters["rtts"] = exp.Parameter{Default: "0,200", Hardest: "200: "}
		}, 1},
		"claims of a cell": {quick(func(p *exp.Preset) { delete(p.Harder, "near-*") }), 2},
		"a cell more":      {func(e *Info) { e.Parameters["cells"] = exp.Parameter{Default: "near,far,off"} }, 1},
		"a looser claim":   {func(e *Info) { e.Claims[3].Bound = 21 }, 1},
		"a looser least": {func(e *Info) {
			e.Claims[2].Op, e.Claims[3].Op, e.Claims[3].Bound = ">=", ">=", 19
		}, 1},
		"another value":           {func(e *Info) { e.Claims[1].Bound = 1 }, 1},
		"another operator":        {func(e *Info) { e.Claims[3].Op = ">=" }, 1},
		"another unit":            {func(e *Info) { e.Claims[3].Unit = "s" }, 1},
		"a claim that is none":    {func(e *Info) { e.Claims = slices.Delete(e.Claims, 3, 4) }, 1},
		"one left out as well":    {quick(func(p *exp.Preset) { p.Harder["far-ms"] = "" }), 1},
		"none of that name":       {quick(func(p *exp.Preset) { p.Harder["nothing"] = "" }), 1},
		"left out without why":    {quick(func(p *exp.Preset) { p.LeavesOut = nil }), 2},
		"a number that is easier": {quick(func(p *exp.Preset) { p.Set["overlap_s"] = 2.5 }), 1},
		"a number without a side": {func(e *Info) {
			e.Parameters["overlap_s"] = exp.Parameter{Default: 2.0, Hardest: "least: it is"}
		}, 1},
		"a side without why": {func(e *Info) {
			e.Parameters["overlap_s"] = exp.Parameter{Default: 2.0, Hardest: "less: "}
		}, 1},
		"a part off, none left out": {quick(func(p *exp.Preset) { p.Harder, p.Set["cells"] = nil, "near,far" }), 1},
	} {
		e := sound()
		c.change(&e)
		if faults := quickFaults(e); len(faults) != c.faults {
			t.Errorf("%s: %d faults, want %d: %q", name, len(faults), c.faults, faults)
		}
	}
}
