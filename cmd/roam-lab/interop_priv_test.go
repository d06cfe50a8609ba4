package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/interop"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/runner"
	"roam/lab/topo"
)

// TestInterop runs the verb against a scripted stack: the table, the files and
// the status tell the same.
func TestInterop(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "/dev/net/tun", "radvd", "ping"} {
		testutil.Need(t, what)
	}
	dir := t.TempDir()
	if _, err := node.Build(dir); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := newWorld(t)
	w.Out = &out
	opt := runner.InteropOptions{
		Target: "rfc", Bin: dir, Row: w.Fill, Cases: []string{"tcp-roam", "udp-target", "ping-target", "soft-roam-out"},
		JSON: filepath.Join(dir, "r.json"), Report: filepath.Join(dir, "r.html"), Logs: filepath.Join(dir, "logs"),
	}
	if err := w.interop(t.Context(), opt); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"CASE", "tcp-roam", "connected after", "rfc: 4 passed, 0 failed, 0 not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
	r, err := result.ReadJSON(opt.JSON)
	if err != nil || !r.Pass || len(r.Claims) != 4 || r.Metrics["tcp-roam_connect_ms"] <= 0 {
		t.Errorf("result: %v, pass %v, %d claims, metrics %v", err, r.Pass, len(r.Claims), r.Metrics)
	}
	page, err := os.ReadFile(opt.Report)
	if err != nil || !bytes.Contains(page, []byte("4 of 4 claims hold")) {
		t.Errorf("report: %v", err)
	}
	if logs, err := filepath.Glob(filepath.Join(opt.Logs, "*.log")); len(logs) != 4 {
		t.Errorf("logs %v, %v", logs, err)
	}
}

// TestInteropForeign describes a host on a link of this machine, as a user
// does. Without an agent the cases that it would have to begin are not measured.
func TestInteropForeign(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv(runner.JudgeVariable, "") // as users have it: cases without agent do not count
	for _, what := range []string{"netns", "cgroup2", "/dev/net/tun", "radvd", "ping"} {
		testutil.Need(t, what)
	}
	dir := t.TempDir()
	if _, err := node.Build(dir); err != nil {
		t.Fatal(err)
	}
	lab, err := topo.New("foreign")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Close() })
	here, err := lab.Host("here") // stands for this machine
	if err != nil {
		t.Fatal(err)
	}
	peer, err := interop.Start(here, "tap0", 0x1000_0000_0000_00c1, []uint64{0x2001_0db8_000c_0001}, interop.RFC.Stack)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	err = here.Do(func() error { return here.Macvlan("probe0", "tap0") })
	testutil.NeedKernel(t, "macvlan", !errors.Is(err, unix.EOPNOTSUPP))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := newWorld(t)
	w.Out = &out
	err = here.Do(func() error {
		host, err := foreignFlags{link: "tap0", nid: "1000:0:0:c1", l64: []string{"2001:db8:c:1"}, port: 7}.parse()
		if err != nil {
			return err
		}
		return w.interop(t.Context(), runner.InteropOptions{
			Target: "mine", Foreign: host, Bin: dir, Row: w.Fill, Cases: []string{"tcp-roam", "udp-roam", "tcp-target",
				"soft-target-out"},
		})
	})
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"connected after", "there is no --agent", "mine: 2 passed, 0 failed, 2 not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
}
