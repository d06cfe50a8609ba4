// Package report draws a result.Result as one self-contained HTML page: claims with the
// measured value beside the bound, figures as inline SVG, tables, and the measuring
// machine.
//
// It implements line, stacked-area, scatter and distribution panels with event marks. It
// omits scripts and external resources: the page can be mailed and archived. It is driven
// by lab/runner and cmd/roam-lab, from the result alone, so that it can draw a stored JSON
// file again.
package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"

	"roam/lab/result"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure":       func(r *result.Result, f result.Figure) template.HTML { return template.HTML(figure(r, f)) },
	"picture":      picture,
	"num":          num,
	"value":        value,
	"bound":        bound,
	"params":       params,
	"sorted":       sortedStrings,
	"metrics":      metrics,
	"tally":        tally,
	"inconclusive": func(r *result.Result) bool { return r.Verdict == result.Inconclusive },
	"class":        class,
	"published":    published,
	"anyPublished": anyPublished,
	"runs":         runs,
	"beside":       beside,
	"few":          few,
	"missed":       missed,
	"files":        files,
	"base":         filepath.Base,
	"note":         note,
}).Parse(pageText))

// Render returns the page of a result.
func Render(r *result.Result) ([]byte, error) {
	var b bytes.Buffer
	if err := page.Execute(&b, r); err != nil {
		return nil, fmt.Errorf("render report of %s: %w", r.Experiment, err)
	}
	return b.Bytes(), nil
}

// Write renders a result into a file, making the directory when needed.
func Write(path string, r *result.Result) error {
	b, err := Render(r)
	if err != nil {
		return err
	}
	return result.WriteFile(path, b)
}

// picture returns a data URL for an image, or nothing if its type, which comes from a file,
// is no image type.
func picture(p result.Picture) template.URL {
	if p.Type != "image/png" && p.Type != "image/jpeg" {
		return ""
	}
	return template.URL("data:" + p.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Data))
}

// row is one line of a two-column listing.
type row struct{ Key, Value string }

func params(r *result.Result) []row {
	var out []row
	for k, v := range r.Params {
		out = append(out, row{k, fmt.Sprint(v)})
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func sortedStrings(m map[string]string) []row {
	var out []row
	for k, v := range m {
		out = append(out, row{k, v})
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func metrics(r *result.Result) []row {
	var out []row
	for k, v := range r.Metrics {
		out = append(out, row{k, num(v)})
	}
	for k, why := range r.Unmeasured {
		out = append(out, row{k, "not measured: " + why})
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// isFlag reports whether a claim is about a yes or a no.
func isFlag(c result.Claim) bool { return c.Unit == "yes" }

func value(c result.Claim) string {
	switch {
	case c.Value == nil:
		return "–"
	case isFlag(c) && *c.Value == 1:
		return "yes"
	case isFlag(c):
		return "no"
	}
	return strings.TrimSpace(num(*c.Value) + " " + c.Unit)
}

func bound(c result.Claim) string {
	if isFlag(c) {
		return "yes"
	}
	op := map[string]string{"<=": "≤", ">=": "≥", "==": "="}[c.Op]
	return strings.TrimSpace(op + "\u00a0" + num(c.Bound) + " " + c.Unit)
}

// class is the style of a verdict.
func class(c result.Claim) string { return strings.ReplaceAll(strings.ToLower(c.Verdict()), " ", "-") }

// published returns the paper's value, with the place.
func published(c result.Claim) string {
	if c.Published == nil {
		return ""
	}
	s := c.Published.Text
	if v := c.Published.Value; v != nil {
		s = strings.TrimSpace(num(*v) + " " + c.Unit)
	}
	if c.Place != "" {
		s += " (" + c.Place + ")"
	}
	return s
}

func anyPublished(r *result.Result) bool {
	return slices.ContainsFunc(r.Claims, func(c result.Claim) bool { return c.Published != nil })
}

// missed counts the claims that were not measured.
func missed(r *result.Result) int {
	_, _, n := r.Count()
	return n
}

// few reports whether the unmeasured claims are few enough to stand among the others.
func few(r *result.Result) bool { return missed(r) <= 6 }

// note names the statistic that a claim about several runs compares.
func note(c result.Claim) string {
	if c.Of == "" {
		return ""
	}
	return c.Of + " of the runs"
}

// tally summarizes the claims in words.
func tally(r *result.Result) string {
	pass, fail, missed := r.Count()
	s := fmt.Sprintf("%d of %d claims hold", pass, len(r.Claims))
	if fail > 0 {
		s += fmt.Sprintf(", %d do not", fail)
	}
	if missed > 0 {
		s += fmt.Sprintf(", %d not measured", missed)
	}
	if r.Verdict == result.Inconclusive {
		s = "inconclusive: " + s
	}
	return s
}
