package ilnphost

import (
	"os/exec"
	"strings"
	"testing"

	"roam/internal/testutil"
)

// Packets of sessions may leave by uplinks at once where nobody filters what leaves.
func TestTranslatesAtUplinks(t *testing.T) {
	testutil.Need(t, "nft")
	r := newRig(t)
	testutil.NeedKernel(t, "tcx", r.set.TCX())
	want := func(what string, want bool) {
		t.Helper()
		if got, err := TranslatesAtUplinks(r.Plane); err != nil || got != want {
			t.Errorf("%s: %t, %v", what, got, err)
		}
	}
	nft := func(line string) {
		t.Helper()
		if out, err := exec.Command("nft", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("nft %s: %v\n%s", line, err, out)
		}
	}
	want("at first", true)
	nft("add table inet t")
	nft("add table ip t")
	for _, hook := range []string{"output", "postrouting"} {
		nft("add chain inet t " + hook + " { type filter hook " + hook + " priority 0; }")
		want("a chain of "+hook, false)
		nft("delete chain inet t " + hook)
	}
	nft("add chain inet t in { type filter hook input priority 0; }")
	nft("add chain ip t out { type filter hook output priority 0; }")
	want("chains of input and of IPv4", true)
}
