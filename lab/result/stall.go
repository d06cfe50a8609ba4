package result

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Owner is who had a core, or a datagram, at the moment that counts.
type Owner string

// The owners. What OwnerRoam owns is measured and judged; what the others own is not Roam's
// fault.
const (
	OwnerRoam       Owner = "roam"       // the daemon under test; of datagrams, everything that no counter owns
	OwnerEmulator   Owner = "emulator"   // the process of the lab itself, which carries the frames
	OwnerWorkload   Owner = "workload"   // the applications, routers and probes of the run
	OwnerHypervisor Owner = "hypervisor" // the core itself did not run
	OwnerOthers     Owner = "others"     // processes outside the run, and the kernel
)

// StallMonitor is the report of the stall monitor about a run.
type StallMonitor struct {
	Cores     int     `json:"cores"`
	WorstMs   float64 `json:"worst_ms"`                // of those that the daemon under test did not make
	Stalls    []Stall `json:"stalls,omitempty"`        // longer than LimitMs, while something was measured
	LimitMs   float64 `json:"limit_ms"`                // from which a stall disturbs a run
	RoamMs    float64 `json:"roam_worst_ms,omitempty"` // the longest stall that the daemon under test made
	StealMs   float64 `json:"steal_ms"`                // CPU time that the hypervisor took away
	BusyPct   float64 `json:"busy_pct"`                // of all cores
	OthersPct float64 `json:"others_pct,omitempty"`    // of all cores: what OwnerOthers had, less interrupts; 0: unknown
	Disturbed bool    `json:"disturbed"`               // a stall above the limit, not the daemon's, in the reported run
	Repeats   int     `json:"repeats,omitempty"`       // runs or cells thrown away because they were disturbed
	// Cells are disturbed cells that the result contains nevertheless.
	Cells []string `json:"disturbed_cells,omitempty"`
	// StealByCoreMs is StealMs of each core.
	StealByCoreMs map[int]float64 `json:"steal_by_core_ms,omitempty"`
	// Processes are the times of the run's own threads, by owner.
	Processes map[Owner]Processes `json:"processes,omitempty"`
}

// Processes are the times of the threads of one owner.
type Processes struct {
	RunMs  float64 `json:"run_ms"`  // on a core
	WaitMs float64 `json:"wait_ms"` // in a run queue, ready to run
}

// Stall is one late awakening of a stall monitor thread.
type Stall struct {
	At   time.Time `json:"at"`
	Core int       `json:"core"`
	Ms   float64   `json:"ms"`
	// Owner had most of the time; absent if nobody looked.
	Owner Owner `json:"owner,omitempty"`
	// RanMs is who ran on the core, WaitedMs how long the threads of the run waited for any.
	RanMs    map[Owner]float64 `json:"ran_ms,omitempty"`
	WaitedMs map[Owner]float64 `json:"waited_ms,omitempty"`
}

// Excuses reports whether a time measured during the stall is no figure of Roam: one that the
// daemon under test made is.
func (s Stall) Excuses() bool { return s.Owner != OwnerRoam }

// Keep removes the stalls for which keep returns false, and sets the worst ones to those of
// the others. Without any, the worst is known only to be below the limit.
func (s *StallMonitor) Keep(keep func(Stall) bool) {
	s.Stalls = slices.DeleteFunc(s.Stalls, func(stall Stall) bool { return !keep(stall) })
	s.WorstMs, s.RoamMs = min(s.WorstMs, s.LimitMs), 0
	for _, stall := range s.Stalls {
		if stall.Excuses() {
			s.WorstMs = max(s.WorstMs, stall.Ms)
		} else {
			s.RoamMs = max(s.RoamMs, stall.Ms)
		}
	}
}

// Excused reports whether there is a stall that excuses.
func (s *StallMonitor) Excused() bool { return slices.ContainsFunc(s.Stalls, Stall.Excuses) }

// sharedPct is the share of all cores with which other programs slow a run down. Its own on
// two cores take a third to a half of them in most experiments.
const sharedPct = 50

// Shared reports whether other programs had most of the machine. No stall need be seen then,
// as the stall monitor goes before other threads, but those of the run wait.
func (s *StallMonitor) Shared() bool { return s.OthersPct > sharedPct }

// scarcePct and waitTimes say together that processors are scarce: which share of them other programs had, and how
// many times as long as they ran Roam's daemons waited for one. With nothing beside a run that loads two cores they
// wait up to eight times as long, beside many programs 45 to 73 times. Waits alone say nothing: those of the daemons'
// own threads, and of the run's, are among them.
const (
	scarcePct = 20
	waitTimes = 25
)

// Scarce says why sound daemons may be late by seconds: other programs had the processors that they waited for; "" if
// they had enough.
func (s *StallMonitor) Scarce() string {
	roam := s.Processes[OwnerRoam]
	switch {
	case s.Shared():
		return fmt.Sprintf("other programs had %.0f %% of the processors", s.OthersPct)
	case s.OthersPct > scarcePct && roam.WaitMs > waitTimes*roam.RunMs:
		return fmt.Sprintf("other programs had %.0f %% of the processors, and Roam's daemons waited for one "+
			"%.0f times as long as they ran", s.OthersPct, roam.WaitMs/roam.RunMs)
	}
	return ""
}

// Excuse says why times measured in the run are no figures of Roam; "" if they are.
func (s *StallMonitor) Excuse() string {
	switch {
	case s.Disturbed:
		return fmt.Sprintf("the machine stood still for %.0f ms", s.WorstMs)
	case s.Shared():
		return fmt.Sprintf("other programs had %.0f %% of the processors", s.OthersPct)
	}
	return ""
}

// add adds the report about another run, which took some seconds. Shares are then the sums of
// shares by seconds.
func (s *StallMonitor) add(o StallMonitor, seconds float64) {
	s.WorstMs, s.RoamMs = max(s.WorstMs, o.WorstMs), max(s.RoamMs, o.RoamMs)
	s.Stalls = append(s.Stalls, o.Stalls...)
	s.Disturbed = s.Disturbed || o.Disturbed
	s.Repeats += o.Repeats
	s.Cells = append(s.Cells, o.Cells...)
	s.StealMs += o.StealMs
	s.BusyPct += o.BusyPct * seconds
	s.OthersPct += o.OthersPct * seconds
	for core, ms := range o.StealByCoreMs {
		if s.StealByCoreMs == nil {
			s.StealByCoreMs = map[int]float64{}
		}
		s.StealByCoreMs[core] += ms
	}
	for owner, p := range o.Processes {
		if s.Processes == nil {
			s.Processes = map[Owner]Processes{}
		}
		sum := s.Processes[owner]
		s.Processes[owner] = Processes{sum.RunMs + p.RunMs, sum.WaitMs + p.WaitMs}
	}
}

// owners are all owners, with their names for readers.
var owners = []struct {
	owner Owner
	name  string
}{
	{OwnerRoam, "Roam's daemon"}, {OwnerHypervisor, "the hypervisor"}, {OwnerEmulator, "the emulator"},
	{OwnerWorkload, "workloads"}, {OwnerOthers, "other processes"},
}

// Whose says how many stalls each owner made; "" if nobody looked.
func (s *StallMonitor) Whose() string {
	n := map[Owner]int{}
	for _, stall := range s.Stalls {
		n[stall.Owner]++
	}
	var parts []string
	for _, o := range owners {
		if n[o.owner] > 0 {
			parts = append(parts, fmt.Sprintf("%d by %s", n[o.owner], o.name))
		}
	}
	return strings.Join(parts, ", ")
}

// Queued says how long the threads of the run ran and waited for a core; "" if nobody looked.
func (s *StallMonitor) Queued() string {
	var parts []string
	for _, o := range owners {
		if p, ok := s.Processes[o.owner]; ok {
			parts = append(parts, fmt.Sprintf("%s ran for %.0f ms and waited for %.0f ms", o.name, p.RunMs, p.WaitMs))
		}
	}
	return strings.Join(parts, "; ")
}

// InWords says what stalls the run had and what follows; nothing if they do not matter.
func (s *StallMonitor) InWords() (lines []string) {
	whose := ""
	if w := s.Whose(); w != "" {
		whose = " (stalls: " + w + ")"
	}
	if s.Disturbed {
		lines = append(lines, fmt.Sprintf("the machine itself stood still for %.0f ms; times are not judged%s",
			s.WorstMs, whose))
	}
	if s.Shared() && !s.Disturbed {
		lines = append(lines, s.Excuse()+"; times are not judged")
	}
	if s.RoamMs > 0 {
		line := fmt.Sprintf("Roam's daemon kept a core from others for %.0f ms, which excuses no figure", s.RoamMs)
		if !s.Disturbed {
			line += whose
		}
		lines = append(lines, line)
	}
	return lines
}
