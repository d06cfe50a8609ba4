package hostnet

import (
	"net/netip"

	"roam"
)

// What KeepFormer was told.
const (
	formerTold = 1 << iota
	formerReachable
	formerSessions
)

// KeepFormer says what is still needed of Config.Former: reachable, that the host is reached under
// it, by prefix:NID on each uplink; sessions, that it has a session address. What is not goes, and
// does not come back. Until the first call both stay. It may be called from any goroutine, and does
// not wait.
func (h *Host) KeepFormer(reachable, sessions bool) {
	kept := uint32(formerTold)
	if reachable {
		kept |= formerReachable
	}
	if sessions {
		kept |= formerSessions | formerReachable
	}
	if h.kept.Swap(kept) == kept {
		return
	}
	select {
	case h.redirected <- struct{}{}:
	default:
	}
}

// formerSession returns the session address of the former identifier, while it is wanted.
func (h *Host) formerSession() []netip.Addr {
	if kept := h.kept.Load(); h.rules.former == 0 || kept != 0 && kept&formerSessions == 0 {
		return nil
	}
	return []netip.Addr{roam.ILV{NID: h.rules.former, L64: h.rules.session}.Addr()}
}

// fitFormer takes away what is not needed any more of the former identifier.
func (h *Host) fitFormer() {
	kept := h.kept.Load()
	if kept == 0 || h.rules.former == 0 {
		return
	}
	if kept&formerSessions == 0 && len(h.session.Addresses) > 1 {
		h.session.Addresses = h.session.Addresses[:1]
		if err := joined(h.state.set(ownerSession, h.session)); err != nil {
			h.pending = append(h.pending, Trouble{Reason: "the former session address: " + err.Error()})
		}
	}
	if kept&formerReachable == 0 {
		h.rules.former = 0
		h.removeStale(h.picture)
	}
}
