package live

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func sample(v *View) {
	v.title = "quickstart"
	v.Clock(time.Now().Add(-5*time.Second), 20*time.Second)
	v.Links([]Link{{Name: "net1", Up: true, Locator: "2001:db8:1:0", State: "active", TxMbps: 40, RxMbps: 20},
		{Name: "net2"}, {Name: "net3", Up: true}})
	v.Sessions([]Session{{Name: "ssh", Alive: true, Detail: "echo 3"}, {Name: "curl"},
		{Name: "iperf3", Alive: true, Stuck: 3 * time.Second}})
	v.Handoff("net1 -> net2: 1.2 ms")
}

func TestBoard(t *testing.T) {
	v := &View{tty: true}
	sample(v)
	text := strings.Join(v.board(200), "\n")
	for _, want := range []string{"quickstart", "5.0 / 20 s", "net1    active   2001:db8:1:0", "net2    down",
		"net3    up", "● alive  ssh", "✗ dead   curl", "○  3.0 s  iperf3", "last: net1 -> net2: 1.2 ms",
		strings.Repeat("█", barWidth)} {
		if !strings.Contains(text, want) {
			t.Errorf("board lacks %q:\n%s", want, text)
		}
	}
	v.colour = true
	for _, l := range v.board(40) {
		if n := len([]rune(stripEscapes(l))); n > 39 {
			t.Errorf("line of %d columns on a terminal of 40: %q", n, l)
		}
	}
}

func stripEscapes(s string) string {
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			return s
		}
		s = s[:i] + s[i+strings.IndexByte(s[i:], 'm')+1:]
	}
}

func TestRedrawGoesBackByTheLinesDrawn(t *testing.T) {
	var b bytes.Buffer
	v := &View{tty: true, w: &b}
	v.Start("quickstart")
	sample(v)
	v.Stop()
	if !strings.Contains(b.String(), "\x1b[") || !strings.Contains(b.String(), "net1") {
		t.Errorf("drawn %q", b.String())
	}
}

func TestPlainLinesWithoutTerminal(t *testing.T) {
	var b bytes.Buffer
	v := New(&b)
	v.Start("quickstart")
	sample(v)
	v.Phase("soft handoff %d", 1)
	v.Stop()
	if out := b.String(); strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 3 ||
		!strings.Contains(out, "soft handoff 1") {
		t.Errorf("written %q", out)
	}
}

func TestBar(t *testing.T) {
	for share, want := range map[float64]string{0: "    ", 1: "████", 2: "████", 0.5: "██  ", 0.28125: "█▏  "} {
		if got := bar(share, 4, ' '); got != want {
			t.Errorf("bar of %g: %q, want %q", share, got, want)
		}
	}
}
