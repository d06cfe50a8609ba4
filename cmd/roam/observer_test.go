package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"roam/internal/cli"
	"roam/internal/control"
)

func TestObserverShow(t *testing.T) {
	w := newWorld(t)
	counts := []control.ObservedCount{
		{Link: "wan0", Direction: "in", Protocol: "udp", Flags: []string{}, Checksum: "none",
			Packets: 7, Bytes: 700, PacketsPerS: 1.6},
		{Link: "wan0", Direction: "out", Protocol: "icmpv6", Flags: []string{"nonce", "locator-update"}, Checksum: "partial",
			Packets: 2, Bytes: 160},
	}
	report, err := json.Marshal(counts)
	if err != nil {
		t.Fatal(err)
	}
	w.daemon.RoleList = []control.RoleReport{
		{RoleStatus: control.RoleStatus{Name: "host", State: control.RoleRunning}},
		{RoleStatus: control.RoleStatus{Name: "observer", State: control.RoleRunning}, Report: report},
	}
	_, out, _ := w.try("observer", "show")
	want := []string{
		"LINK  DIR  PROTO   FLAGS                 CHECKSUM  PACKETS  BYTES  PKT/S",
		"wan0  in   udp                           none            7  700 B      2",
		"wan0  out  icmpv6  nonce locator-update  partial         2  160 B      0",
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		lines = append(lines, strings.TrimRight(l, " "))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("shown\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	var got []control.ObservedCount
	if _, out, _ = w.try("observer", "show", "--json"); json.Unmarshal([]byte(out), &got) != nil || len(got) != 2 ||
		!slices.Equal(got[1].Flags, counts[1].Flags) {
		t.Errorf("JSON %s", out)
	}
}

// A daemon without the role, and one whose role failed, say what to do.
func TestObserverNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		list []control.RoleReport
		want []string
	}{
		"not listed": {nil, []string{`does not have the role "observer"`, `add "observer" to role.run`}},
		"failed": {[]control.RoleReport{{RoleStatus: control.RoleStatus{
			Name: "observer", State: control.RoleFailed, Error: "no BTF", Do: "run a newer kernel",
		}}}, []string{`the role "observer" does not run: no BTF`, "run a newer kernel"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.daemon.RoleList = c.list
			status, _, errs := w.try("observer")
			for _, part := range c.want {
				if status == cli.StatusOK || !strings.Contains(errs, part) {
					t.Errorf("status %d, no %q in %q", status, part, errs)
				}
			}
		})
	}
}
