package report

import (
	"encoding/xml"
	"strings"
	"testing"

	"roam/lab/result"
)

// A recording is drawn whole: the first line from the beginning, the others at their times after
// it, cut to the terminal, with nothing of it taken as markup.
func TestTerminal(t *testing.T) {
	long := strings.Repeat("x", 300)
	b := Terminal(result.Recording{Title: "a <move>", Command: "roam monitor", Lines: []result.Line{
		{T: 0.5, Text: "12:00:00.000  handoff-done         net1 > net2"},
		{T: 1.25, Text: "<b>&" + long},
	}})
	if err := xml.Unmarshal(b, new(struct{})); err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{"a &lt;move&gt;", `<text x="16" y="64">`, "animation-delay:0.75s",
		`<tspan class="good">handoff-done</tspan>`, "&lt;b&gt;&amp;x", "x…<", "prefers-reduced-motion"} {
		if !strings.Contains(text, want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
	if strings.Contains(text, long) {
		t.Error("a long line leaves the terminal")
	}
}
