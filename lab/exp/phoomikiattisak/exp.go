// Package phoomikiattisak repeats the measurements of "End-To-End Mobility for the Internet
// Using ILNP" (Phoomikiattisak and Bhatti, 2019): one TCP flow to a mobile host that moves
// from a near or far network to another by soft or hard handoff, under three congestion
// controls.
//
// It implements the topology of drawing.txt, the paper's metrics M1 to M5 from captures at
// both ends, its UDP criterion, and its future work: a policy that stays on the better
// link, signals before data in the queues, and no false handoff under load. It omits Mobile
// IPv6, the paper's comparator. It is driven by lab/runner; it uses only Roam's command
// line, as a user would.
package phoomikiattisak

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"roam/lab/cc"
	"roam/lab/exp"
	"roam/lab/scene"
	"roam/lab/workload"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name:   "phoomikiattisak-handoff",
	Title:  "TCP through handoffs between near and far networks, soft and hard, under CUBIC, Hybla and Veno",
	Group:  "Phoomikiattisak and Bhatti 2019, End-To-End Mobility for the Internet Using ILNP",
	Source: "Phoomikiattisak and Bhatti, WCMC 2019, article 7464179, §5 and §6",
	Tools:  tools(),
	Run:    run,
}.With(files)

func tools() map[string]string {
	t := maps.Clone(scene.Tools)
	maps.Copy(t, map[string]string{"iperf3": workload.Tools["iperf3"], "tcpdump": "tcpdump", "ss": "iproute2"})
	return t
}

// The kinds of handoff.
const (
	soft = "soft" // both links for a while, both locators in use
	hard = "hard" // both links, but the old locator is given up at once: the paper's hard handoff
	cut  = "cut"  // the old link dies when the new one comes up
)

// paths says for each scenario which of the two networks is far.
var paths = map[string][2]bool{
	"lan-lan": {false, false}, "lan-wan": {false, true}, "wan-lan": {true, false}, "wan-wan": {true, true},
}

// run measures all cells and fills in the result.
func run(ctx context.Context, env *exp.Env) (err error) {
	m, err := plan(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	env.View.Cells(m.cells())
	if err := m.tcp(ctx); err != nil {
		return err
	}
	if err := m.udp(ctx); err != nil {
		return err
	}
	if err := m.beyond(ctx); err != nil {
		return err
	}
	m.metrics()
	m.draw()
	return nil
}

// matrix is the plan of a run, and its results.
type matrix struct {
	env                        *exp.Env
	scenarios, kinds, variants []string
	without                    []string // SCENARIO-KIND
	controls                   map[string]*cc.Control
	runs                       []outcome
	udps                       []udpOutcome
	extra                      *extras
}

// plan reads the lists among the parameters and finds the congestion controls.
func plan(env *exp.Env) (m *matrix, err error) {
	p, known := env.Params, []string{}
	m = &matrix{env: env, controls: map[string]*cc.Control{}}
	for _, l := range []struct {
		into  *[]string
		key   string
		known []string
	}{
		{&m.scenarios, "scenarios", slices.Sorted(maps.Keys(paths))},
		{&m.kinds, "kinds", []string{soft, hard, cut}},
		{&m.variants, "variants", nil},
	} {
		if *l.into, err = list(p.Text(l.key), l.known); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", l.key, err)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(paths)) {
		for _, k := range []string{soft, hard, cut} {
			known = append(known, s+"-"+k)
		}
	}
	if m.without, err = list(p.Text("without"), known); err != nil && p.Text("without") != "" {
		return nil, fmt.Errorf("parameter without: %w", err)
	}
	for _, v := range m.variants {
		c, err := cc.Open(v)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("parameter variants: %w", err), m.close())
		}
		m.controls[v] = c
	}
	return m, nil
}

// list splits a list and checks its elements against known; nil allows all.
func list(text string, known []string) ([]string, error) {
	all := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(all) == 0 {
		return nil, errors.New("the list is empty")
	}
	for _, s := range all {
		if known != nil && !slices.Contains(known, s) {
			return nil, fmt.Errorf("%q is none of %s", s, strings.Join(known, ", "))
		}
	}
	return all, nil
}

// close takes our congestion controls away again.
func (m *matrix) close() (err error) {
	for _, c := range m.controls {
		err = errors.Join(err, c.Close())
	}
	return err
}

// kindsOf returns the kinds that are run in a scenario.
func (m *matrix) kindsOf(scenario string) (kinds []string) {
	for _, k := range m.kinds {
		if !slices.Contains(m.without, scenario+"-"+k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// cells returns the number of cells.
func (m *matrix) cells() int {
	n := 0
	for _, s := range m.scenarios {
		n += len(m.kindsOf(s))
	}
	n = n*len(m.variants)*m.env.Params.Int("repetitions") + len(m.scenarios)
	if m.env.Params.Bool("beyond") {
		n += beyondCells
	}
	return n
}

// tcp measures the cells with TCP. Kinds and variants alternate within a
// repetition, so that a slow change of the machine meets all alike.
func (m *matrix) tcp(ctx context.Context) error {
	for n := range m.env.Params.Int("repetitions") {
		for _, s := range m.scenarios {
			for _, k := range m.kindsOf(s) {
				for _, v := range m.variants {
					c := cell{env: m.env, scenario: s, kind: k, control: m.controls[v], repetition: n}
					o, err := exp.Cell(m.env, c.name(), func(w *exp.Window) (outcome, error) { return c.measure(ctx, w) })
					if err != nil {
						return err
					}
					m.runs = append(m.runs, o)
				}
			}
		}
	}
	return nil
}
