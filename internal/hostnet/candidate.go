package hostnet

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"roam"
)

// unheard are the kinds of links on which no router advertises anything.
var unheard = map[string]bool{"dummy": true, "ifb": true, "nlmon": true, "vcan": true, "vrf": true}

// candidate reports whether a link may become an uplink. Physical links may from when they
// appear, and so may what the user has named. Of virtual ones there may be hundreds, which
// appear only to be given to a container or to a bridge: they may when they are up, and of
// the host's ends of containers' links (veth) those only where this host is no router.
func (h *Host) candidate(index int, l link) bool {
	if !l.up() {
		delete(h.heard, index) // it is asked again when it comes up
	}
	switch {
	case !h.rules.accepts(l.name), l.flags&unix.IFF_LOOPBACK != 0, h.table.port(l), unheard[l.kind]:
		return false
	case l.kind == "" || h.rules.asksFor(l.name):
		return true
	case l.tunnel() || !l.up():
		return h.candidates[index] != "" && !l.tunnel() // it was up before
	case l.kind != "veth":
		return true
	}
	hears, asked := h.heard[index]
	if !asked {
		hears = h.kernel.hearsRouters(l.name)
		h.heard[index] = hears
	}
	return hears
}

// tellCandidates tells which links may become uplinks, as far as that is news. Of an uplink
// it is none: it was one, and is told to be gone.
func (h *Host) tellCandidates() {
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
	there := func(i int) bool { _, is := h.table.links[i]; return is }
	for _, i := range slices.Sorted(maps.Keys(h.candidates)) {
		if !there(i) {
			h.pending = append(h.pending, Candidate{Link: roam.LinkID(i), Name: h.candidates[i]})
			delete(h.candidates, i)
		}
	}
	maps.DeleteFunc(h.heard, func(i int, _ bool) bool { return !there(i) })
}
