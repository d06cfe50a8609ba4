package stallmonitor

import (
	"math"
	"time"

	"roam/lab/result"
)

// task is a thread of the run at one moment.
type task struct {
	owner     result.Owner // of its process
	core      int          // where it ran last; unknownCore: not looked at
	run, wait time.Duration
}

const unknownCore = -1

// sample is what /proc says at one moment.
type sample struct {
	at    time.Time
	steal map[int]float64 // ms since boot that the hypervisor took, by core
	tasks map[int]task    // the threads of the run, by their number
}

// unknownQueue is the queueing time of a stall on a kernel that does not tell it.
const unknownQueue = -1.0

// blame completes a stall with whose time it was. queuedMs is how long the thread of the
// stall monitor waited in the run queue of its core; the samples are from before and after
// the stall.
//
// The time of the stall is divided among the threads that last ran on that core, the
// hypervisor, and other processes, which have the rest. The owner is the one with the most.
// If it is not clear, since the samples span more than the stall, the daemon under test owns
// it: what it owns excuses nothing.
func blame(s result.Stall, queuedMs float64, before, after sample) result.Stall {
	ran, waited := map[result.Owner]float64{}, map[result.Owner]float64{}
	for id, t := range after.tasks {
		was := before.tasks[id] // a thread without a sample is new
		if t.core == s.Core || was.core == s.Core && was.run > 0 {
			ran[t.owner] += (t.run - was.run).Seconds() * 1e3
		}
		waited[t.owner] += (t.wait - was.wait).Seconds() * 1e3
	}
	stolen := min(s.Ms, after.steal[s.Core]-before.steal[s.Core])
	if queuedMs != unknownQueue && queuedMs < s.Ms/2 {
		stolen = s.Ms // the monitor's thread was not ready: the timer itself was late
	}
	rest := s.Ms - stolen // a thread from which its core is stolen is charged for that time
	for owner, ms := range ran {
		ran[owner] = min(ms, s.Ms-stolen)
		rest -= ran[owner]
	}
	ran[result.OwnerHypervisor], ran[result.OwnerOthers] = stolen, rest // less than nothing is not shown
	s.Owner = most(ran)
	s.RanMs, s.WaitedMs = rounded(ran), rounded(waited)
	return s
}

// order is that in which owners of equal time are blamed.
var order = []result.Owner{result.OwnerRoam, result.OwnerHypervisor, result.OwnerEmulator, result.OwnerWorkload,
	result.OwnerOthers}

// most returns the owner of the most time.
func most(ran map[result.Owner]float64) result.Owner {
	best := order[0]
	for _, o := range order[1:] {
		if ran[o] > ran[best] {
			best = o
		}
	}
	return best
}

// rounded keeps what is at least a hundredth of a millisecond.
func rounded(ms map[result.Owner]float64) map[result.Owner]float64 {
	out := map[result.Owner]float64{}
	for o, v := range ms {
		if v = math.Round(v*100) / 100; v > 0 {
			out[o] = v
		}
	}
	return out
}

// account adds what the threads did between two samples to the totals of their owners.
func account(totals map[result.Owner]result.Processes, before, after sample) {
	for id, t := range after.tasks {
		was, known := before.tasks[id]
		if !known {
			continue // what it did before it was seen may be older than the run
		}
		p := totals[t.owner]
		p.RunMs += (t.run - was.run).Seconds() * 1e3
		p.WaitMs += (t.wait - was.wait).Seconds() * 1e3
		totals[t.owner] = p
	}
}
