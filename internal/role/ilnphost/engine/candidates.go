package engine

import (
	"slices"

	"roam"
	"roam/internal/hostnet"
)

// candidateMost bounds the links that are prepared though they may never become uplinks.
const candidateMost = 64

// candidates are the links that may become uplinks. They are prepared for the programs of
// uplinks beside the loop, one at a time, as the kernel takes some 40 ms for each. So the
// first Router Advertisement on a link does not wait for that.
type candidates struct {
	*base
	uplinks  *uplinks
	known    map[roam.LinkID]bool // prepared, under way, or in todo
	todo     []roam.LinkID
	underWay roam.LinkID      // the one that is being prepared; 0: none
	prepared chan roam.LinkID // that it is done, whatever came of it
}

// candidateChanged takes news of a link that may become an uplink, or may not any more.
func (c *candidates) candidateChanged(ev hostnet.Candidate) {
	if !ev.Still {
		delete(c.known, ev.Link)
		c.todo = slices.DeleteFunc(c.todo, func(l roam.LinkID) bool { return l == ev.Link })
		if c.underWay != ev.Link { // else when that is over, for this would wait for it
			c.release(ev.Link)
		}
		return
	}
	if c.known[ev.Link] || c.uplinks.disabled[ev.Name] || len(c.known) >= candidateMost {
		return
	}
	c.known[ev.Link] = true
	c.todo = append(c.todo, ev.Link)
	c.prepareSome()
}

// prepareSome prepares the next link, if none is under way.
func (c *candidates) prepareSome() {
	if c.underWay != 0 || len(c.todo) == 0 {
		return
	}
	l := c.todo[0]
	c.underWay, c.todo = l, c.todo[1:]
	go func() {
		if err := c.cfg.Plane.PrepareUplink(l); err != nil {
			// It may be gone already. If it is not, it takes longer to become an uplink.
			c.cfg.Log.Debug("cannot prepare a link for the programs of uplinks", "link", l, "err", err)
		}
		c.prepared <- l
	}()
}

// prepareNext goes on when a link was prepared, which may be no candidate any more.
func (c *candidates) prepareNext(done roam.LinkID) {
	c.underWay = 0
	if !c.known[done] {
		c.release(done)
	}
	c.prepareSome()
}

// becameUplink forgets a link that has programs of its own from now on.
func (c *candidates) becameUplink(l roam.LinkID) {
	c.todo = slices.DeleteFunc(c.todo, func(x roam.LinkID) bool { return x == l })
	delete(c.known, l)
}

// release takes back what was prepared.
func (c *candidates) release(l roam.LinkID) {
	if _, uplink := c.uplinks.links[l]; !uplink {
		c.report("release a link that will be no uplink", c.cfg.Plane.ReleaseUplink(l))
	}
}
