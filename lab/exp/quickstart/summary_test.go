package quickstart

import (
	"errors"
	"strings"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/workload"
)

// The sentences for people who do not know the experiment agree with its claims.
func TestSummary(t *testing.T) {
	lost := softStep(healthy(t).p, 1)
	two := lose(lost, lost+500*time.Microsecond)
	number := uint64(lost / (250 * time.Microsecond))
	for name, c := range map[string]struct {
		alter func(*records)
		want  string // between what all runs say
	}{
		"healthy": {func(*records) {}, "7 of 7 sessions lived"},
		"two died": {func(x *records) { x.died["ssh"], x.died["curl"] = errors.New("reset"), errors.New("reset") },
			"5 of 7 sessions lived through 5 handoffs, the use of all links at once and the return to one " +
				"(not: curl, ssh). Of "},
		"nothing lost": {func(*records) {}, " datagrams outside the hard handoff 0 were lost; a soft"},
		"two lost":     {func(x *records) { x.out = two }, " 2 were lost; "},
		"one refused":  {func(x *records) { x.out = refuse(lost) }, " 1 were lost; "},
		"two of theirs": {func(x *records) { x.out = two; x.spilled.Add(0, number); x.spilled.Add(0, number+1) },
			" 0 were lost, and 2 by full buffers of the lab itself; "},
		"one of theirs": {func(x *records) { x.out = two; x.spilled.Add(0, number) },
			" 1 were lost, and 1 by full buffers of the lab itself; "},
		"TCP": {func(*records) {}, "; a soft handoff held up TCP for 45 ms at most; "},
		"the first one held TCP up": {func(x *records) {
			x.up = exptest.Within(advert(lost), advert(lost)+200*time.Millisecond)
		}, "; a soft handoff held up TCP for 200 ms at most; "},
		"plain": {func(*records) {},
			". On plain IPv6 nothing arrived for the 3.2 s in which the first network was away."},
		"plain that goes on": {func(x *records) {
			x.control = func(tr *trace) {
				tr.traffic.echoes = append(tr.traffic.echoes,
					workload.Echo{Sent: exptest.At(4 * time.Second), RTT: time.Millisecond})
			}
		}, ". On plain IPv6 data arrived, too, in the 3.2 s in which the first network was away."},
	} {
		x := healthy(t)
		c.alter(x)
		with, without := x.passes()
		if got := with.summary(without); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
	with, without := healthy(t).passes()
	without.Steps = nil
	for _, control := range []*trace{nil, without} {
		if got := with.summary(control); strings.Contains(got, "plain") || !strings.HasSuffix(got, " lost 1110.") {
			t.Errorf("without a control: %s", got)
		}
	}
}
