//go:build replay

package runner

import (
	"path/filepath"
	"sync"
	"testing"

	"roam/lab/exp"
)

// TestSeedReplays runs a handoff in guests at once: two of one seed write the same
// bytes, with all the times in them, and one of another seed does not. It takes
// the binaries of bin/ and what `make test-replay` installs.
func TestSeedReplays(t *testing.T) {
	dir, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	seeds := []uint64{1, 1, 2}
	sums := make([]string, len(seeds))
	var all sync.WaitGroup
	for i, seed := range seeds {
		all.Go(func() {
			r, err := prepare("handoff-instants", Options{
				Engine: exp.VM, Preset: "quick", Seed: seed, Bin: dir, Set: []string{"instants=1", "period_s=0.6", "overlap_s=0.4"},
			})
			if err != nil {
				t.Error(err)
				return
			}
			res, _, err := r.guest(t.Context(), 0, nil)
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			if res.Judge(r.expect); !res.Pass {
				t.Errorf("seed %d: %+v", seed, res.Claims)
			}
			sums[i] = res.Guest.SHA256
			t.Logf("seed %d: %s, %.0f s here", seed, res.Guest.SHA256[:16], res.Guest.WallSeconds)
		})
	}
	all.Wait()
	if sums[0] != sums[1] {
		t.Error("two runs of one seed differ")
	}
	if sums[0] == sums[2] {
		t.Error("a seed changes nothing")
	}
}
