package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"roam/lab/interop"
	"roam/lab/node"
	"roam/lab/result"
)

// Outcome is the result of one case.
type Outcome struct {
	Case     Case
	Measured bool
	Pass     bool
	Value    string // times and losses
	Why      string // why it failed, or was not measured
	Metrics  map[string]float64
	Log      string // path of roamd's log, where it is kept
}

// Verdict returns "pass", "FAIL" or "not measured".
func (o Outcome) Verdict() string {
	switch {
	case !o.Measured:
		return "not measured"
	case o.Pass:
		return "pass"
	}
	return "FAIL"
}

// Options select the cases and the target: a profile or a foreign host.
type Options struct {
	Profile interop.Profile
	Foreign *Foreign // nil: the profile
	Bin     node.Binaries
	Hosts   string   // options of the target's hosts line; a case's own go before
	Cases   []string // names; empty: all
	Logs    string   // directory for roamd's logs; empty: none are kept
	Heard   func(Outcome)
	Busy    bool // other work on the machine costs time: only correctness is judged
}

// ErrUnknownCase is wrapped by the error about a name that no case has.
var ErrUnknownCase = errors.New("no such case")

// Select returns the cases with those names, or all.
func Select(names []string) ([]Case, error) {
	all := Cases()
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("case %q: %w; there are %s", n, ErrUnknownCase, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(c Case) bool { return !slices.Contains(names, c.Name) }), nil
}

// caseTime bounds a case, set-up included.
const caseTime = 90 * time.Second

// Run runs the cases one after the other.
func Run(ctx context.Context, o Options) ([]Outcome, error) {
	cases, err := Select(o.Cases)
	if err != nil {
		return nil, err
	}
	if o.Logs == "" {
		if o.Logs, err = os.MkdirTemp("", "roam-interop"); err != nil {
			return nil, fmt.Errorf("make directory for logs: %w", err)
		}
		defer os.RemoveAll(o.Logs)
	} else if err := os.MkdirAll(o.Logs, 0o755); err != nil {
		return nil, fmt.Errorf("make directory for logs: %w", err)
	}
	var all []Outcome
	for _, c := range cases {
		out, err := o.one(ctx, c)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return all, fmt.Errorf("case %s: %w", c.Name, err)
		}
		all = append(all, out)
		if o.Heard != nil {
			o.Heard(out)
		}
	}
	return all, nil
}

// one runs one case. Its error is an error of the lab; faults of the two sides are in the
// outcome.
func (o Options) one(ctx context.Context, c Case) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	c.options = merged(c.options, o.Hosts)
	w, err := newWorld(ctx, o.Bin, o.target(), c, o.Logs)
	if err != nil {
		return Outcome{}, err
	}
	if err := w.serve(); err != nil {
		return Outcome{}, errors.Join(err, w.close())
	}
	t := newTrial(w, c, o.Busy)
	err = c.run(ctx, t)
	if err == nil && !t.Case.plain {
		if why := w.plain(ctx); why != "" {
			t.fault("%s", why)
		}
	}
	return t.outcome(err), w.close()
}

// merged joins options of a hosts line; of two for one key the first counts.
func merged(first, more string) string {
	all := strings.Fields(first)
	for _, word := range strings.Fields(more) {
		key, _, _ := strings.Cut(word, "=")
		if !slices.ContainsFunc(all, func(have string) bool { return strings.HasPrefix(have, key+"=") || have == key }) {
			all = append(all, word)
		}
	}
	return strings.Join(all, " ")
}

func (o Options) target() target {
	if o.Foreign != nil {
		return &foreign{Foreign: *o.Foreign}
	}
	return &scripted{profile: o.Profile}
}

// outcome judges a case that is over.
func (t *trial) outcome(err error) Outcome {
	o := Outcome{Case: t.Case, Measured: true, Metrics: t.metrics, Value: joined(t.values), Log: t.log}
	if errors.Is(err, errUnmeasured) {
		o.Measured, o.Why = false, strings.TrimPrefix(err.Error(), errUnmeasured.Error()+": ")
		return o
	}
	if err != nil {
		t.fault("%v", err)
	}
	o.Pass = len(t.faults) == 0
	if !o.Pass {
		o.Why = joined(t.faults)
	}
	return o
}

// Result makes the result of the lab from outcomes, for its report and its JSON
// form.
func Result(name, about string, began time.Time, all []Outcome) *result.Result {
	r := result.New("interop " + name)
	r.Title, r.Group, r.Engine, r.Preset = "Roam and another stack: "+name, about, "netns", "all cases"
	r.Started, r.Seconds, r.Drawing = began, time.Since(began).Seconds(), Drawing
	r.Params["target"] = name
	var expect []result.Expectation
	table := result.Table{Title: "Cases", Columns: []string{"case", "what happens", "result", "time or loss", "why"}}
	for _, o := range all {
		metric := o.Case.Name + "_ok"
		for m, v := range o.Metrics {
			r.Set(o.Case.Name+"_"+m, v)
		}
		if o.Measured {
			r.SetBool(metric, o.Pass)
		} else {
			r.Miss(metric, o.Why)
		}
		expect = append(expect, result.Expectation{
			ID: o.Case.Name, Says: o.Case.Says, Metric: metric, Op: "==", Bound: 1, Unit: "yes",
			Kind: result.Correctness, Source: "case " + o.Case.Name,
		})
		table.Rows = append(table.Rows, []string{o.Case.Name, o.Case.Says, o.Verdict(), o.Value, o.Why})
	}
	r.Tables = []result.Table{table}
	r.Judge(expect)
	return r
}
