package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// standIn puts a shell script in place of the daemon and returns its directory.
func standIn(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "roamd"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

func TestMachineDetaches(t *testing.T) {
	dir := standIn(t, `echo "args $*"; echo "session $(cut -d' ' -f6 /proc/$$/stat) of $$"; exit 3`)
	log := filepath.Join(dir, "run", "roamd.log")
	ended, err := realHost().Detach(log, "--config", "f")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the stand-in does not end")
	}
	if err == nil || err.Error() != "exit status 3" {
		t.Errorf("ended with %v", err)
	}
	lines := strings.Split(realHost().Tail(log), "\n")
	if len(lines) != 2 || lines[0] != "args --config f" {
		t.Fatalf("log %q", lines)
	}
	var session, pid string
	if f := strings.Fields(lines[1]); len(f) == 4 {
		session, pid = f[1], f[3]
	}
	if session == "" || session != pid {
		t.Errorf("it is not the leader of a session of its own: %q", lines[1])
	}
}

func TestMachineRunsTheDaemonToItsEnd(t *testing.T) {
	standIn(t, `[ "$1" = restore ] || { echo "no root"; exit 1; }`)
	if err := realHost().Roamd(t.Context(), "restore"); err != nil {
		t.Error(err)
	}
	if err := realHost().Roamd(t.Context(), "other"); err == nil || !strings.HasSuffix(err.Error(), "exit status 1: no root") {
		t.Errorf("a failure is told as %v", err)
	}
	t.Setenv("PATH", "")
	if err := realHost().Roamd(t.Context(), "restore"); err == nil || !strings.Contains(err.Error(), "find roamd") {
		t.Errorf("no daemon: %v", err)
	}
	if _, err := realHost().Detach("/nonexistent/log"); err == nil {
		t.Error("detached nothing")
	}
}

func TestMachineLooks(t *testing.T) {
	h := realHost()
	if !h.Alive(os.Getpid()) || h.Alive(1<<22+1) { // above the largest process id
		t.Error("Alive knows neither us nor nobody")
	}
	// A process that has ended, and whose parent does not ask for its status, does not run: in a
	// container without init `roam down` would wait for it in vain.
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !h.Until(ctx, func() bool { return !h.Alive(ended.Process.Pid) }) {
		t.Error("a zombie is alive")
	}
	if err := ended.Wait(); err != nil {
		t.Error(err)
	}
	if got := h.Output(t.Context(), "echo", "a", "b"); got != "a b\n" {
		t.Errorf("Output = %q", got)
	}
	if got := h.Output(t.Context(), "no-such-program"); got != "" {
		t.Errorf("Output of nothing = %q", got)
	}
	if got := h.Tail("/nonexistent"); got != "" {
		t.Errorf("Tail of nothing = %q", got)
	}
	n := 0
	if !h.Until(t.Context(), func() bool { n++; return n == 3 }) || n != 3 {
		t.Errorf("Until stopped after %d", n)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if h.Until(ctx, func() bool { return false }) {
		t.Error("Until says what did not come to be")
	}
}
