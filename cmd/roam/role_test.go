package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/testutil"
)

// withObserver gives the daemon a second role; host and other are the states of both.
func withObserver(w *world, host, other string) {
	roles := []control.RoleStatus{
		{Name: "host", State: host},
		{Name: "gauge", State: other, Facts: []control.RoleFact{
			{Name: "links", Value: "wan0"}, {Name: "since", Value: "9:00"},
		}},
	}
	for i, r := range roles {
		if r.State == control.RoleFailed {
			roles[i].Error, roles[i].Do, roles[i].Facts = "no tcx in this kernel", "run a newer kernel", nil
			w.daemon.StatusValue.State = "degraded"
			warning := control.FailedRole(r.Name) + ": no tcx in this kernel; run a newer kernel"
			w.daemon.StatusValue.Warnings = append(w.daemon.StatusValue.Warnings, warning)
		}
	}
	w.daemon.StatusValue.Roles = roles
	w.daemon.RoleList = []control.RoleReport{
		{RoleStatus: roles[0]},
		{
			RoleStatus: roles[1], Report: json.RawMessage(`{"wan0":5}`),
			Explain:  []string{"It sent 3 packets.", "Two had a nonce."},
			Findings: []control.RoleFinding{{Level: "warning", Text: "wan1 is not counted", Do: "name it in gauge.links"}},
		},
	}
}

func TestStatusOfRoles(t *testing.T) {
	for _, tc := range []struct {
		name, host, other string
		want, not         []string
	}{
		{"both", "running", "running",
			[]string{"LOCATOR", "ROLE", "host   running", "gauge  running  links wan0; since 9:00"}, []string{"no tcx"}},
		{"gauge failed", "running", "failed", []string{"LOCATOR", "gauge  failed   no tcx in this kernel"}, nil},
		{"host failed", "failed", "running",
			[]string{"degraded", "host   failed   no tcx in this kernel", "gauge  running"}, []string{"LOCATOR", "no locator", "address"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			withObserver(w, tc.host, tc.other)
			status, out, errs := w.try()
			if status != cli.StatusOK {
				t.Errorf("status %d, %q", status, errs)
			}
			for _, part := range tc.want {
				if !strings.Contains(out, part) {
					t.Errorf("no %q in\n%s", part, out)
				}
			}
			for _, part := range tc.not {
				if strings.Contains(out, part) {
					t.Errorf("%q in\n%s", part, out)
				}
			}
			failed := tc.host == "failed" || tc.other == "failed"
			if failed != strings.Contains(errs, "does not run: no tcx") {
				t.Errorf("errors %q", errs)
			}
			var g glance
			_, out, _ = w.try("--json")
			if json.Unmarshal([]byte(out), &g) != nil || len(g.Status.Roles) != 2 ||
				g.Sessions == nil || (len(g.Locators) == 0) != (tc.host == "failed") {
				t.Errorf("JSON %s", out)
			}
		})
	}
}

func TestDoctorOfRoles(t *testing.T) {
	for _, tc := range []struct {
		name, host, other string
		status            int
		want, not         []string
	}{
		{"both", "running", "running", cli.StatusOK,
			[]string{"role gauge  wan1 is not counted", "> name it in gauge.links", "kernel"}, nil},
		{"gauge failed", "running", "failed", cli.StatusFailure,
			[]string{"role gauge  the role does not run: no tcx in this kernel", "> run a newer kernel"},
			[]string{"without a part"}},
		{"host failed", "failed", "running", cli.StatusFailure,
			[]string{"role host  the role does not run: no tcx in this kernel", "Linux 6.6.10"},
			[]string{"uplinks", "names  ", "without a part"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			healthy(w)
			withObserver(w, tc.host, tc.other)
			status, out, errs := w.try("doctor")
			if status != tc.status || errs != "" {
				t.Errorf("status %d, %q", status, errs)
			}
			for _, part := range tc.want {
				if !strings.Contains(out, part) {
					t.Errorf("no %q in\n%s", part, out)
				}
			}
			for _, part := range tc.not {
				if strings.Contains(out, part) {
					t.Errorf("%q in\n%s", part, out)
				}
			}
		})
	}
}

func TestExplainAndReportOfRoles(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	if _, out, _ := w.try("explain", "server.example", "--json"); strings.Contains(out, "role ") {
		t.Errorf("a host alone explains as\n%s", out)
	}
	withObserver(w, "running", "running")
	_, out, _ := w.try("explain", "server.example", "--json")
	var e explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	last := e.Paragraphs[len(e.Paragraphs)-1]
	if last.About != "role gauge" || last.Text != "It sent 3 packets. Two had a nonce." {
		t.Errorf("the last paragraph is %+v", last)
	}
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	if status, _, errs := w.try("report", "--output", file); status != cli.StatusOK {
		t.Fatalf("status %d, %q", status, errs)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := testutil.Unpack(t, b)["daemon/roles.json"]; !strings.Contains(text, `"wan0": 5`) {
		t.Errorf("the report's roles: %s", text)
	}
}
