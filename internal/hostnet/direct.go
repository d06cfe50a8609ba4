package hostnet

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
)

// DirectGateway is the gateway of the direct route: no node has that address, and its
// neighbour entry is permanent. So the kernel neither asks for it, nor waits, nor reports
// to a socket that it does not answer, whatever becomes of the uplink's router: the
// program at the uplink's egress writes the hardware addresses, as it does on the session
// device.
var DirectGateway = netip.MustParseAddr("fe80::726f:616d")

// Direct asks for session packets to leave by an uplink at once, without passing the session
// device before: by two routes, to the halves of the session prefix, so that they precede that
// of the device, which stays as it is. 0: by the device
// only. The uplink's programs are attached, and stay until LinkGone. They stand while
// the uplink can send, and go before LinkGone is told. It may be called from any
// goroutine, and does not wait.
func (h *Host) Direct(link roam.LinkID) {
	h.direct.Store(int64(link))
	select {
	case h.redirected <- struct{}{}:
	default:
	}
}

// directState is what stands on the host for the link that was asked for: nothing if it
// cannot send.
func (h *Host) directState() desired.State {
	link := int(h.direct.Load())
	u, ok := h.picture.uplinks[link]
	if !ok || !u.Up || !u.Routed || !u.HasMAC || !u.NextHopValid || h.device.Index == 0 {
		return desired.State{}
	}
	session := roam.ILV{NID: h.rules.nid, L64: h.rules.session}.Addr()
	s := desired.State{Neighbours: []desired.Neighbour{{Link: link, Addr: DirectGateway, MAC: u.NextHopMAC.String()}}}
	for _, half := range []roam.NID{0, 1 << 63} {
		s.Routes = append(s.Routes, desired.Route{
			Dst:  netip.PrefixFrom(roam.ILV{NID: half, L64: h.rules.session}.Addr(), 65),
			Link: link, Gateway: DirectGateway, Source: session,
			Table: unix.RT_TABLE_LOCAL, Metric: 1, MTU: h.device.MTU,
		})
	}
	return s
}

// fitDirect brings the direct route to what was asked for.
func (h *Host) fitDirect() {
	want := h.directState()
	if slices.Equal(want.Routes, h.directly.Routes) && slices.Equal(want.Neighbours, h.directly.Neighbours) {
		return
	}
	h.directly = want // also if it fails: the session device has a route too
	if err := joined(h.state.set(ownerDirect, want)); err != nil {
		h.pending = append(h.pending, Trouble{Reason: "the direct route of session addresses: " + err.Error()})
	}
}

// leaveDirect takes the direct route away if its link is no uplink any more: the programs
// that translate there are about to go.
func (h *Host) leaveDirect() {
	link := h.direct.Load()
	if _, still := h.picture.uplinks[int(link)]; !still && link != 0 {
		h.direct.CompareAndSwap(link, 0) // it may come back, without programs
		h.fitDirect()
	}
}

// endDirect takes it away for good: whoever comes after this process may not know it.
func (h *Host) endDirect() error {
	h.direct.Store(0)
	return joined(h.state.set(ownerDirect, desired.State{}))
}
