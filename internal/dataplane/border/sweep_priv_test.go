package border

import (
	"testing"

	"roam"
	"roam/sbr"
)

// A sweep returns each flow once, also those that have no place in a set, of which there are more than one step reads.
func TestSweepBeyondSets(t *testing.T) {
	r := newPlainRig(t, siteA)
	inSets, err := r.Flows(r.table)
	if err != nil {
		t.Fatal(err)
	}
	const beyond = 2*batch + 1
	for i := range roam.NID(beyond) {
		w := bpfWholeFlow{Flow: bpfFlow{Key: keyOf(sbr.FlowKey{Inside: insideNID, Outside: 1<<40 + i})}}
		if err := r.objs.Flows.Put(w.Flow.Key, w); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.Flows(r.table)
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[sbr.FlowKey]int)
	for _, f := range all {
		times[f.FlowKey]++
	}
	if len(all) != len(inSets)+beyond || len(times) != len(all) {
		t.Errorf("%d flows, %d different ones, want %d", len(all), len(times), len(inSets)+beyond)
	}
}
