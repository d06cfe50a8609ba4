// Package exptest gives the tests of experiments the environment that lab/runner gives
// experiments, and makes each of their claims fail.
//
// It implements the reading of parameters, the environment of a run on this machine's kernel (Real),
// raw records as the lab's probes write them, and a frame (Claims) in which each experiment judges
// records with and without faults. It omits running. It is driven by tests only.
package exptest

import (
	"testing"

	"roam/lab/exp"
)

// Params returns the parameters of a preset in a params.json, changed by settings of
// the form KEY=VALUE.
func Params(t testing.TB, file []byte, preset string, set ...string) exp.Params {
	t.Helper()
	d, err := exp.ParseParams(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Resolve(preset, set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
