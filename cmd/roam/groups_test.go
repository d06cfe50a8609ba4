package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"roam"
	"roam/internal/cli/clitest"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// `roam --help` says what Roam is before all else, and every verb is in a group or is one of
// those that need none.
func TestHelpIsGrouped(t *testing.T) {
	w := newWorld(t)
	status, out, _ := w.try("--help")
	if status != 0 || !strings.HasPrefix(out, "Roam keeps TCP and UDP sessions alive") {
		t.Errorf("help: %d, %.80s", status, out)
	}
	for _, g := range groups {
		if !strings.Contains(out, "\n"+g.title+"\n") {
			t.Errorf("no group %q in\n%s", g.title, out)
		}
	}
	var apart []string
	for _, c := range w.root().Commands() {
		if c.GroupID == "" {
			apart = append(apart, c.Name())
		}
	}
	if len(apart) > 0 {
		t.Errorf("in no group: %v", apart)
	}
	if up, down := strings.Index(out, "\n  up "), strings.Index(out, "\n  down "); up < 0 || down < up {
		t.Error("the verbs of a group are not in its order")
	}
}

// Each verb says in one sentence what it does: the help begins with a capital and has no full stop, and
// the manual has the groups of `roam --help` in the same order.
func TestHelpHasOneForm(t *testing.T) {
	root := newWorld(t).root()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		first, _, _ := strings.Cut(c.Short, " ")
		if !slices.Contains(helpVerbs, first) || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: %q does not begin with a verb, or ends in a full stop", c.CommandPath(), c.Short)
		}
		for _, sub := range c.Commands() {
			if c.Name() != "completion" { // the library's own texts
				walk(sub)
			}
		}
	}
	walk(root)
	page := clitest.Page(t, "roam.8")
	for _, g := range groups {
		_, after, ok := strings.Cut(page, "\n.Ss "+strings.TrimSuffix(g.title, ":")+"\n")
		if !ok {
			t.Errorf("roam.8 has no group %q in its place", g.title)
			continue
		}
		page = after
		own, _, _ := strings.Cut(page, "\n.S")
		for _, verb := range g.verbs {
			if !strings.Contains(own, "\n.It Cm "+verb) {
				t.Errorf("roam.8 lacks %q in %q", verb, g.title)
			}
		}
	}
}

// helpVerbs are the words that begin a line of help.
var helpVerbs = []string{
	"Add", "Check", "Check,", "Collect", "Explain", "Let", "Make", "Print", "Remove", "Rename", "Run", "Show",
	"Show,", "Start", "Stop", "Use",
}

func TestStatusIsAVerb(t *testing.T) {
	w := newWorld(t)
	_, without, _ := w.try()
	if status, out, errs := w.try("status"); status != 0 || out != without || out == "" {
		t.Errorf("%d, %q, %q", status, out, errs)
	}
}

func TestMonitorSelects(t *testing.T) {
	moved := control.Event{Kind: "handoff-done"}
	acked := control.Event{Kind: control.KindUpdateAcked, PeerName: "server", Peer: 7}
	other := control.Event{Kind: control.KindUpdateAcked, PeerName: "printer", Peer: 8}
	lost := control.Event{Kind: control.KindLost}
	for _, tt := range []struct {
		name string
		want wanted
		has  []bool // of the four
	}{
		{"all", wanted{}, []bool{true, true, true, true}},
		{"a peer", wanted{peer: "server", names: []string{"server"}}, []bool{false, true, false, true}},
		{"a peer by NID", wanted{peer: "0:0:0:7", nids: []roam.NID{7}}, []bool{false, true, false, true}},
		{"a kind", wanted{kinds: []string{"handoff-done"}}, []bool{true, false, false, true}},
		{"both", wanted{"p", nil, []string{"printer"}, []string{control.KindUpdateAcked}}, []bool{false, false, true, true}},
	} {
		for i, e := range []control.Event{moved, acked, other, lost} {
			if got := tt.want.has(e); got != tt.has[i] {
				t.Errorf("%s: event %d: %v", tt.name, i, got)
			}
		}
	}
	w := newWorld(t)
	if status, _, errs := w.try("monitor", "--kind", "handof-done"); status != 2 || !strings.Contains(errs, "handoff-done") {
		t.Errorf("an unknown kind: %d, %q", status, errs)
	}
}

// A daemon that has ended is gone, whether or not its parent has asked for its status.
func TestEndedProcessIsNotAlive(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	if !(machine{}).Alive(cmd.Process.Pid) {
		t.Error("a process that runs is said to have ended")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !realHost().Until(t.Context(), func() bool { return !(machine{}).Alive(cmd.Process.Pid) }) {
		t.Error("a process without a reaping parent is said to live")
	}
}
