package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"roam/internal/control"
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
	if slices.Sort(apart); !slices.Equal(apart, []string{"lab", "version"}) {
		t.Errorf("in no group: %v", apart)
	}
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
		{"a peer", wanted{peer: "server"}, []bool{false, true, false, true}},
		{"a peer by NID", wanted{peer: acked.Peer.String()}, []bool{false, true, false, true}},
		{"a kind", wanted{kinds: []string{"handoff-done"}}, []bool{true, false, false, true}},
		{"both", wanted{peer: "printer", kinds: []string{control.KindUpdateAcked}}, []bool{false, false, true, true}},
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
