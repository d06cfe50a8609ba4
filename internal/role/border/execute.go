package border

import (
	"errors"
	"fmt"
	"time"

	"roam"
	plane "roam/internal/dataplane/border"
	"roam/internal/hostnet"
	"roam/internal/rawio"
	"roam/sbr"
	"roam/wire/ip6"
)

const (
	// renewal is how long the programs trust hardware addresses without a daemon.
	renewal = 5 * time.Second
	renew   = time.Second // how often the daemon renews that
	// sweep is how often it reads all flows.
	sweep = 10 * time.Second
)

// upkeep renews what the programs forget by themselves, ends flows without packets, and finds
// those that were not reported, since the ring was full. A sweep goes in steps, so that a million
// flows hold nothing else up.
type upkeep struct {
	role       *Role
	due, swept time.Time // swept: when the latest sweep began
	sweep      *plane.Sweep
}

// PollTimeout returns when HandleTimeout is to be called.
func (u *upkeep) PollTimeout() (time.Time, bool) {
	if u.sweep != nil {
		return u.swept, true
	}
	return u.due, true
}

// HandleTimeout does what is due.
func (u *upkeep) HandleTimeout(now time.Time) {
	r := u.role
	if !now.Before(u.due) {
		u.due = now.Add(renew)
		r.Warn("renew the hardware addresses", r.plane.Configure(r.settings(r.Config), now.Add(renewal)))
		r.accelerate()
	}
	if u.sweep == nil && now.Sub(u.swept) >= sweep {
		u.sweep, u.swept = r.plane.Sweep(), now
	}
	if u.sweep == nil {
		return
	}
	flows, more, err := u.sweep.Next(r.core.Table())
	if !r.Warn("read the flows", err) || !more {
		u.sweep = nil
	}
	for _, f := range flows {
		r.handleSwept(now, f)
	}
}

// handleSwept takes a flow of the programs, which may not have been reported, or not with these nonces.
func (r *Role) handleSwept(now time.Time, f plane.FlowEntry) {
	switch {
	case now.Sub(f.Seen) > r.Config.Border.IdleTimeout:
		r.core.HandleIdle(f.FlowKey)
	case !r.core.Knows(f.FlowSeen):
		r.core.HandleFlow(now, f.FlowSeen, f.Announced)
	default:
		r.core.HandleSwept(now, f.FlowKey, f.Sent, f.Came)
	}
}

// Drain has nothing of its own to carry out.
func (u *upkeep) Drain(time.Time) {}

// handleFacts takes the state of the host's links, and its addresses.
func (r *Role) handleFacts(now time.Time, f hostnet.Facts) {
	r.links, r.addrs = f.Links, f.Own
	r.attach()
	r.accelerate()
	r.core.HandleSites(now, r.sites(r.Config))
	r.install(0) // hardware addresses and MTUs
	r.own()
}

// handleEvent takes what the programs hand over.
func (r *Role) handleEvent(now time.Time, e plane.Event) {
	switch e.Kind {
	case plane.FlowChanged:
		if f, ok := r.plane.Flow(e.Flow, r.core.Table()); ok {
			r.core.HandleFlow(now, f.FlowSeen, nil)
		}
	case plane.FromInside, plane.FromOutside:
		p := sbr.Packet{Bytes: e.Packet, Link: e.Link, Inside: e.Kind == plane.FromInside}
		if sites := r.core.Table().Sites; e.Came >= 0 && e.Came < len(sites) {
			p.Came = sites[e.Came].L64
		}
		r.core.HandlePacket(now, p)
	case plane.TooBig:
		if own, ok := r.address(e.Link); ok {
			r.core.HandleTooBig(sbr.Packet{Bytes: e.Packet, Link: e.Link, Inside: true}, e.MTU, own)
		}
	case plane.OwnError:
		r.core.HandleOwnError(sbr.Packet{Bytes: e.Packet, Link: e.Link})
	}
}

// address returns the address from which this host sends errors on a link: a global one of
// that link, or of any to the inside.
func (r *Role) address(link roam.LinkID) (own roam.ILV, ok bool) {
	for _, u := range r.links {
		if len(u.Addrs) > 0 && (u.Link == link || !ok && r.kindOf(u) == inside) {
			own, ok = roam.ILVFromAddr(u.Addrs[0]), true
		}
	}
	return own, ok
}

// execute does one thing that the core wants done.
func (r *Role) execute(now time.Time, o sbr.Output) {
	switch o := o.(type) {
	case sbr.Transmit:
		r.transmit(now, o)
	case sbr.Announced:
		r.Warn("write announced locators", r.plane.Announce(o.FlowKey, r.core.Table(), o.Locators))
	case sbr.Sealed:
		r.Warn("write that updates have MACs", r.plane.Seal(o.FlowKey, o.Sealed))
	case sbr.Renewed:
		r.Warn("write the nonces of a flow", r.plane.Renew(o.FlowKey, o.Inward, o.Outward))
	case sbr.Forget:
		r.Warn("forget a flow", r.plane.Forget(o.FlowKey))
	case sbr.Install:
		r.install(o.Renamed)
		r.notices.changed(now)
	case sbr.Look:
		if f, ok := r.plane.Flow(o.FlowKey, r.core.Table()); ok {
			r.core.HandleOther(now, o.FlowKey, r.plane.OtherNonce(o.FlowKey))
			r.core.HandleSeen(now, o.FlowKey, f.Sent)
		}
	case sbr.Refused:
		r.refused[o.Why].add(now, o.Packet)
	}
}

// transmit sends a packet on a link, or by the one to the inside that the host's routes name. What cannot be sent is
// counted.
func (r *Role) transmit(now time.Time, o sbr.Transmit) {
	var err error
	if o.Link == sbr.Routed {
		o.Link, err = r.toward(o.Packet)
	}
	if err == nil {
		err = r.sender.Send(o.Link, o.Packet)
	}
	if err == nil {
		return
	}
	r.refused[unsent].add(now, sbr.Packet{Bytes: o.Packet, Link: o.Link})
	if errors.Is(err, rawio.ErrBusy) || errors.Is(err, rawio.ErrNoRoute) {
		r.Log.Debug("a packet was not sent", "err", err)
		return
	}
	r.Warn("send a packet", err)
}

// toward returns the link to the inside by which a packet leaves. An internal address whose route leads elsewhere is
// no host's, and the packet must not get out of the site.
func (r *Role) toward(packet []byte) (roam.LinkID, error) {
	h, err := ip6.Parse(packet)
	if err != nil {
		return 0, err
	}
	link, err := r.routes.Toward(h.Dst)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", rawio.ErrNoRoute, err)
	}
	if !r.isInside(link) {
		return link, fmt.Errorf("to %v by link %d, which border.inside does not list: %w", h.Dst, link, rawio.ErrNoRoute)
	}
	return link, nil
}

// install writes the tables.
func (r *Role) install(renamed uint16) {
	hops := make(map[roam.LinkID]plane.Hop)
	for _, u := range r.links {
		h := plane.Hop{MTU: uint32(u.MTU), NextHop: u.NextHop}
		if u.HasMAC && u.NextHopValid && len(u.NextHopMAC) == 6 && len(u.MAC) == 6 {
			copy(h.MACs[:], u.NextHopMAC)
			copy(h.MACs[6:], u.MAC)
		}
		hops[u.Link] = h
	}
	r.Warn("write the tables", r.plane.Install(r.core.Table(), renamed, hops))
}

// own writes the host's own addresses, which are no site's, and gives the core those on links to
// the inside.
func (r *Role) own() {
	list := make([]roam.ILV, len(r.addrs))
	for i, a := range r.addrs {
		list[i] = roam.ILVFromAddr(a)
	}
	asks := make(map[roam.LinkID]roam.ILV)
	for _, u := range r.links {
		if r.kindOf(u) != inside {
			continue
		}
		if asks[u.Link] = (roam.ILV{}); len(u.Addrs) > 0 {
			asks[u.Link] = roam.ILVFromAddr(u.Addrs[0])
		}
	}
	r.core.HandleOwn(asks)
	r.Warn("write the own addresses", r.plane.SetOwn(list))
}
