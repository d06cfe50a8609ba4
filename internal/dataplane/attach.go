package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
)

// AttachSession puts the outbound program on the egress of the session device,
// and the sink for packets that are only seemingly sent on its other end.
func (p *Plane) AttachSession(device, peer roam.LinkID) error {
	if err := p.attach(peer, true, p.objs.IlnpSessionSink); err != nil {
		return fmt.Errorf("attach to the other end of the session device: %w", err)
	}
	if err := p.attach(device, false, p.objs.IlnpSessionEgress); err != nil {
		return fmt.Errorf("attach to session device: %w", err)
	}
	return nil
}

// AttachSegmentation puts the outbound program on the ingress of the far end of the
// segmentation device, whose near end HostSettings names.
func (p *Plane) AttachSegmentation(far roam.LinkID) error {
	if err := p.attach(far, true, p.objs.IlnpSessionEgress); err != nil {
		return fmt.Errorf("attach to the segmentation device: %w", err)
	}
	return nil
}

// AttachUplink puts the inbound program on the ingress of an uplink, and the
// guard against leaks on its egress. hasMAC says whether frames carry an
// Ethernet header. It may be called again for the same link.
func (p *Plane) AttachUplink(uplink roam.LinkID, hasMAC bool) error {
	in, out := p.objs.IlnpUplinkIngress, p.objs.IlnpUplinkEgress
	if !hasMAC {
		if err := p.loadRaw(); err != nil {
			return fmt.Errorf("attach to link %d, which has no MAC header: %w", uplink, err)
		}
		in, out = p.raw.IlnpRawlinkIngress, p.raw.IlnpRawlinkEgress
	}
	if err := p.attach(uplink, true, in); err != nil {
		return fmt.Errorf("attach to ingress of link %d: %w", uplink, err)
	}
	if err := p.attach(uplink, false, out); err != nil {
		return fmt.Errorf("attach to egress of link %d: %w", uplink, err)
	}
	return p.guard.admit(uplink)
}

// DetachUplink takes the programs off a link, which may be gone.
func (p *Plane) DetachUplink(uplink roam.LinkID) error {
	p.waiting = slices.DeleteFunc(p.waiting, func(a attachment) bool { return a.dev == uplink })
	if err := p.guard.expel(uplink); err != nil {
		return err
	}
	if !p.tcx {
		return errors.Join(p.opts.Classic.DetachClassic(uplink, true), p.opts.Classic.DetachClassic(uplink, false))
	}
	for _, ingress := range []bool{true, false} {
		if err := os.Remove(p.linkPin(uplink, ingress)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("detach from link %d: %w", uplink, err)
		}
	}
	return nil
}

// AttachedUplinks returns the links to which an earlier process attached the
// programs of an uplink. Pins of links that are gone are removed.
func (p *Plane) AttachedUplinks() ([]roam.LinkID, error) {
	if !p.tcx {
		return p.opts.Classic.Attached()
	}
	entries, err := os.ReadDir(p.opts.PinDir)
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	var links []roam.LinkID
	for _, e := range entries {
		var dev roam.LinkID
		// Egress alone has the session device, ingress alone its other end.
		if n, _ := fmt.Sscanf(e.Name(), linkPrefix+"%d_ingress", &dev); n != 1 || !strings.HasSuffix(e.Name(), "_ingress") {
			continue
		}
		if _, err := os.Stat(p.linkPin(dev, false)); err != nil {
			continue
		}
		if attachedTo(p.linkPin(dev, true)) == dev {
			links = append(links, dev)
		} else if err := p.DetachUplink(dev); err != nil {
			return nil, err
		}
	}
	return links, nil
}

// attachedTo returns the link that a pin attaches a program to; 0: none any more.
func attachedTo(pin string) roam.LinkID {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return 0
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil || info.TCX() == nil {
		return 0
	}
	return roam.LinkID(info.TCX().Ifindex)
}

// linkPrefix begins the names of the pins that attach programs.
const linkPrefix = "link_"

func (p *Plane) linkPin(dev roam.LinkID, ingress bool) string {
	direction := "egress"
	if ingress {
		direction = "ingress"
	}
	return filepath.Join(p.opts.PinDir, fmt.Sprintf(linkPrefix+"%d_%s", dev, direction))
}

// attachment is a program that waits for TakeOver.
type attachment struct {
	dev     roam.LinkID
	ingress bool
	prog    *ebpf.Program
}

// TakeOver attaches what had to wait: where the maps of an earlier process could not be
// taken over, its programs go on with them until the new ones have the sessions. A link
// that is gone meanwhile is no error.
func (p *Plane) TakeOver() error {
	waiting := p.waiting
	p.behind, p.waiting = false, nil
	var errs []error
	for _, a := range waiting {
		if err := p.attach(a.dev, a.ingress, a.prog); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("attach to link %d: %w", a.dev, err))
		}
	}
	return errors.Join(errs...)
}

// Behind reports whether the programs of an earlier process go on until TakeOver.
func (p *Plane) Behind() bool { return p.behind }

// attach updates the link that an earlier process pinned in place, so that no
// packet passes unseen; where there is none, or its device is gone, it makes
// and pins one.
func (p *Plane) attach(dev roam.LinkID, ingress bool, prog *ebpf.Program) error {
	if p.behind {
		p.waiting = append(p.waiting, attachment{dev, ingress, prog})
		return nil
	}
	if !p.tcx {
		info, err := prog.Info()
		if err != nil {
			return fmt.Errorf("read program name: %w", err)
		}
		return p.opts.Classic.AttachClassic(dev, ingress, prog.FD(), info.Name)
	}
	pin := p.linkPin(dev, ingress)
	if adoptLink(pin, dev, prog) {
		return nil
	}
	where := ebpf.AttachTCXEgress
	if ingress {
		where = ebpf.AttachTCXIngress
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(dev), Program: prog, Attach: where})
	if err != nil {
		return fmt.Errorf("attach through tcx: %w", err)
	}
	defer l.Close()
	if err := l.Pin(pin); err != nil {
		return fmt.Errorf("pin tcx link: %w", err)
	}
	return nil
}

// adoptLink reports whether the pinned link was for this device and now runs
// prog. Otherwise the pin is gone.
func adoptLink(pin string, dev roam.LinkID, prog *ebpf.Program) bool {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		os.Remove(pin)
		return false
	}
	defer l.Close()
	info, err := l.Info()
	if err == nil && info.TCX() != nil && info.TCX().Ifindex == uint32(dev) && l.Update(prog) == nil {
		return true
	}
	os.Remove(pin)
	return false
}
