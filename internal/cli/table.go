package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The colours of states; they mean nothing that the text does not say.
const (
	Plain  = ""
	Bold   = "1"
	Green  = "32"
	Yellow = "33"
	Red    = "31"
)

// Cell is one field of a table.
type Cell struct {
	Text   string
	Colour string
	Right  bool // aligned to the right, as numbers are
}

// Text is a cell without colour, aligned to the left.
func Text(format string, args ...any) Cell { return Cell{Text: fmt.Sprintf(format, args...)} }

// Number is a cell without colour, aligned to the right.
func Number(format string, args ...any) Cell {
	return Cell{Text: fmt.Sprintf(format, args...), Right: true}
}

// OrDash returns s, or "-" for nothing.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Table prints rows under headings, columns aligned and two blanks apart.
type Table struct {
	colour bool
	heads  []string
	rows   [][]Cell
}

// Table returns an empty table with these headings.
func (t *Terminal) Table(heads ...string) *Table { return &Table{colour: t.Colour, heads: heads} }

// Row adds a row: a cell for each heading.
func (t *Table) Row(cells ...Cell) { t.rows = append(t.rows, cells) }

// Print writes the headings and all rows.
func (t *Table) Print(w io.Writer) {
	width := make([]int, len(t.heads))
	for i, h := range t.heads {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c.Text))
		}
	}
	head := make([]Cell, len(t.heads))
	for i, h := range t.heads {
		// A heading stands over its numbers.
		head[i] = Cell{Text: h, Colour: Bold, Right: len(t.rows) > 0 && t.rows[0][i].Right}
	}
	t.line(w, width, head)
	for _, r := range t.rows {
		t.line(w, width, r)
	}
}

func (t *Table) line(w io.Writer, width []int, cells []Cell) {
	var b strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.Text))
		if i > 0 {
			b.WriteString("  ")
		}
		switch {
		case c.Right:
			b.WriteString(pad + paint(t.colour, c.Colour, c.Text))
		default:
			b.WriteString(paint(t.colour, c.Colour, c.Text) + pad)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}

// Paint returns s in a colour, or as it is where the terminal has none.
func (t *Terminal) Paint(colour, s string) string { return paint(t.Colour, colour, s) }

func paint(on bool, colour, s string) string {
	if !on || colour == Plain || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
