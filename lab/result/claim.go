package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The kinds of claims. A noisy machine can fail a timing claim of a sound
// program; it cannot fail a correctness claim.
const (
	Correctness = "correctness"
	Timing      = "timing"
)

// The values of Expectation.Of: the statistic of several runs that a claim compares.
const (
	Spread = "spread"
	Mean   = "mean"
	Median = "median"
)

// Expectation is one entry of expect.json: a bound for one metric.
type Expectation struct {
	ID     string  `json:"id"`
	Says   string  `json:"says"` // the claim in one sentence
	Metric string  `json:"metric"`
	Op     string  `json:"op"` // <=, >= or ==
	Bound  float64 `json:"bound"`
	Unit   string  `json:"unit,omitempty"`
	Kind   string  `json:"kind"`   // correctness or timing
	Source string  `json:"source"` // the origin of the bound, and in words what that demands
	// Published is the paper's value, and Place its place in the paper ("Tab. 7.4").
	// Reports show it beside the measured value; it decides nothing.
	Published *Published `json:"published,omitempty"`
	Place     string     `json:"place,omitempty"`
	// Of names the value to compare with the bound if the metric differs from run to run:
	// "" is each run's value, "spread" the greatest minus the least, "mean" or "median"
	// that of all runs. The claim needs at least Runs runs.
	Of   string `json:"of,omitempty"`
	Runs int    `json:"runs,omitempty"`
	// Key marks a claim without which the experiment has shown nothing: a result in which it is
	// not measured is inconclusive.
	Key   bool    `json:"key,omitempty"`
	Needs []Guard `json:"needs,omitempty"` // without these the metric has no meaning
}

// Published is a value of a publication: a number in the unit of the claim, or
// words where the publication gives no number.
type Published struct {
	Value *float64
	Text  string
}

// String returns the number or the words.
func (p Published) String() string {
	if p.Value != nil {
		return strconv.FormatFloat(*p.Value, 'g', 6, 64)
	}
	return p.Text
}

// rangeRE finds the words that are numbers all the same: "97.8 to 100.3 %",
// "< 1 %".
var rangeRE = regexp.MustCompile(`^(?:([0-9.]+) to |(<) ?)([0-9.]+) ?([^0-9 ]*)$`)

// Range returns the published numbers if they are in the given unit: a value, a span, or a
// value that the paper gives as a bound.
func (p *Published) Range(unit string) (lo, hi float64, ok bool) {
	if p == nil {
		return 0, 0, false
	}
	if p.Value != nil {
		return *p.Value, *p.Value, true
	}
	m := rangeRE.FindStringSubmatch(p.Text)
	if m == nil || m[4] != "" && m[4] != unit || m[2] != "" && m[4] != unit {
		return 0, 0, false
	}
	hi, err := strconv.ParseFloat(m[3], 64)
	if err == nil && m[1] != "" {
		lo, err = strconv.ParseFloat(m[1], 64)
	}
	return lo, hi, err == nil
}

// MarshalJSON writes the number, or the words as a string.
func (p Published) MarshalJSON() ([]byte, error) {
	if p.Value != nil {
		return json.Marshal(*p.Value)
	}
	return json.Marshal(p.Text)
}

// UnmarshalJSON reads a number or a string.
func (p *Published) UnmarshalJSON(b []byte) error {
	var v *float64
	if json.Unmarshal(b, &v) == nil && v != nil {
		p.Value = v
		return nil
	}
	if err := json.Unmarshal(b, &p.Text); err != nil || p.Text == "" {
		return fmt.Errorf("published value %s is neither a number nor words", b)
	}
	return nil
}

// Guard is a condition on another metric without which a claim is not measured:
// a receiver that overflowed cannot count the loss of a network.
type Guard struct {
	Metric string  `json:"metric"`
	Op     string  `json:"op"`
	Bound  float64 `json:"bound"`
	Reason string  `json:"reason"` // said when the condition does not hold
	// Busy marks a condition that sound programs may break where processors are scarce (StallMonitor.Scarce). Elsewhere
	// the claim is judged whether it holds or not.
	Busy bool `json:"busy,omitempty"`
}

// Claim is a judged Expectation.
type Claim struct {
	Expectation
	Measured bool     `json:"measured"`
	Value    *float64 `json:"value"`            // absent when not measured
	Reason   string   `json:"reason,omitempty"` // why it was not measured
	Pass     bool     `json:"pass"`             // never true for a claim that was not measured
	// Disturbed says that the claim has a value, which does not count: it is of time, and the
	// machine stood still, or other programs had most of it.
	Disturbed bool `json:"disturbed,omitempty"`
}

// Verdict returns "pass", "FAIL", "not measured", or "not judged" for a disturbed claim.
func (c Claim) Verdict() string {
	switch {
	case c.Disturbed:
		return "not judged"
	case !c.Measured:
		return "not measured"
	case c.Pass:
		return "pass"
	}
	return "FAIL"
}

// ParseExpect reads an expect.json: an object whose member "claims" is a list of
// Expectations. Unknown members, unknown operators and duplicate identifiers are errors,
// since a misread claim could pass without being checked. A source without words is one, since
// a reader cannot judge its bound. Errors name the claim; the caller names the file.
func ParseExpect(b []byte) ([]Expectation, error) {
	var doc struct {
		Claims []Expectation `json:"claims"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("decode expectations: %w", err)
	}
	seen := map[string]bool{}
	for i, e := range doc.Claims {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("expectation %d (%q): %w", i+1, e.ID, err)
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("expectation %d: identifier %q stands twice", i+1, e.ID)
		}
		seen[e.ID] = true
	}
	return doc.Claims, nil
}

// backRE finds "the same" without a noun in the words of a claim: they refer to the claim before.
var backRE = regexp.MustCompile(`(?:^|[,:;] )[Tt]he same(?:$|[,:;.]| (?:as|by|for|in|less|of|over|with|without)\b)`)

// refRE finds a source that names a document, or whose a bound is; ownRE one whose words are not
// those of the published value.
var (
	refRE = regexp.MustCompile(`Roam's own|\bRFC \d|\bthesis\b|§|\b(?:section|chapter|table|figure|Tab\.|Figs?\.?) |` +
		`\b(?:19|20)\d\d\b`)
	ownRE = regexp.MustCompile(`Roam's own|^RFC \d`)
	// wordRE finds words, but no units and names.
	wordRE = regexp.MustCompile(`\b[a-z][a-z']{2,}\b`)
)

// isBare reports whether the source has no words on what its document, or Roam, demands. The
// published value beside a claim is such words of a paper.
func (e Expectation) isBare() bool {
	ref, words, _ := strings.Cut(e.Source, ": ")
	switch {
	case !refRE.MatchString(ref):
		words = e.Source
	case e.Published != nil && !ownRE.MatchString(ref):
		return false
	}
	return len(wordRE.FindAllString(words, 3)) < 3
}

func (e Expectation) check() error {
	switch {
	case e.ID == "" || e.Metric == "" || e.Source == "":
		return fmt.Errorf("id, metric and source must not be empty")
	case e.Kind != Correctness && e.Kind != Timing:
		return fmt.Errorf("kind %q is neither %q nor %q", e.Kind, Correctness, Timing)
	case !validOp(e.Op):
		return fmt.Errorf("operator %q is none of <=, >= and ==", e.Op)
	case !slices.Contains([]string{"", Spread, Mean, Median}, e.Of):
		return fmt.Errorf("of %q is none of spread, mean and median", e.Of)
	case e.Place != "" && e.Published == nil:
		return fmt.Errorf("a place in a publication, and no published value")
	case e.isBare():
		return fmt.Errorf("source %q does not say in words what it demands", e.Source)
	case backRE.MatchString(e.Says):
		return fmt.Errorf("%q refers to another claim, which reports show elsewhere", e.Says)
	}
	for _, g := range e.Needs {
		if g.Metric == "" || !validOp(g.Op) || g.Reason == "" {
			return fmt.Errorf("a member of needs lacks its metric, operator or reason")
		}
	}
	return nil
}

func validOp(op string) bool { return op == "<=" || op == ">=" || op == "==" }

// holds compares. Equality allows for the rounding of decimal fractions, but zero is zero.
func holds(v float64, op string, bound float64) bool {
	switch op {
	case "<=":
		return v <= bound
	case ">=":
		return v >= bound
	}
	if bound == 0 {
		return v == 0
	}
	return math.Abs(v-bound) <= 1e-9*math.Max(1, math.Abs(bound))
}

// Judge replaces the result's claims by the comparison of its metrics with the
// expectations. A claim is measured only if its metric has a value and every guard holds,
// and a claim about time only if the machine did not stand still; an unmeasured claim never
// passes.
func (r *Result) Judge(expect []Expectation) {
	r.Claims = make([]Claim, 0, len(expect))
	for _, e := range expect {
		r.Claims = append(r.Claims, r.judge(e))
	}
	r.conclude()
}

func (r *Result) judge(e Expectation) Claim {
	c := Claim{Expectation: e}
	if e.Of != "" {
		c.Reason = fewRuns(e, 1)
		return c
	}
	v, ok := r.Metrics[e.Metric]
	if !ok {
		c.Reason = r.whyMissing(e.Metric)
		return c
	}
	for _, g := range e.Needs {
		gv, ok := r.Metrics[g.Metric]
		switch {
		case g.Busy && r.StallMonitor.Scarce() == "":
		case !ok:
			c.Reason = fmt.Sprintf("%s is unknown: %s", g.Metric, r.whyMissing(g.Metric))
			return c
		case !holds(gv, g.Op, g.Bound):
			c.Reason = fmt.Sprintf("%s (%s = %g)", g.Reason, g.Metric, gv)
			if g.Busy {
				c.Reason = g.Reason + ": " + r.StallMonitor.Scarce()
			}
			return c
		}
	}
	if why := r.StallMonitor.Excuse(); e.Kind == Timing && why != "" {
		c.Disturbed = true
		c.Reason = fmt.Sprintf("%s, so %s does not count", why,
			strings.TrimSpace(strconv.FormatFloat(v, 'g', 4, 64)+" "+e.Unit))
		return c
	}
	c.Measured, c.Value, c.Pass = true, &v, holds(v, e.Op, e.Bound)
	return c
}

func (r *Result) whyMissing(metric string) string {
	if why := r.Unmeasured[metric]; why != "" {
		return why
	}
	return "the run did not produce this metric"
}

// Count returns how many claims passed, failed and were not measured.
func (r *Result) Count() (pass, fail, missed int) {
	for _, c := range r.Claims {
		switch {
		case !c.Measured:
			missed++
		case c.Pass:
			pass++
		default:
			fail++
		}
	}
	return pass, fail, missed
}
