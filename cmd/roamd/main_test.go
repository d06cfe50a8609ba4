package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"roam/internal/cli/clitest"
	"roam/internal/config"
)

// The log has the same keys in both forms.
func TestLogFormats(t *testing.T) {
	for form, want := range map[config.LogFormat]string{
		config.LogText: `level=INFO msg=moved from="wlan0 2001:db8::/64" duration_ms=46.7`,
		config.LogJSON: `"level":"INFO","msg":"moved","from":"wlan0 2001:db8::/64","duration_ms":46.7}`,
	} {
		var b strings.Builder
		slog.New(handler(&b, form)).Info("moved", "from", "wlan0 2001:db8::/64", "duration_ms", 46.7)
		if !strings.Contains(b.String(), want) {
			t.Errorf("form %d: %s", form, &b)
		}
		if json.Valid([]byte(b.String())) != (form == config.LogJSON) {
			t.Errorf("form %d: JSON or not: %s", form, &b)
		}
	}
}

// The help is an answer, on standard output; a wrong command line is a failure, on standard error.
func TestHelp(t *testing.T) {
	for args, want := range map[string]struct {
		status   int
		out, err string
	}{
		"--help":         {0, usage, ""},
		"restore --help": {0, usage, ""},
		"start":          {2, "", "roamd: unexpected argument \"start\"\nhint: see `roamd --help` or man 8 roamd\n"},
		"--what":         {2, "", "flag provided but not defined: -what\nhint: see `roamd --help` or man 8 roamd\n"},
	} {
		var out, errs strings.Builder
		status := run(strings.Fields(args), &out, &errs)
		if status != want.status || out.String() != want.out || errs.String() != want.err {
			t.Errorf("roamd %s: %d, %q, %q", args, status, &out, &errs)
		}
	}
	page := clitest.Page(t, "roamd.8")
	for _, flag := range []string{"config", "version"} {
		if !strings.Contains(usage, "--"+flag) || !strings.Contains(page, ".It Fl -"+flag) {
			t.Errorf("--%s is not in the help or not in roamd.8", flag)
		}
	}
}
