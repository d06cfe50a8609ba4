package report

import (
	"fmt"
	"html"
	"strings"

	"roam/lab/result"
)

// The geometry of a terminal in SVG user units.
const (
	cellWidth  = 7.3 // of the font below, rounded up
	cellHeight = 18
	margin     = 16
	titleBar   = 30
	columns    = 128 // longer lines are cut
)

// Terminal returns a recording as a standalone SVG whose lines appear when they came. It begins
// with the first line, so that a picture of its first moment is not blank. Without animations it
// shows all of them.
func Terminal(r result.Recording) []byte {
	width := float64(len("$ " + r.Command))
	for _, l := range r.Lines {
		width = max(width, float64(len([]rune(cut(l.Text)))))
	}
	w, h := 2*margin+width*cellWidth, titleBar+margin+float64(1+len(r.Lines))*cellHeight+margin/2
	var b strings.Builder
	title := html.EscapeString(r.Title)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" role="img" `, w, h, w)
	fmt.Fprintf(&b, `aria-label="%s">`+"\n", title)
	b.WriteString(`<style>text{font:12px "DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#d5dbe1;white-space:pre}` +
		`.dim{fill:#9aa5b1}.good{fill:#5fd08f}.bad{fill:#ff8a80}` +
		`@media (prefers-reduced-motion:no-preference){.l{animation:show .01s linear both}}` +
		`@keyframes show{from{opacity:0}to{opacity:1}}</style>` + "\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="8" fill="#14171b"/>`, w, h)
	fmt.Fprintf(&b, `<text class="dim" x="%d" y="20">%s</text>`+"\n", margin, title)
	y := float64(titleBar + margin)
	fmt.Fprintf(&b, `<text x="%d" y="%.0f"><tspan class="dim">$ </tspan>%s</text>`+"\n", margin, y,
		html.EscapeString(r.Command))
	for i, l := range r.Lines {
		y += cellHeight
		appears := ""
		if i > 0 {
			appears = fmt.Sprintf(` class="l" style="animation-delay:%.2fs"`, l.T-r.Lines[0].T)
		}
		fmt.Fprintf(&b, `<text%s x="%d" y="%.0f">`, appears, margin, y)
		b.WriteString(coloured(cut(l.Text)) + "</text>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// cut shortens a line to the terminal.
func cut(s string) string {
	if r := []rune(s); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return s
}

// coloured dims the time of an event and colours its kind as the program does.
func coloured(line string) string {
	at, rest, ok := strings.Cut(line, "  ")
	kind, more, ok2 := strings.Cut(rest, "  ")
	if !ok || !ok2 {
		return html.EscapeString(line)
	}
	class := map[string]string{"handoff-done": "good", "session-established": "good", "peer-alive": "good",
		"update-failed": "bad", "peer-dead": "bad", "refused": "bad"}[strings.TrimSpace(kind)]
	return fmt.Sprintf(`<tspan class="dim">%s</tspan>  <tspan class="%s">%s</tspan>  %s`, html.EscapeString(at), class,
		html.EscapeString(kind), html.EscapeString(more))
}
