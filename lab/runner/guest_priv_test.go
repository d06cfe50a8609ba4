package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"roam/internal/testutil"
)

// TestKilledRunEndsItsGuest kills a run of the engine vm, which cannot end what it
// started any more.
func TestKilledRunEndsItsGuest(t *testing.T) {
	needLab(t, "radvd", "nft")
	r := stub(t, `echo $$ >"$(dirname "$0")/pid"
while :; do sleep 0.1; done
`)
	for _, name := range []string{"roam", "roamd", "roam-lab"} {
		if err := os.Link(filepath.Join(bin, name), filepath.Join(r.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(r.bin, "roam-lab"), "run", "handoff-instants", "--engine", "vm")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended
	guests := filepath.Dir(r.bin) + "/build/kernels/"
	testutil.Eventually(t, 20*time.Second, func() bool { _, err := os.Stat(guests + "pid"); return err == nil },
		"no guest begins")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its error is that it was killed
	testutil.Eventually(t, 10*time.Second, func() bool { return len(processesOf(guests)) == 0 },
		"the guest of a killed run lives on")
}
