package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/result"
)

// planted are the faults of a build with the tag "planted" (lab/scene), with the claims of
// quickstart of which one must fail.
var planted = map[string][]string{
	"drop": {"soft-loss"},
	"kill": {"sessions"},
	"late": {"on-time"},
	"dead": {"sessions", "soft-loss"},
}

// TestPlantedFaults shows that a whole run says no, with hosts that are paired by key. One fault takes a minute, so
// the first is planted unless ROAM_LAB_PLANTED names others, or "all".
func TestPlantedFaults(t *testing.T) {
	needLab(t, "radvd", "nft", "iperf3", "curl", "ssh")
	names := strings.Fields(os.Getenv("ROAM_LAB_PLANTED"))
	switch {
	case len(names) == 0:
		names = []string{"drop"}
	case names[0] == "all":
		names = []string{"drop", "kill", "late", "dead"}
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Build(dir); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-tags", "planted", "-o", dir+"/", "roam/cmd/roam-lab")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			file, pcap := filepath.Join(dir, name+".json"), filepath.Join(dir, name)
			cmd := exec.Command(filepath.Join(dir, "roam-lab"), "run", "quickstart", "--preset", "quick", "--set",
				"control=false", "--set", "keys=true", "--json", file, "--pcap", pcap)
			cmd.Env = append(os.Environ(), "ROAM_LAB_PLANTED="+name, JudgeVariable+"="+result.Correctness)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v, want status 1:\n%s", err, out)
			}
			res, err := result.ReadJSON(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := captured(pcap); err != nil {
				t.Error(err)
			}
			failed, passed := map[string]bool{}, map[string]bool{}
			for _, c := range res.Claims {
				failed[c.ID], passed[c.ID] = c.Measured && !c.Pass, c.Measured && c.Pass
			}
			if !passed["level"] || res.Metrics["updates_with_mac"] == 0 {
				t.Errorf("the sessions are not keyed:\n%s", out)
			}
			for _, id := range planted[name] {
				if !failed[id] {
					t.Errorf("claim %s did not fail:\n%s", id, out)
				}
			}
		})
	}
}

// captured reports captures of quickstart that are not there, or have no packet in them.
func captured(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "roam", "*.pcap"))
	if err != nil || len(files) < 4 {
		return fmt.Errorf("captures of hosts and links: %v, %v", files, err)
	}
	for _, f := range files {
		if list, err := packets.Read(f, ""); err != nil || len(list) == 0 {
			return fmt.Errorf("%s: %d packets, %v", f, len(list), err)
		}
	}
	return nil
}
