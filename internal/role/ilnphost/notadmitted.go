package ilnphost

import (
	"cmp"
	"slices"
	"time"

	"roam"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
)

// mostRefused bounds the nodes that are remembered to have been refused.
const mostRefused = 64

// refusedNodes are nodes that wanted a session while only known ones are admitted: one may
// be a peer whose line was added at the other end only.
type refusedNodes struct {
	last time.Time // of the packet that was seen last
	list []control.NotAdmitted
}

// see takes a packet of one; the data plane keeps one a second. It reports whether that
// node was not there yet.
func (s *refusedNodes) see(r dataplane.Refusal) bool {
	if !r.At.After(s.last) {
		return false
	}
	s.last = r.At
	i := slices.IndexFunc(s.list, func(x control.NotAdmitted) bool { return x.NID == r.Remote.NID })
	if i >= 0 {
		s.list[i].Last, s.list[i].Address = r.At, r.Remote.Addr()
		s.list[i].Seconds++
		return false
	}
	if len(s.list) >= mostRefused {
		oldest := slices.MinFunc(s.list, func(a, b control.NotAdmitted) int { return a.Last.Compare(b.Last) })
		s.forget(oldest.NID)
	}
	s.list = append(s.list, control.NotAdmitted{NID: r.Remote.NID, Address: r.Remote.Addr(), Last: r.At, Seconds: 1})
	return true
}

func (s *refusedNodes) forget(nid roam.NID) {
	s.list = slices.DeleteFunc(s.list, func(x control.NotAdmitted) bool { return x.NID == nid })
}

// sorted returns them, those that were seen last first.
func (s *refusedNodes) sorted() []control.NotAdmitted {
	list := slices.Clone(s.list)
	slices.SortFunc(list, func(a, b control.NotAdmitted) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.NID, b.NID))
	})
	return list
}

// watchNotAdmitted looks who was refused of late, and logs who was not before. It runs in
// the engine's goroutine, once a second.
func (h *Host) watchNotAdmitted() {
	r, ok, err := h.plane.LastRefused(dataplane.NotAdmitted)
	if err != nil || !ok {
		return // counted all the same
	}
	if h.refused.see(r) {
		h.logSecurity(r.At, "an unknown node requests a session", "nid", r.Remote.NID, "source", r.Remote.Addr(),
			"do", "if it is a peer: roam export there, roam add LINE here")
	}
}
