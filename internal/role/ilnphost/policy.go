package ilnphost

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"roam"
	"roam/internal/control"
)

// obstructedPeers is how many correspondents are named of those that a policy
// keeps a locator from.
const obstructedPeers = 8

// obstructed gathers what policies of this host obstruct, by locator and policy; call
// it in the engine's goroutine.
func (h *Host) obstructed() []control.Obstructed {
	type obstacle struct {
		at roam.LinkLocator
		by string
	}
	out, names := []control.Obstructed{}, h.linkNames()
	whole := h.engine.ObstructedLocators()
	for at, by := range whole {
		out = append(out, control.Obstructed{Link: names.Link(at.Link), L64: at.L64, By: by, All: true})
	}
	found := make(map[obstacle]map[roam.NID]bool)
	for nid, paths := range h.engine.Obstructed() {
		for path, by := range paths {
			if _, all := whole[path.Local]; all {
				continue
			}
			o := obstacle{path.Local, by}
			if found[o] == nil {
				found[o] = make(map[roam.NID]bool)
			}
			found[o][nid] = true
		}
	}
	for o, peers := range found {
		nids := slices.Sorted(maps.Keys(peers))
		x := control.Obstructed{Link: names.Link(o.at.Link), L64: o.at.L64, By: o.by, Count: len(nids)}
		for _, nid := range nids[:min(len(nids), obstructedPeers)] {
			x.Peers = append(x.Peers, cmp.Or(h.nameOf(nid), nid.String()))
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b control.Obstructed) int {
		return cmp.Or(strings.Compare(a.Link, b.Link), cmp.Compare(a.L64, b.L64), strings.Compare(a.By, b.By))
	})
	return out
}

// obstructionsOf returns the paths to a correspondent that are obstructed; call it in
// the engine's goroutine.
func (h *Host) obstructionsOf(nid roam.NID) (out []control.Obstruction) {
	for path, by := range h.engine.Obstructed()[nid] {
		out = append(out, control.Obstruction{Path: pathFrom(path, h.linkNames()), By: by})
	}
	slices.SortFunc(out, func(a, b control.Obstruction) int {
		return cmp.Or(strings.Compare(a.Link, b.Link), cmp.Compare(a.Local, b.Local), cmp.Compare(a.Remote, b.Remote))
	})
	return out
}
