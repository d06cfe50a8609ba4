package house

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

// term is a word of our own, and what to say instead.
type term struct {
	word *regexp.Regexp
	say  string
}

// terms are words of our own that the field has a term for. A reader who knows
// IPv6, QUIC and eBPF should not have to translate.
var terms = []term{
	{word(`embryos?`), "pending peer"},
	{word(`strangers?`), "pending peer, or unlisted peer"},
	{word(`unproven`), "unvalidated"},
	{word(`detours?`), "segmentation device"},
	{word(`super-?packets?`), "GSO packet"},
	{word(`homonyms?|namesakes?`), "NID collision"},
	{word(`twins?`), "probe copy, or duplicate"},
	{word(`crowds?`), "rate window, or peer generator"},
	{word(`sentinels?`), "stall monitor"},
	{word(`octets?`), "byte; octet only where an RFC is quoted"},
	{word(`sent again`), "retransmitted"},
}

func word(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + alternatives + `)\b`)
}

// texts are the files that the rule of terms reads besides Go and C.
var texts = map[string]bool{
	".md": true, ".5": true, ".8": true, ".json": true, ".txt": true, ".conf": true, ".html": true,
	".yml": true, ".service": true, "": true, // without suffix: scripts
}

// Terms finds words of our own where the field has a term. The history of
// changes says what things were called, CONTRIBUTING.md names the words, and notes on RFCs
// quote them.
func Terms(t *Tree) []Finding {
	var all []Finding
	look := func(p string, src []byte) {
		for i, line := range strings.Split(string(src), "\n") {
			for _, term := range terms {
				if w := term.word.FindString(line); w != "" {
					all = append(all, Finding{p, i + 1, fmt.Sprintf("%q: the field says %s", w, term.say)})
				}
			}
		}
	}
	for _, f := range t.Go {
		if !f.Generated && f.Dir != "internal/house" {
			look(f.Path, f.Src)
		}
	}
	for _, f := range t.C {
		if !f.Vendored {
			look(f.Path, f.Src)
		}
	}
	for p, src := range t.Other {
		if texts[path.Ext(p)] && p != "CHANGELOG.md" && p != "CONTRIBUTING.md" && !strings.HasPrefix(p, "docs/rfc/") &&
			!strings.HasPrefix(p, "LICENSES/") {
			look(p, src)
		}
	}
	return sortFindings(all)
}

// Line lengths: how many characters a line of hand-written Go or C may have, and
// how many longer ones there still are. The second number may only fall.
const (
	lineLimit = 120
	longLines = 839
)

// LongLines lists the hand-written lines of Go and C that are longer than the limit; a
// tab counts for one character.
func (t *Tree) LongLines() []Finding {
	var all []Finding
	look := func(p string, src []byte) {
		for i, line := range bytes.Split(src, []byte("\n")) {
			if n := utf8.RuneCount(line); n > lineLimit {
				all = append(all, Finding{p, i + 1, fmt.Sprintf("%d characters, at most %d", n, lineLimit)})
			}
		}
	}
	for _, f := range t.Go {
		if !f.Generated {
			look(f.Path, f.Src)
		}
	}
	for _, f := range t.C {
		if !f.Vendored {
			look(f.Path, f.Src)
		}
	}
	return sortFindings(all)
}

// Lines holds the number of lines beyond the limit to what it was.
func Lines(t *Tree) []Finding { return ratchet(t.LongLines(), longLines) }

// ratchet passes as many findings as there were. Of more it returns the longest.
func ratchet(found []Finding, were int) []Finding {
	if len(found) <= were {
		return nil
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Text > found[j].Text })
	return append(
		[]Finding{{Path: "internal/house", Text: fmt.Sprintf("%d lines are too long, %d were", len(found), were)}},
		found[:min(len(found), 10)]...)
}
