package ilnphost

import (
	"fmt"

	"roam"
)

// AttachSession puts the outbound program on the egress of the session device,
// and the sink for packets that are only seemingly sent on its other end.
func (p *Plane) AttachSession(device, peer roam.LinkID) error {
	if err := p.set.AttachLink(peer, true, p.objs.IlnpSessionSink); err != nil {
		return fmt.Errorf("attach to the other end of the session device: %w", err)
	}
	if err := p.set.AttachLink(device, false, p.objs.IlnpSessionEgress); err != nil {
		return fmt.Errorf("attach to session device: %w", err)
	}
	return nil
}

// AttachSegmentation puts the outbound program on the ingress of the far end of the
// segmentation device, whose near end HostSettings names.
func (p *Plane) AttachSegmentation(far roam.LinkID) error {
	if err := p.set.AttachLink(far, true, p.objs.IlnpSessionEgress); err != nil {
		return fmt.Errorf("attach to the segmentation device: %w", err)
	}
	return nil
}

// AttachUplink puts the inbound program on the ingress of an uplink, and on its egress
// the outbound program, or, where frames carry no Ethernet header (hasMAC), a guard against
// leaks. It may be called again for the same link.
func (p *Plane) AttachUplink(uplink roam.LinkID, hasMAC bool) error {
	in, out := p.objs.IlnpUplinkIngress, p.objs.IlnpSessionEgress
	if !hasMAC {
		if err := p.loadRaw(); err != nil {
			return fmt.Errorf("attach to link %d, which has no MAC header: %w", uplink, err)
		}
		in, out = p.raw.IlnpRawlinkIngress, p.raw.IlnpRawlinkEgress
	}
	if err := p.set.AttachLink(uplink, true, in); err != nil {
		return fmt.Errorf("attach to ingress of link %d: %w", uplink, err)
	}
	if err := p.set.AttachLink(uplink, false, out); err != nil {
		return fmt.Errorf("attach to egress of link %d: %w", uplink, err)
	}
	return p.guard.admit(uplink)
}

// DetachUplink takes the programs off a link, which may be gone.
func (p *Plane) DetachUplink(uplink roam.LinkID) error {
	if err := p.guard.expel(uplink); err != nil {
		return err
	}
	return p.set.Detach(uplink)
}

// PrepareUplink makes a link ready for AttachUplink: to attach the first programs to a link
// takes the kernel some 40 ms, in which AttachUplink would otherwise keep its caller. What
// is there until then lets everything pass, counts nothing and does not make the link one
// that may deliver session addresses. It may be called from any goroutine.
func (p *Plane) PrepareUplink(l roam.LinkID) error { return p.set.Prepare(l) }

// ReleaseUplink takes that back for a link that is no uplink and will be none. It may be
// called from any goroutine.
func (p *Plane) ReleaseUplink(l roam.LinkID) error { return p.set.Release(l) }

// PreparedUplinks returns the links that are prepared and no uplinks, those of an earlier
// process too; they may be gone.
func (p *Plane) PreparedUplinks() ([]roam.LinkID, error) { return p.set.Prepared() }

// AttachedUplinks returns the links to which an earlier process attached the programs of
// an uplink: the session device has them in one direction only. Pins of links that are
// gone are removed.
func (p *Plane) AttachedUplinks() ([]roam.LinkID, error) { return p.set.Attached() }
