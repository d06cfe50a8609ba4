package packaging

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"roam/internal/testutil"
)

// TestUnitIsConfined holds the unit to the exposure that systemd computes: what the daemon does
// not need is taken from it. The rest is the network, and the host's mount namespace.
func TestUnitIsConfined(t *testing.T) {
	testutil.Need(t, "systemd-analyze")
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb(t), dir)
	out, err := exec.Command("systemd-analyze", "security", "--offline=true",
		filepath.Join(dir, "usr/lib/systemd/system/roamd.service")).CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for roamd.service: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	if level, err := strconv.ParseFloat(string(m[1]), 64); err != nil || level > 5.1 {
		t.Errorf("exposure %s, want 5.1 at most", m[1])
	}
}
