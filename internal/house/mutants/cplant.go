package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// cFault is a fault in a file of C. The variable mutant chooses it by its number, which the loader sets: the kernel's
// verifier takes the branches for constant.
type cFault struct {
	mutant
	from, to int // what is replaced or taken out
}

// cChoice is compiled ahead of the programs.
const cChoice = "const volatile unsigned int mutant = 0;\n"

var (
	cFunction = regexp.MustCompile(`(?m)^[a-z_].*?(\w+)\([^;]*?\)\n\{\n((?s:.*?))^\}`)
	cBranch   = regexp.MustCompile(`\bif \(`)
	cValue    = regexp.MustCompile(`\breturn\b([^;]*);|[^=!<>]=([^=;][^;]*);`)
	cCompares = regexp.MustCompile(`==|!=|<=|>=|[<>]`)
	cShifts   = strings.NewReplacer("<<", "  ", ">>", "  ", "->", "  ")
	cDoes     = regexp.MustCompile(`[\t ]((?:[a-z_]\w*\([^;{}]*\)|\w+(?:->|\.)[\w.\[\]>-]+ [|&^+-]?= [^;{}]*);)`)
	cIgnored  = regexp.MustCompile(`(?s)/\*.*?\*/|"[^"\n]*"`)
)

// cText is a file of C with all of its faults.
func cText(src string, list []cFault) string {
	var edits []edit
	for i, f := range list {
		before, after := fmt.Sprintf("if (mutant != %d) ", f.id), ""
		switch what, _, _ := strings.Cut(f.what, " "); {
		case what == "never":
			before, after = fmt.Sprintf("(mutant == %d ? 0 : mutant == %d ? 1 : !!(", f.id, list[i+1].id), "))"
		case what == "always":
			continue // with never
		}
		edits = append(edits, edit{at: f.from, order: 1_000_000 - (f.to - f.from), text: before},
			edit{at: f.to, order: -1_000_000 + (f.to - f.from), text: after})
	}
	return string(apply([]byte(src), edits))
}

// cFaults plants in the functions of a file of C that are named, or in all: each condition is replaced by 0 and
// by 1, and with statements each statement is taken out.
// The first has the number first.
func cFaults(name, src string, functions []string, statements bool, first int) (list []cFault) {
	blank := func(s string) string { return strings.Repeat(" ", len(s)) }
	code := cIgnored.ReplaceAllStringFunc(src, blank)
	p := &cPlanter{name: name, src: src, first: first, named: map[string]int{}}
	for _, m := range cFunction.FindAllStringSubmatchIndex(code, -1) {
		p.in = code[m[2]:m[3]]
		if len(functions) > 0 && !slices.Contains(functions, p.in) {
			continue
		}
		p.code, p.at = code[m[4]:m[5]], m[4]
		for _, b := range cBranch.FindAllStringIndex(p.code, -1) {
			p.condition(b[1], closing(p.code, b[1]), true)
		}
		for _, v := range cValue.FindAllStringSubmatchIndex(p.code, -1) {
			if v[2] >= 0 {
				p.condition(v[2], v[3], false)
			} else if !strings.Contains(p.code[v[4]:v[5]], "{") {
				p.condition(v[4], v[5], false)
			}
		}
		if !statements {
			continue
		}
		for _, s := range cDoes.FindAllStringSubmatchIndex(p.code, -1) {
			if before := strings.TrimSpace(p.code[:s[2]]); before == "" || strings.ContainsAny(before[len(before)-1:], ";{})") {
				p.add("take out", s[2], s[3])
			}
		}
	}
	return p.list
}

type cPlanter struct {
	name, src, in, code string
	at                  int // of code in src
	first               int // number
	named               map[string]int
	list                []cFault
}

// condition replaces the operands of an expression. An expression without any is replaced itself, if it is one that is
// true or false: always where it is branched by.
func (p *cPlanter) condition(from, to int, branched bool) {
	from, to = p.trim(from, to)
	if at := p.operator(from, to, "?"); len(at) > 0 {
		p.condition(from, at[0], true)
		if colon := p.operator(at[0]+1, to, ":"); len(colon) > 0 {
			p.condition(at[0]+1, colon[0], false)
			p.condition(colon[0]+1, to, false)
		}
		return
	}
	for _, op := range []string{"||", "&&"} {
		at := p.operator(from, to, op)
		if len(at) == 0 {
			continue
		}
		for _, end := range append(at, to) {
			p.condition(from, end, true)
			from = end + len(op)
		}
		return
	}
	text := p.code[from:to]
	if !branched && !strings.HasPrefix(text, "!") && !p.compares(from, to) || text == "0" || text == "1" {
		return
	}
	p.add("never", from, to)
	p.add("always", from, to)
	if strings.HasPrefix(text, "!(") && closing(p.code, from+2) == to-1 {
		p.condition(from+2, to-1, false)
	}
}

// compares reports whether an expression compares outside of its parentheses.
func (p *cPlanter) compares(from, to int) bool {
	depth, flat := 0, []byte(p.code[from:to])
	for i, c := range flat {
		if c == ')' || c == ']' {
			depth--
		}
		if depth > 0 {
			flat[i] = ' '
		}
		if c == '(' || c == '[' {
			depth++
		}
	}
	return cCompares.MatchString(cShifts.Replace(string(flat)))
}

// trim leaves out blanks, and parentheses around the whole.
func (p *cPlanter) trim(from, to int) (int, int) {
	for from < to && strings.ContainsRune(" \t\n", rune(p.code[from])) {
		from++
	}
	for from < to && strings.ContainsRune(" \t\n", rune(p.code[to-1])) {
		to--
	}
	if from < to && p.code[from] == '(' && closing(p.code, from+1) == to-1 {
		return p.trim(from+1, to-1)
	}
	return from, to
}

// operator returns where an operator stands outside of parentheses.
func (p *cPlanter) operator(from, to int, op string) (at []int) {
	depth := 0
	for i := from; i < to; i++ {
		switch c := p.code[i]; {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case depth == 0 && strings.HasPrefix(p.code[i:to], op):
			at = append(at, i)
			i += len(op) - 1
		}
	}
	return at
}

// closing returns where the parenthesis ends within which an offset is.
func closing(code string, at int) int {
	for depth := 1; at < len(code); at++ {
		switch code[at] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return at
			}
		}
	}
	return at
}

func (p *cPlanter) add(what string, from, to int) {
	from, to = p.at+from, p.at+to
	m := mutant{id: p.first + len(p.list), file: p.name, line: 1 + strings.Count(p.src[:from], "\n"), in: p.in,
		what: what + " " + strings.Join(strings.Fields(p.src[from:to]), " ")}
	p.list = append(p.list, cFault{m.apart(p.named), from, to})
}
