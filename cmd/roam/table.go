package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"roam"
	"roam/internal/control"
)

// The colours of states; they mean nothing that the text does not say.
const (
	plain  = ""
	bold   = "1"
	green  = "32"
	yellow = "33"
	red    = "31"
)

// cell is one field of a table.
type cell struct {
	text   string
	colour string
	right  bool
}

func text(format string, args ...any) cell { return cell{text: fmt.Sprintf(format, args...)} }

func number(format string, args ...any) cell {
	return cell{text: fmt.Sprintf(format, args...), right: true}
}

// table prints rows under headings, columns aligned and two blanks apart.
type table struct {
	colour bool
	heads  []string
	rows   [][]cell
}

func (a *app) table(heads ...string) *table { return &table{colour: a.colour, heads: heads} }

func (t *table) row(cells ...cell) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	width := make([]int, len(t.heads))
	for i, h := range t.heads {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	head := make([]cell, len(t.heads))
	for i, h := range t.heads {
		// A heading stands over its numbers.
		head[i] = cell{text: h, colour: bold, right: len(t.rows) > 0 && t.rows[0][i].right}
	}
	t.line(w, width, head)
	for _, r := range t.rows {
		t.line(w, width, r)
	}
}

func (t *table) line(w io.Writer, width []int, cells []cell) {
	var b strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text))
		if i > 0 {
			b.WriteString("  ")
		}
		switch {
		case c.right:
			b.WriteString(pad + paint(t.colour, c.colour, c.text))
		default:
			b.WriteString(paint(t.colour, c.colour, c.text) + pad)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}

func paint(on bool, colour, s string) string {
	if !on || colour == plain || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// stateCell colours the states of locators and sessions.
func stateCell(state string, dead bool) cell {
	colour := plain
	switch state {
	case "active", "established":
		colour = green
	case "expired", "aged", "plain", "disabled":
		colour = yellow
	}
	if dead {
		return cell{text: state + ", no path", colour: red}
	}
	return cell{text: state, colour: colour}
}

// millis prints milliseconds with three digits that mean something.
func millis(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 10000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// span prints a duration for people: its largest unit, and the next one where
// that is more than a tenth of it.
func span(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 0:
		return "0 s"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
}

// ago prints how long ago t was, "-" when never.
func (a *app) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(a.now().Sub(t)) + " ago"
}

// left prints what remains of a lifetime in seconds; nil is no limit.
func left(s *float64) string {
	switch {
	case s == nil:
		return "no limit"
	case *s <= 0:
		return "over"
	}
	return span(time.Duration(*s * float64(time.Second)))
}

// bytes prints a number of bytes with a decimal prefix.
func nbytes(n uint64) string {
	v, units := float64(n), []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for v >= 1000 && i < len(units)-1 {
		v /= 1000
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// prefix prints a locator as the /64 that it is, in its shortest form.
func prefix(l roam.L64) string { return l.Prefix().String() }

// pathText prints one way to a correspondent.
func pathText(p control.Path) string {
	return fmt.Sprintf("%s %s > %s", p.Link, prefix(p.Local), prefix(p.Remote))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
