package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"roam/lab/result"
)

//go:embed overview.html
var overviewText string

var overview = template.Must(template.Must(page.Clone()).New("overview").Funcs(template.FuncMap{
	"minutes": minutes, "summary": summary,
}).Parse(overviewText))

// summary counts what the results of an overview say.
func summary(list []Paper) string {
	count, could := map[string]int{}, 0
	for _, p := range list {
		for _, i := range p.Items {
			if !i.Ever {
				could++
				continue
			}
			count[outcome(i.Result)]++
		}
	}
	s := fmt.Sprintf("%d of %d experiments pass", count["pass"], count["pass"]+count["fail"]+count["inconclusive"])
	for _, more := range []struct {
		n    int
		text string
	}{{count["fail"], "failed"}, {count["inconclusive"], "inconclusive"}, {could, "could not be run"}} {
		if more.n > 0 {
			s += fmt.Sprintf(", %d %s", more.n, more.text)
		}
	}
	return s + "."
}

// minutes is a time in seconds as people write it.
func minutes(s float64) string { return fmt.Sprintf("%d:%02d", int(s)/60, int(s)%60) }

// Item is one experiment of an overview.
type Item struct {
	*result.Result
	Page               string // its report, relative to the overview; "" for none
	Passed, Failed     int
	Missed             int
	Name, CouldNot     string // an experiment that could not be measured, and the reason
	HasPublished, Ever bool
}

// Paper is a group of an overview.
type Paper struct {
	Name  string
	Items []Item
}

// Overview reads all results (*.json) in a directory, draws the report of each beside it,
// and writes index.html with the claims of all, grouped by paper. A file NAME.error has the
// reason why an experiment could not be measured. Overview returns the path of index.html,
// and an error if there are no results.
func Overview(dir string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return "", fmt.Errorf("list results: %w", err)
	}
	failed, _ := filepath.Glob(filepath.Join(dir, "*.error")) // the same pattern with another suffix
	if len(paths)+len(failed) == 0 {
		if _, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("list results: %w", err)
		}
		return "", fmt.Errorf("list results: %s holds none (NAME.json, written by `roam-lab run NAME --json`): %w", dir,
			fs.ErrNotExist)
	}
	var items []Item
	for _, path := range paths {
		item, err := itemOf(path)
		if errors.Is(err, result.ErrForeign) {
			item = couldNot(filepath.Base(path), err.Error())
		} else if err != nil {
			return "", err
		}
		items = append(items, item)
	}
	for _, path := range failed {
		name := strings.TrimSuffix(filepath.Base(path), ".error")
		why, _ := os.ReadFile(path)
		if text := strings.TrimSpace(string(why)); text != "" {
			items = append(items, couldNot(name, text))
		}
	}
	var b bytes.Buffer
	if err := overview.Execute(&b, papers(items)); err != nil {
		return "", fmt.Errorf("draw overview: %w", err)
	}
	path := filepath.Join(dir, "index.html")
	return path, result.WriteFile(path, b.Bytes())
}

// couldNot is an item without a result.
func couldNot(name, why string) Item {
	return Item{Result: result.New(name), Name: name, CouldNot: why}
}

// itemOf reads a result and draws its report.
func itemOf(path string) (Item, error) {
	r, err := result.ReadJSON(path)
	if err != nil {
		return Item{}, err
	}
	page := strings.TrimSuffix(path, ".json") + ".html"
	if err := Write(page, r); err != nil {
		return Item{}, err
	}
	item := Item{Result: r, Page: filepath.Base(page), Name: r.Experiment, HasPublished: anyPublished(r), Ever: true}
	item.Passed, item.Failed, item.Missed = r.Count()
	return item, nil
}

// first is the experiment to read first: it shows what Roam is for.
const first = "quickstart"

// papers groups the items by name: the group of the first experiment, papers, which have
// published values, then others, and last the items without group.
func papers(items []Item) []Paper {
	var out []Paper
	for _, item := range items {
		name := cmp.Or(item.Group, "Others")
		i := slices.IndexFunc(out, func(p Paper) bool { return p.Name == name })
		if i < 0 {
			i = len(out)
			out = append(out, Paper{Name: name})
		}
		out[i].Items = append(out[i].Items, item)
	}
	rank := func(p Paper) int {
		switch {
		case slices.ContainsFunc(p.Items, func(i Item) bool { return i.Name == first }):
			return -1
		case p.Name == "Others":
			return 2
		case slices.ContainsFunc(p.Items, func(i Item) bool { return i.HasPublished }):
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Paper) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	return out
}
