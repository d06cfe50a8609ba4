package report

import (
	"math"
	"strconv"
	"strings"
)

// axis maps values onto pixels. The pixel range may run downwards.
type axis struct {
	lo, hi   float64 // values
	from, to float64 // pixels
	log      bool
}

// at returns the pixel of a value. On a logarithmic axis values below its start are drawn
// at the start, since zero has no place there.
func (a axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		v, lo, hi = math.Log10(math.Max(v, a.lo)), math.Log10(a.lo), math.Log10(a.hi)
	}
	if hi == lo {
		return a.from
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// ticks returns about n values to label: powers of ten on a logarithmic axis,
// multiples of 1, 2 or 5 times a power of ten on a linear one.
func (a axis) ticks(n int) []float64 {
	if a.log {
		return logTicks(a.lo, a.hi)
	}
	step := niceStep((a.hi - a.lo) / float64(max(n, 1)))
	if step <= 0 {
		return nil
	}
	var out []float64
	for i := math.Ceil(a.lo/step - 1e-9); i*step <= a.hi+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

// label formats one of about n ticks with enough digits to distinguish it from its
// neighbors.
func (a axis) label(v float64, n int) string {
	step := niceStep((a.hi - a.lo) / float64(max(n, 1)))
	switch {
	case a.log || step <= 0 || math.Abs(v) >= 1e4:
		return num(v)
	case math.Abs(v) < step/1e6:
		return "0" // a zero may have a sign
	}
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func logTicks(lo, hi float64) []float64 {
	var out []float64
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				out = append(out, v)
			}
		}
	}
	return out
}

// niceStep returns the least of 1, 2, 5 times a power of ten that is not less
// than raw; 0 for a range that is empty.
func niceStep(raw float64) float64 {
	if raw <= 0 || math.IsInf(raw, 0) || math.IsNaN(raw) {
		return 0
	}
	p := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if raw <= m*p*(1+1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// niceCeil returns a round end for an axis from 0 to at least v.
func niceCeil(v float64) float64 {
	if v <= 0 {
		return 1
	}
	step := niceStep(v / 5)
	return math.Ceil(v/step-1e-9) * step
}

// floorNear returns the start of an axis for values that are far from zero and close to
// each other; 0 otherwise.
func floorNear(least, most float64) float64 {
	if least < most/2 || most <= 0 {
		return 0
	}
	step := niceStep((most - least) / 5)
	if step <= 0 {
		return 0
	}
	return math.Floor(least/step+1e-9) * step
}

// num formats a tick or a figure with no more digits than it can use, and without an
// exponent: what is less than a billionth is the rounding of a sum that should be 0.
func num(v float64) string {
	switch a := math.Abs(v); {
	case a < 1e-9:
		return "0"
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	case a < 1e-4:
		return strings.TrimRight(strconv.FormatFloat(v, 'f', 10, 64), "0")
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
