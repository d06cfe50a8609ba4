package report

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"html/template"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"roam/lab/result"
)

// plain is the style of a standalone figure: the page's colours in light mode, on white,
// for papers and slides.
const plain = `<style>svg{background:#fff;font-family:"Source Sans 3","Noto Sans","Helvetica Neue",Arial,sans-serif}` +
	`text{fill:#1b1f24}.tick{font-size:11.5px;fill:#5b6470}.label{font-size:12.5px}.ptitle{font-size:13.5px;font-weight:650}` +
	`.key,.ptitle{stroke:#fff;stroke-width:4px;paint-order:stroke}.mark{font-size:11px;fill:#5b6470}.event{stroke:#7b8794;stroke-width:1;stroke-dasharray:3 3}.grid{stroke:#e9edf1;stroke-width:1}` +
	`.axis{fill:none;stroke:#5b6470;stroke-width:1.2}.area{fill-opacity:.9;stroke-width:.6}.ref{fill:none;stroke:#7a3fc0;stroke-width:1.6}` +
	`.band{fill:#7a3fc0;fill-opacity:.13}.reflabel{font-size:11px;fill:#7a3fc0;stroke:#fff;stroke-width:3px;paint-order:stroke}</style>`

// SVG returns a figure as a standalone file.
func SVG(r *result.Result, f result.Figure) []byte {
	return []byte(drawing(r, f, `xmlns="http://www.w3.org/2000/svg" `, plain))
}

// CSV returns the data of a figure, one sample a line: panel, series, unit, x
// and y. Distributions have no x.
func CSV(r *result.Result, f result.Figure) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"panel", "series", "unit", "x", "y"}) // a buffer takes all
	for _, p := range f.Panels {
		for i, name := range p.Series {
			s, _ := r.Find(name)
			for j, y := range s.Y {
				x := ""
				if j < len(s.X) && p.Kind != result.CDF {
					x = number(s.X[j])
				}
				_ = w.Write([]string{p.Title, labelOf(p, i), s.Unit, x, number(y)})
			}
		}
	}
	w.Flush()
	return b.Bytes()
}

// Export writes every figure of a result as SVG and its data as CSV, all series
// of every run, the claims and the metrics as CSV, and pictures as they are. It returns the files.
func Export(dir string, r *result.Result) (paths []string, err error) {
	put := func(name string, b []byte) {
		path := filepath.Join(dir, name)
		if err == nil {
			err = result.WriteFile(path, b)
		}
		paths = append(paths, path)
	}
	for i, f := range r.Figures {
		name := fmt.Sprintf("%02d-%s", i+1, fileName(f.Title))
		put(name+".svg", SVG(r, f))
		put(name+".csv", CSV(r, f))
	}
	for i, p := range r.Pictures {
		if kind, ok := strings.CutPrefix(p.Type, "image/"); ok && picture(p) != "" {
			put(fmt.Sprintf("picture-%02d-%s.%s", i+1, fileName(p.Title), kind), p.Data)
		}
	}
	for i, rec := range r.Recordings {
		put(fmt.Sprintf("terminal-%02d-%s.svg", i+1, fileName(rec.Title)), Terminal(rec))
	}
	put("series.csv", seriesCSV(r))
	put("claims.csv", claimsCSV(r))
	put("metrics.csv", metricsCSV(r))
	return paths, err
}

// runsOf returns the runs of a result, of which a single one is the result.
func runsOf(r *result.Result) []result.Run {
	if len(r.Each) > 0 {
		return r.Each
	}
	return []result.Run{{Seed: r.Seed, Metrics: r.Metrics, Series: r.Series}}
}

// seriesCSV holds the raw series of every run, one sample a line.
func seriesCSV(r *result.Result) []byte {
	rows := [][]string{{"seed", "series", "unit", "x", "y"}}
	for _, run := range runsOf(r) {
		for _, s := range run.Series {
			for i, y := range s.Y {
				x := ""
				if i < len(s.X) {
					x = number(s.X[i])
				}
				rows = append(rows, []string{strconv.FormatUint(run.Seed, 10), s.Name, s.Unit, x, number(y)})
			}
		}
	}
	return table(rows)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// claimsCSV is the table of claims.
func claimsCSV(r *result.Result) []byte {
	rows := [][]string{{"id", "says", "measured", "bound", "unit", "published", "place", "verdict", "reason"}}
	for _, c := range r.Claims {
		v, p := "", ""
		if c.Value != nil {
			v = number(*c.Value)
		}
		if c.Published != nil {
			p = c.Published.String()
		}
		rows = append(rows, []string{c.ID, c.Says, v, c.Op + " " + number(c.Bound), c.Unit, p,
			c.Place, c.Verdict(), c.Reason})
	}
	return table(rows)
}

// metricsCSV lists every metric by run; a single run is the only column.
func metricsCSV(r *result.Result) []byte {
	each := runsOf(r)
	head, names := []string{"metric"}, map[string]bool{}
	for _, run := range each {
		head = append(head, fmt.Sprintf("seed %d", run.Seed))
		for name := range run.Metrics {
			names[name] = true
		}
	}
	rows := [][]string{head}
	for name := range names {
		row := []string{name}
		for _, run := range each {
			cell := ""
			if v, ok := run.Metrics[name]; ok {
				cell = number(v)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return table(rows)
}

func table(rows [][]string) []byte {
	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(rows) // a buffer takes all
	return b.Bytes()
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// fileName makes a name for a file of a title.
func fileName(title string) string {
	s := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(title), "-"), "-")
	return strings.Trim(s[:min(len(s), 48)], "-")
}

// file is a download that the page embeds.
type file struct {
	Name, Kind string
	URL        template.URL
}

// carried bounds the size of an embedded download; `roam-lab export` writes larger data.
const carried = 2 << 20

// files are a figure and its data as downloads.
func files(r *result.Result, f result.Figure) (out []file) {
	name := r.Experiment + "-" + fileName(f.Title)
	for _, d := range []struct {
		kind, mime string
		data       []byte
	}{{"SVG", "image/svg+xml", SVG(r, f)}, {"CSV", "text/csv", CSV(r, f)}} {
		if len(d.data) <= carried {
			url := template.URL("data:" + d.mime + ";base64," + base64.StdEncoding.EncodeToString(d.data))
			out = append(out, file{name + "." + strings.ToLower(d.kind), d.kind, url})
		}
	}
	return out
}
