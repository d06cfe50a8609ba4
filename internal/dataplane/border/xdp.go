package border

import (
	"fmt"

	"roam"
)

// AttachXDP puts the program for plain packets of known flows before those of AttachInside or
// AttachUplink, where the driver of the link runs it.
func (p *Plane) AttachXDP(dev roam.LinkID, inside bool) error {
	if inside {
		return p.Set.AttachXDP(dev, p.objs.SbrInsideXdp)
	}
	return p.Set.AttachXDP(dev, p.objs.SbrUplinkXdp)
}

// SendXDP says by which links the programs of AttachXDP may send: those whose drivers take their
// frames. Frames for others take the programs at tc.
func (p *Plane) SendXDP(links map[roam.LinkID]bool) error {
	wanted := make(map[uint32]uint32)
	for dev := range links {
		wanted[uint32(dev)] = uint32(dev)
		if err := p.objs.XdpLinks.Put(uint32(dev), uint32(dev)); err != nil {
			return fmt.Errorf("have XDP send by link %d: %w", dev, err)
		}
	}
	return removeOthers(p.objs.XdpLinks, wanted)
}
