package border

import (
	"roam"
	"roam/internal/control"
	"roam/internal/hostnet"
)

// xdpState is what a link of border.xdp does: the kind of link whose program it has, and the state
// as control.BorderLink has it.
type xdpState struct {
	kind
	state string
}

// accelerate has the drivers of the links that border.xdp lists forward plain packets of known
// flows, and tells the programs which links take such frames. A driver may stop to take them, so it
// asks again each time.
func (r *Role) accelerate() {
	sends := make(map[roam.LinkID]bool)
	for _, u := range r.links {
		k, attached := r.attached[u.Link]
		if !attached || k == elsewhere || !r.Config.Border.UsesXDP(u.Name) {
			continue
		}
		if was := r.xdp[u.Link]; was.kind != k || was.state == control.XDPNone {
			if err := r.plane.AttachXDP(u.Link, k == inside); err != nil {
				r.noteXDP(u, control.XDPNone, err)
				continue
			}
		}
		switch does, err := hostnet.XDPOf(u.Link); {
		case err != nil:
			r.noteXDP(u, control.XDPUnknown, err)
		case !does.Sends:
			r.noteXDP(u, control.XDPReceives, nil)
		default:
			sends[u.Link] = true
			r.noteXDP(u, control.XDPWhole, nil)
		}
	}
	for link := range r.xdp {
		if !r.wantsXDP(link) {
			r.Warn("take the program off XDP", r.plane.DetachXDP(link))
			delete(r.xdp, link)
		}
	}
	r.Warn("say which links send for XDP", r.plane.SendXDP(sends))
}

// wantsXDP reports whether border.xdp lists a link that is there.
func (r *Role) wantsXDP(link roam.LinkID) bool {
	for _, u := range r.links {
		if u.Link == link {
			return r.attached[link] != elsewhere && r.Config.Border.UsesXDP(u.Name)
		}
	}
	return false
}

// noteXDP notes what a link does with XDP, and logs it once.
func (r *Role) noteXDP(u hostnet.Uplink, state string, err error) {
	now := xdpState{r.attached[u.Link], state}
	if r.xdp[u.Link] == now {
		return
	}
	r.xdp[u.Link] = now
	r.Log.Info("XDP on a link", "link", u.Name, "state", state, "err", err)
}
