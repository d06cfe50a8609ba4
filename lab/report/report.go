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

//go:embed style.css
var style string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":     func() template.CSS { return template.CSS(style) },
	"lead":      lead,
	"glossary":  glossary,
	"outcome":   outcome,
	"unfolded":  unfolded,
	"brief":     brief,
	"folded":    folded,
	"steady":    steady,
	"short":     func(cell string) bool { return len(cell) <= 16 },
	"shaded":    shaded,
	"figure":    func(r *result.Result, f result.Figure) template.HTML { return template.HTML(inPage(figure(r, f))) },
	"picture":   picture,
	"terminal":  terminal,
	"num":       num,
	"value":     value,
	"bound":     bound,
	"params":    params,
	"sorted":    sortedStrings,
	"metrics":   metrics,
	"tally":     tally,
	"class":     class,
	"published": published,
	"runs":      runs,
	"beside":    beside,
	"files":     files,
	"base":      filepath.Base,
	"note":      note,
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

// terminal returns a recording as an image, so that its style is not the page's.
func terminal(r result.Recording) template.URL {
	return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(Terminal(r)))
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
