package ilnphost

import (
	"fmt"
	"slices"

	"roam"
	"roam/ilnp"
)

// Check compares the nodes' entries with a reference model that ignores messages: after a
// quiet period, two nodes that have talked and each have a network must have entries that
// agree. It returns one line for each disagreement.
//
// The model: a node's active locators follow from its mode and links alone; its peers send to
// exactly those; the local nonce of one end is the remote nonce of the other; and no peer is
// considered dead.
func (n *Network) Check() []string {
	var faults []string
	for _, a := range n.nodes {
		if a.core == nil {
			continue
		}
		for _, e := range a.plane.sorted() {
			b := n.byNonce(e.LocalNonce, a)
			if e.State != ilnp.Established {
				faults = append(faults, fmt.Sprintf("%s: session %v is %v", a.name, e.Key, e.State))
				continue
			}
			if b == nil {
				faults = append(faults, fmt.Sprintf("%s: nobody holds the other end of %v", a.name, e.Key))
				continue
			}
			faults = append(faults, a.compare(b, e)...)
		}
	}
	return faults
}

// byNonce finds the node for which a nonce is the remote one.
func (n *Network) byNonce(nonce Nonce, not *Node) *Node {
	for _, h := range n.nodes {
		if h == not || h.core == nil {
			continue
		}
		for _, e := range h.plane.entries {
			if e.RemoteNonce == nonce && e.RemoteNID == not.nid {
				return h
			}
		}
	}
	return nil
}

// compare lists the faults of the entry e of h for its peer o.
func (h *Node) compare(o *Node, e *entry) []string {
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, h.name+" to "+o.name+": "+fmt.Sprintf(format, args...))
	}
	if len(h.reach()) == 0 || len(o.reach()) == 0 {
		return nil
	}
	if e.Dead {
		fault("held for dead")
	}
	if want := o.reach(); !sameLocators(remotesOf(e), want) {
		fault("sends to %v, which is at %v", remotesOf(e), want)
	}
	if want := h.reach(); !sameLocators(sourcesOf(e), want) {
		fault("sends from %v, is at %v", sourcesOf(e), want)
	}
	return faults
}

// reach returns the locators that are active in the model: those that the host has and may use;
// outside of duality, only the newest.
func (h *Node) reach() []roam.L64 {
	var ls []roam.L64
	for _, l := range h.core.Locals(h.net.Now()) {
		at := h.at(l.Link)
		if at == nil || !at.carrier || at.l64 != l.L64 || l.Disabled {
			continue
		}
		if h.core.Mode() == ilnp.Duality || l.LinkLocator == h.newest() {
			ls = append(ls, l.L64)
		}
	}
	return ls
}

func (h *Node) at(link roam.LinkID) *attachment {
	i := slices.IndexFunc(h.attachments, func(a *attachment) bool { return a.link == link })
	if i < 0 {
		return nil
	}
	return h.attachments[i]
}

// newest returns the attachment that was connected or enabled last.
func (h *Node) newest() roam.LinkLocator {
	var best *attachment
	for _, at := range h.attachments {
		if at.carrier && !h.off[at.link] && (best == nil || at.order > best.order) {
			best = at
		}
	}
	if best == nil {
		return roam.LinkLocator{}
	}
	return roam.LinkLocator{Link: best.link, L64: best.l64}
}

func remotesOf(e *entry) []roam.L64 {
	var ls []roam.L64
	for _, p := range e.Paths {
		ls = append(ls, p.Remote)
	}
	return ls
}

func sourcesOf(e *entry) []roam.L64 {
	var ls []roam.L64
	for _, p := range e.Paths {
		ls = append(ls, p.Local.L64)
	}
	return ls
}

// sameLocators compares two sets.
func sameLocators(a, b []roam.L64) bool {
	return len(a) > 0 && !slices.ContainsFunc(a, func(l roam.L64) bool { return !slices.Contains(b, l) }) &&
		!slices.ContainsFunc(b, func(l roam.L64) bool { return !slices.Contains(a, l) })
}
