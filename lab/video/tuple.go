package video

import (
	"fmt"
	"math"
)

// Tuple summarizes the PSNR of a series of runs as the thesis does (its Tab. 7.2): share of
// perfect frames, least PSNR, span of the PSNR, and the number of runs with an imperfect
// frame.
type Tuple struct {
	Perfect float64 `json:"perfect"`  // mean share of frames with infinite PSNR, over all runs
	MinDB   float64 `json:"min_db"`   // mean over runs with a finite PSNR of the least of it
	DeltaDB float64 `json:"delta_db"` // mean of the greatest finite less mean of the least
	Finite  int     `json:"finite"`   // runs with at least one imperfect frame
	Runs    int     `json:"runs"`
}

// Summarize returns the tuple of a series. The thesis does not say whether its first
// element is a mean over all runs; here it is.
func Summarize(runs []Quality) Tuple {
	t := Tuple{Runs: len(runs)}
	least, most, shown := 0.0, 0.0, 0
	for _, q := range runs {
		t.Perfect += q.Perfect() / float64(len(runs))
		if q.Perfect() < 1 {
			t.Finite++
		}
		if len(q.Imperfect) == 0 {
			continue
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, v := range q.Imperfect {
			lo, hi = min(lo, v), max(hi, v)
		}
		least, most, shown = least+lo, most+hi, shown+1
	}
	if shown > 0 {
		t.MinDB, t.DeltaDB = least/float64(shown), (most-least)/float64(shown)
	}
	return t
}

// String writes the tuple as the thesis does: <0.999, 26.5, 4.01, 2/30>.
func (t Tuple) String() string {
	if t.Finite == 0 {
		return fmt.Sprintf("<%.2f, N/A, N/A, 0/%d>", t.Perfect, t.Runs)
	}
	return fmt.Sprintf("<%.3f, %.1f, %.1f, %d/%d>", t.Perfect, t.MinDB, t.DeltaDB, t.Finite, t.Runs)
}
