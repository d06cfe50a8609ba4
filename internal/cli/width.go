package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// usual is the width of output that goes to no terminal, as of ip and kubectl in a pipe.
const usual = 80

// widthOf returns the columns of a terminal; of anything else what COLUMNS says, which
// watch(1) sets for the programs that it runs, or the usual ones.
func widthOf(f *os.File) int {
	if w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 {
		return int(w.Col)
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return usual
}

// heightOf returns the lines of a terminal; 0: it is none, or its cursor cannot be moved.
func heightOf(f *os.File) int {
	if os.Getenv("TERM") == "dumb" {
		return 0
	}
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(w.Row)
}

// Columns returns how many characters a line may have; 0: any number.
func (t *Terminal) Columns() int {
	switch {
	case t.Wide:
		return 0
	case t.Width <= 0:
		return usual
	}
	return t.Width
}

// Fill prints a text in lines that fit: the first behind head, the others behind as many
// blanks.
func (t *Terminal) Fill(head, text string) {
	indent := visible(head)
	for i, line := range wrap(text, t.Columns()-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		fmt.Fprintln(t.Out, strings.TrimRight(head+line, " "))
	}
}

// visible returns the characters of a text that a terminal shows, which colours are not.
func visible(s string) int {
	n, code := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			code = true
		case code:
			code = r != 'm'
		default:
			n++
		}
	}
	return n
}

// least is the width of a column below which no text is pressed: what is wider than its
// terminal then is so. Words of at most wholeWord characters, such as prefixes, are broken last.
const least, wholeWord = 12, 24

// wrap breaks a text between words into lines of at most width characters; 0 or less: one
// line. A longer word, unless it is a command in backquotes, is broken behind a sign, as addresses and names have them, or
// anywhere.
func wrap(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := []rune{}
	for _, word := range words(text) {
		w := []rune(word)
		if len(line) > 0 && len(line)+1+len(w) <= width {
			line = append(append(line, ' '), w...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, string(line))
		}
		for len(w) > width && !strings.Contains(word, "`") {
			n := breakAt(w[:width])
			lines = append(lines, string(w[:n]))
			w = w[n:]
		}
		line = slices.Clone(w)
	}
	lines = append(lines, string(line))
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" })
}

// words parts a text at its blanks, except between a number and its unit, and in backquotes:
// a command must be fit to be copied.
func words(text string) (list []string) {
	quoted := false
	for _, w := range strings.Split(text, " ") {
		if quoted {
			list[len(list)-1] += " " + w
			quoted = !strings.Contains(w, "`")
			continue
		}
		quoted = strings.Count(w, "`") == 1
		if n := len(list) - 1; n >= 0 && w != "" && len(strings.TrimRight(w, ".,:;)")) <= 3 && isNumber(list[n]) {
			list[n] += " " + w
			continue
		}
		list = append(list, w)
	}
	return list
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789.,()<=>+-") == "" }

// breakAt returns how much of a word, the beginning of a longer one, is to stand on a line.
func breakAt(w []rune) int {
	for i := len(w); i > len(w)/2; i-- {
		if strings.ContainsRune(".:/,-_", w[i-1]) {
			return i
		}
	}
	return len(w)
}
