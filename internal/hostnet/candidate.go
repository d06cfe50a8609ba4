package hostnet

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"roam"
)

// unheard are the kinds of links on which no router advertises anything.
var unheard = map[string]bool{"dummy": true, "ifb": true, "nlmon": true, "vcan": true, "vrf": true}

// WereCandidates names the links that were candidates of an earlier process: they still are,
// or are told not to be. It is called before Start.
func (h *Host) WereCandidates(links ...roam.LinkID) {
	h.candidates = map[int]string{}
	for _, l := range links {
		h.candidates[int(l)] = ""
	}
}

// candidate reports whether a link may become an uplink. Physical links may from when they
// appear, and so may what the user has named. Of virtual ones there may be hundreds, which
// appear only to be given to a container or to a bridge: they may when they have come up.
func (h *Host) candidate(index int, l link) bool {
	switch {
	case !h.rules.accepts(l.name), l.flags&unix.IFF_LOOPBACK != 0, h.table.port(l), unheard[l.kind]:
		return false
	case l.kind == "" || h.rules.asksFor(l.name):
		return true
	}
	return !l.tunnel() && (l.up() || h.candidates[index] != "")
}

// tellCandidates tells which links may become uplinks, as far as that is news. Of an uplink
// it is none: it was one, and is told to be gone.
func (h *Host) tellCandidates() {
	if h.candidates == nil {
		h.WereCandidates()
	}
	for _, i := range slices.Sorted(maps.Keys(h.table.links)) {
		l := h.table.links[i]
		if _, uplink := h.picture.uplinks[i]; uplink {
			delete(h.candidates, i)
			continue
		}
		name, was := h.candidates[i]
		switch is := h.candidate(i, l); {
		case is && name == "": // news, or not known yet to who reads this
			h.candidates[i] = l.name
			h.pending = append(h.pending, Candidate{Link: roam.LinkID(i), Name: l.name, Still: true})
		case !is && was:
			delete(h.candidates, i)
			h.pending = append(h.pending, Candidate{Link: roam.LinkID(i), Name: name})
		}
	}
	for _, i := range slices.Sorted(maps.Keys(h.candidates)) {
		if _, there := h.table.links[i]; !there {
			h.pending = append(h.pending, Candidate{Link: roam.LinkID(i), Name: h.candidates[i]})
			delete(h.candidates, i)
		}
	}
}
