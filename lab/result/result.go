// Package result holds the output of an experiment: parameters, metrics, series, events,
// judged claims and a description of the machine.
//
// It implements the JSON form that `roam-lab run --json` writes and the judge that compares
// metrics with an experiment's expect.json. It omits drawing (lab/report) and running
// (lab/runner). It is driven by experiments, which set metrics, and by lab/runner, which
// judges and writes.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Result is one experiment's outcome: everything that a reader needs to judge
// it, and all that the report draws from.
type Result struct {
	Experiment   string             `json:"experiment"`
	Title        string             `json:"title"`
	Preset       string             `json:"preset"`
	Group        string             `json:"group,omitempty"`    // the paper
	Engine       string             `json:"engine,omitempty"`   // the engine: netns, sim or vm
	LeftOut      []string           `json:"left_out,omitempty"` // what the preset shortens or omits
	Seed         uint64             `json:"seed"`
	Params       map[string]any     `json:"params"`
	Started      time.Time          `json:"started"`
	Seconds      float64            `json:"seconds"` // how long the run took, set-up included
	Runs         int                `json:"runs"`
	Verdict      Verdict            `json:"verdict"`
	Pass         bool               `json:"pass"` // the verdict is "pass"
	Claims       []Claim            `json:"claims"`
	Metrics      map[string]float64 `json:"metrics"`              // the unit is in the name: gap_max_ms
	Unmeasured   map[string]string  `json:"unmeasured,omitempty"` // metric to the reason why it has no value
	Tables       []Table            `json:"tables,omitempty"`
	Figures      []Figure           `json:"figures,omitempty"`
	Pictures     []Picture          `json:"pictures,omitempty"`
	Series       []Series           `json:"series"`
	Events       []Event            `json:"events"`
	Drawing      string             `json:"drawing,omitempty"` // the topology as text
	StallMonitor StallMonitor       `json:"stall_monitor"`
	Machine      Machine            `json:"machine"`
	// Losses are the datagrams that were lost, by owner.
	Losses []Loss `json:"losses,omitempty"`
	// For several runs: the results of each, and statistics of each metric.
	Each  []Run            `json:"each,omitempty"`
	Stats map[string]Stats `json:"stats,omitempty"`
	// Emulator is the precision of the link emulator's delays right before the run; absent
	// without emulated links.
	Emulator *Emulator `json:"emulator,omitempty"`
	// Guest describes the guest in which the engine vm ran the experiment; absent for other
	// engines. Then Seconds and Started are the guest's virtual time.
	Guest *Guest `json:"guest,omitempty"`
	// Captures names the files that hold packets, with the directory.
	Captures []string `json:"captures,omitempty"`
	// Starts has for each arm the moment that is 0 on its axis of time.
	Starts map[string]time.Time `json:"starts,omitempty"`
	// Summary is what came out, in a few sentences for readers who do not know the
	// experiment; absent where the claims say it all.
	Summary string `json:"summary,omitempty"`
	// Recordings are what programs printed on a terminal, with the times.
	Recordings []Recording `json:"recordings,omitempty"`
}

// Recording is what a program printed.
type Recording struct {
	Title   string `json:"title"`
	Command string `json:"command"` // as a user types it
	Lines   []Line `json:"lines"`
}

// Line is a line of a recording.
type Line struct {
	T    float64 `json:"t"` // seconds since the start of the recording
	Text string  `json:"text"`
}

// Series is one measured quantity over time or over a rank.
type Series struct {
	Name string    `json:"name"` // unique within a Result
	Unit string    `json:"unit"`
	X    []float64 `json:"x"` // seconds since the start of traffic unless the panel says otherwise
	Y    []float64 `json:"y"`
}

// Event is a moment that figures mark with a vertical line.
type Event struct {
	T      float64            `json:"t"`             // seconds since the start of traffic
	Arm    string             `json:"arm,omitempty"` // which arm of the experiment, such as "control"
	Kind   string             `json:"kind"`
	Label  string             `json:"label"`
	Values map[string]float64 `json:"values,omitempty"` // the unit is in the name
}

// Table is a small table of the report, made of text already formatted.
type Table struct {
	Title   string     `json:"title"`
	Note    string     `json:"note,omitempty"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Picture is an image that the report shows after the figures, such as a frame of a
// received video. It must be small, since the report embeds it.
type Picture struct {
	Title   string `json:"title"`
	Caption string `json:"caption,omitempty"`
	Type    string `json:"type"` // image/png or image/jpeg
	Data    []byte `json:"data"`
}

// Figure is a group of panels above each other that share the horizontal axis.
type Figure struct {
	Title   string  `json:"title"`
	Caption string  `json:"caption,omitempty"`
	XLabel  string  `json:"x_label"`
	Panels  []Panel `json:"panels"`
}

// Ref is a line or a band across a panel that shows a published value.
type Ref struct {
	Label string   `json:"label"`        // such as "published mean"
	At    float64  `json:"at"`           // in the unit of the axis
	To    *float64 `json:"to,omitempty"` // makes it a band from At to To
	OnX   bool     `json:"on_x,omitempty"`
}

// The kinds of panels.
const (
	Lines  = "lines"  // one polyline per series
	Stack  = "stack"  // stacked areas in steps: a value covers the bin that ends at its X
	CDF    = "cdf"    // empirical distribution of the Y values; X is ignored
	Points = "points" // one dot per sample
)

// Panel is one pair of axes.
type Panel struct {
	Title  string   `json:"title,omitempty"`
	Kind   string   `json:"kind"`
	YLabel string   `json:"y_label"`
	Series []string `json:"series"`          // names of Series; the absent are left out
	Labels []string `json:"labels"`          // the legend's name of each of Series
	Arm    string   `json:"arm"`             // whose events are marked
	Marks  bool     `json:"marks,omitempty"` // draw the events
	LogX   bool     `json:"log_x,omitempty"`
	Height int      `json:"height,omitempty"` // pixels; 0 means the usual
	YMax   float64  `json:"y_max,omitempty"`  // 0 means from the data
	Refs   []Ref    `json:"refs,omitempty"`   // published values; the axis is made to hold them
}

// End returns the end of a band, or the place of a line.
func (r Ref) End() float64 {
	if r.To != nil {
		return *r.To
	}
	return r.At
}

// Emulator is the result of the emulator's accuracy test.
type Emulator struct {
	DelayMs  float64 `json:"delay_ms"`  // the configured delay
	LoadMbps float64 `json:"load_mbps"` // offered
	Sent     int     `json:"sent"`
	Received int     `json:"received"`
	MedianMs float64 `json:"err_median_ms"` // error of the delay
	P99Ms    float64 `json:"err_p99_ms"`
	MaxMs    float64 `json:"err_max_ms"`
}

// Guest is a guest of the engine vm.
type Guest struct {
	WallSeconds float64 `json:"wall_seconds"` // how long it took here, boot included
	// SHA256 is the digest of the result as the guest wrote it, in hexadecimal: equal runs
	// have equal digests.
	SHA256 string `json:"sha256"`
}

// Machine describes the measuring machine.
type Machine struct {
	Kernel     string            `json:"kernel"`
	CPU        string            `json:"cpu"`
	Cores      int               `json:"cores"`
	MemoryMB   int               `json:"memory_mb"`
	Congestion string            `json:"congestion_control"` // the kernel's default; params has the algorithm in use
	Versions   map[string]string `json:"versions"`           // program to version
}

// New returns an empty result of an experiment.
func New(experiment string) *Result {
	return &Result{
		Experiment: experiment,
		Params:     map[string]any{},
		Metrics:    map[string]float64{},
		Unmeasured: map[string]string{},
		Runs:       1,
	}
}

// Set records a metric. A value that is not finite is recorded as not measured,
// because it cannot be compared with any bound.
func (r *Result) Set(metric string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		r.Miss(metric, "no finite value came out of the measurement")
		return
	}
	r.Metrics[metric] = v
	delete(r.Unmeasured, metric)
}

// SetBool records a metric that is a yes (1) or a no (0).
func (r *Result) SetBool(metric string, yes bool) {
	v := 0.0
	if yes {
		v = 1
	}
	r.Set(metric, v)
}

// Miss records why a metric has no value. Claims on it are then not measured.
func (r *Result) Miss(metric, reason string) {
	delete(r.Metrics, metric)
	r.Unmeasured[metric] = reason
}

// AddSeries appends a series; X and Y must be of one length.
func (r *Result) AddSeries(name, unit string, x, y []float64) {
	r.Series = append(r.Series, Series{Name: name, Unit: unit, X: x, Y: y})
}

// Find returns the series of that name.
func (r *Result) Find(name string) (Series, bool) {
	for _, s := range r.Series {
		if s.Name == name {
			return s, true
		}
	}
	return Series{}, false
}

// Start records the moment that is 0 on the axis of time of an arm, so that reports can show
// there what is known by the clock.
func (r *Result) Start(arm string, at time.Time) {
	if r.Starts == nil {
		r.Starts = map[string]time.Time{}
	}
	r.Starts[arm] = at
}

// Mark appends an event.
func (r *Result) Mark(e Event) { r.Events = append(r.Events, e) }

// WriteJSON writes the result to a file, making the directory when needed.
func (r *Result) WriteJSON(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode result of %s: %w", r.Experiment, err)
	}
	return WriteFile(path, append(b, '\n'))
}

// WriteFile writes an output file of the lab atomically, and creates its directory if
// needed. If the disk is full, the previous file stays.
func WriteFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory for output: %w", err)
	}
	part := path + ".part"
	err := os.WriteFile(part, b, 0o644)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // it may not exist
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ErrForeign is wrapped by the error about a file that is no result.
var ErrForeign = errors.New("not a result of the lab")

// ReadJSON reads a file of WriteJSON; for another file the error is ErrForeign.
func ReadJSON(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r := New("")
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrForeign, path, err)
	}
	if r.Experiment == "" {
		return nil, fmt.Errorf("%w: %s names no experiment", ErrForeign, path)
	}
	if r.Verdict == "" { // of a time when there were two: what was not measured counted as passed
		r.conclude()
	}
	return r, nil
}
