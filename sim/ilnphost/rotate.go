package ilnphost

import (
	"roam"
	"roam/ilnp"
	"roam/nidkey"
)

// Rotate is Restart as a host with a new key and its Node Identifier, which the one so far vouches
// for: sessions of that one go on. The peers of this host are to be made known again.
func (h *Node) Rotate(next nidkey.Key, old ilnp.OldKey) error {
	state := h.core.Export()
	h.nid, h.cfg.NIDs, h.cfg.Former, h.cfg.Key = next.NID, []roam.NID{next.NID}, old.NID, &next
	h.net.byNID[h.nid] = append(h.net.byNID[h.nid], h)
	h.plane.state.Host.NIDs = [4]roam.NID{h.nid, old.NID}
	for _, at := range h.attachments {
		h.net.route(at, true)
	}
	if err := h.restart(state); err != nil {
		return err
	}
	h.core.SetOldKey(h.net.Now(), &old)
	h.Settle()
	return nil
}

// ForgetFormer gives the former Node Identifier up, as a host does of which no session lives.
func (h *Node) ForgetFormer() {
	for _, at := range h.attachments {
		h.net.route(at, false)
	}
	h.cfg.Former = 0
	h.plane.state.Host.NIDs = [4]roam.NID{h.nid}
	for _, at := range h.attachments {
		h.net.route(at, true)
	}
	h.core.ForgetFormer(h.net.Now())
	h.Settle()
}

// nids returns the Node Identifiers under which a node receives.
func (h *Node) nids() []roam.NID {
	if h.cfg.Former == 0 {
		return []roam.NID{h.nid}
	}
	return []roam.NID{h.nid, h.cfg.Former}
}
