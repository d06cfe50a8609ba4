package ilnphost

import (
	"testing"

	"github.com/cilium/ebpf"

	"roam/internal/testutil"
)

// mostVerified is how many instructions of a program the verifier may look at, on
// all ways through it together. The kernel's bound is a million; this one keeps the
// daemon's start short, of which the verifier is the largest part.
const mostVerified = 56_000

// The verifier's work stays within its bound.
func TestVerifiersWork(t *testing.T) {
	r := newRig(t)
	r.must(r.loadRaw())
	for _, p := range []*ebpf.Program{r.objs.IlnpSessionEgress, r.objs.IlnpUplinkIngress,
		r.raw.IlnpRawlinkIngress, r.raw.IlnpRawlinkEgress} {
		info, err := p.Info()
		r.must(err)
		n, ok := info.VerifiedInstructions()
		testutil.NeedKernel(t, "counts of verified instructions (Linux 5.16)", ok)
		t.Logf("%s: %d instructions", info.Name, n)
		if n > mostVerified {
			t.Errorf("%s: the verifier looks at %d instructions, at most %d", info.Name, n, mostVerified)
		}
	}
}
