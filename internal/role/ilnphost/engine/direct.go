package engine

import (
	"roam"
)

// directSample is how many sessions are looked at for the link that most of them use.
const directSample = 64

// direct chooses the uplink by which session packets leave without passing the session
// device: the one that most sessions use. What belongs to another uplink is redirected
// there, as on the session device, so a wrong choice costs time only.
type direct struct {
	*base
	uplinks  *uplinks
	policy   *policy
	attached map[roam.LinkID]bool // with the outbound program at their egress
	chosen   roam.LinkID
	silent   bool // the log has said why there is none
}

// noteAttached notes whether the outbound program is at the egress of a link.
func (d *direct) noteAttached(link roam.LinkID, is bool) {
	if d.attached[link] = is; !is {
		delete(d.attached, link)
		if d.chosen == link {
			d.chosen = 0
			d.cfg.Network.Direct(0)
		}
	}
}

// chooseDirect looks for another choice.
func (d *direct) chooseDirect() {
	link := d.best()
	if link != d.chosen {
		d.chosen = link
		d.cfg.Network.Direct(link)
	}
}

// best returns the link to choose; 0: none, as packets must pass the session device. A
// host with policies of its own, of routing or of IPsec, decides by links that no packet
// of a session has yet.
func (d *direct) best() roam.LinkID {
	if d.policy.armed || len(d.attached) == 0 || d.cfg.Translates == nil {
		return 0
	}
	may, err := d.cfg.Translates()
	if err != nil && !d.silent {
		d.silent = true
		d.cfg.Log.Info("all packets of sessions pass the session device", "why", err)
	}
	if !may {
		return 0
	}
	used, sample := make(map[roam.LinkID]int), directSample
	for _, p := range d.entries {
		if sample--; sample < 0 {
			break
		}
		if len(p.Paths) > 0 {
			used[p.Paths[0].Local.Link]++
		}
	}
	best := roam.LinkID(0)
	for link, at := range d.uplinks.links {
		if !d.attached[link] || !at.Up || !at.Routed || !at.NextHopValid {
			continue
		}
		switch n := used[link] - used[best]; {
		case best == 0, n > 0, n == 0 && (link == d.chosen || best != d.chosen && link < best):
			best = link
		}
	}
	return best
}
