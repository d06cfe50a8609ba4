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

// Table prints rows under headings, columns aligned and two blanks apart, in lines that fit
// the terminal: where they would not, texts go on below, in their columns.
type Table struct {
	colour bool
	limit  int // columns of the terminal; 0: any number
	heads  []string
	rows   [][]Cell
}

// Table returns an empty table with these headings.
func (t *Terminal) Table(heads ...string) *Table {
	return &Table{colour: t.Colour, limit: t.Columns(), heads: heads}
}

// Row adds a row: a cell for each heading.
func (t *Table) Row(cells ...Cell) { t.rows = append(t.rows, cells) }

// Print writes the headings and all rows.
func (t *Table) Print(w io.Writer) {
	head := make([]Cell, len(t.heads))
	for i, h := range t.heads {
		// A heading stands over its numbers.
		head[i] = Cell{Text: h, Colour: Bold, Right: len(t.rows) > 0 && t.rows[0][i].Right}
	}
	all := append([][]Cell{head}, t.rows...)
	width := t.widths(all)
	if t.limit > 0 && sum(width)+gap*(len(width)-1) > t.limit {
		t.records(w)
		return
	}
	for _, r := range all {
		t.row(w, width, r)
	}
}

// records prints what has too many columns for its terminal: a line for each cell that has a
// text, behind its heading.
func (t *Table) records(w io.Writer) {
	heads := 0
	for _, h := range t.heads {
		heads = max(heads, min(utf8.RuneCountInString(h), wholeWord))
	}
	for i, r := range t.rows {
		if i > 0 {
			fmt.Fprintln(w)
		}
		for j, c := range r {
			if c.Text != "" {
				c.Right = false
				width := []int{heads, max(least, t.limit-heads-gap)}
				t.row(w, width, []Cell{{Text: t.heads[j], Colour: Bold}, c})
			}
		}
	}
}

const gap = 2 // blanks between columns

// widths returns the width of each column.
func (t *Table) widths(rows [][]Cell) []int {
	width, longest := make([]int, len(t.heads)), make([]int, len(t.heads))
	numbers := make([]bool, len(t.heads))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c.Text))
			for _, word := range words(c.Text) {
				longest[i] = max(longest[i], utf8.RuneCountInString(word))
			}
			numbers[i] = numbers[i] || c.Right
		}
	}
	if t.limit == 0 {
		return width
	}
	// Texts are broken between words first, then within; numbers stay whole.
	for _, whole := range []bool{true, false} {
		for sum(width)+gap*(len(width)-1) > t.limit {
			widest := -1
			for i, n := range width {
				floor := least
				if whole {
					floor = max(least, min(longest[i], wholeWord))
				}
				if !numbers[i] && n > floor && (widest < 0 || n > width[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			width[widest]--
		}
	}
	return width
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// row writes a row: a line, or as many as its longest text needs.
func (t *Table) row(w io.Writer, width []int, cells []Cell) {
	parts, height := make([][]string, len(cells)), 0
	for i, c := range cells {
		parts[i] = wrap(c.Text, width[i])
		height = max(height, len(parts[i]))
	}
	for n := range height {
		line := make([]Cell, len(cells))
		for i, c := range cells {
			line[i] = Cell{Colour: c.Colour, Right: c.Right}
			if n < len(parts[i]) {
				line[i].Text = parts[i][n]
			}
		}
		t.line(w, width, line)
	}
}

func (t *Table) line(w io.Writer, width []int, cells []Cell) {
	var b strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(c.Text)))
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
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
