package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
	"roam/internal/testutil"
)

func TestReport(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	w.machine.files["/run/roam/sessions"] = "SECRET"
	w.machine.files["/run/roam/roam.conf"] = "# kept\n[host]\n"
	w.machine.files["/run/roam/roamd.log"] = strings.Repeat("x", maxLog) + "the end"
	w.machine.output["nft list ruleset"] = "table inet f"
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	status, out, errs := w.try("report", "--output", file)
	if status != cli.StatusOK || errs != "" || !strings.Contains(strings.Join(strings.Fields(out), " "), "read it before you send it") {
		t.Fatalf("status %d, %q, %q", status, out, errs)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the archive: %v, %v", info, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := testutil.Unpack(t, b)
	for name, want := range map[string]string{
		"versions.json": "6.6.10-amd64", "doctor.json": `"about": "kernel"`, "daemon/status.json": `"nid"`,
		"daemon/sessions.json": "server.example", "daemon/history.json": "handoff-done", "daemon/counters.json": "tx_packets",
		"daemon/locators.json": "wlan0", "config/in-force.conf": "# kept",
		"system/nft.txt": "table inet f", "log/roamd.log": "xthe end",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q: %.200q", name, want, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, "SECRET") {
			t.Errorf("%s has the saved sessions", name)
		}
	}
	if len(files["log/roamd.log"]) > maxLog {
		t.Errorf("the log has %d bytes", len(files["log/roamd.log"]))
	}
	if status, _, errs = w.try("report", "--output", file); status != cli.StatusFailure || !strings.Contains(errs, "exists") {
		t.Errorf("over an older one: status %d, %q", status, errs)
	}
}

func TestReportWithoutDaemon(t *testing.T) {
	w := newWorld(t)
	w.daemon.Err = errAbsent
	status, out, errs := w.try("report", "--output", "-")
	if status != cli.StatusOK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	files := testutil.Unpack(t, []byte(out))
	if !strings.Contains(files["daemon/status.json.error"], "no daemon answers") {
		t.Errorf("files: %v", files)
	}
	if status, _, _ := w.try("report", "--json", "--output", "-"); status != cli.StatusUsage {
		t.Errorf("two things on standard output: status %d", status)
	}
}
