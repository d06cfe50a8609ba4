package dataplane

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf/link"

	"roam"
)

// Places says where the programs of each set stand on a link, counted from the wire
// inwards: on ingress a lower place sees a packet earlier, on egress later. So the
// lowest place sees packets as they are on the wire in both directions. A place never
// changes: with it a successor finds the filter that it replaces.
var Places = map[string]int{
	"observer": -16, // counts packets as they are on the wire
	"border":   -8,  // rewrites the locators of a site
	flatSet:    0,   // translates between the wire and session addresses
}

// rank orders the programs of one hook: the lowest runs first.
func (s *Set) rank(set string, ingress bool) int {
	if ingress {
		return s.opts.Places[set]
	}
	return -s.opts.Places[set]
}

// anchor returns the position of a new tcx link of this set among those of other sets
// on the same hook, and how to let go of what it needs. Without others it is the last
// of all programs.
func (s *Set) anchor(dev roam.LinkID, ingress bool) (at link.Anchor, release func(), err error) {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return nil, nil, err
	}
	ours := s.rank(s.opts.Name, ingress)
	var next, last link.Link // the neighbours that run after and before this set's
	var nextRank, lastRank int
	release = func() { closeLinks(next, last) }
	for _, e := range entries {
		if !e.IsDir() || e.Name() == s.opts.Name {
			continue
		}
		l, err := link.LoadPinnedLink(filepath.Join(s.opts.Dir, e.Name(), linkName(dev, ingress)), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || linkedTo(l) != dev {
			closeLinks(l)
			continue // of a device that is gone
		}
		switch r := s.rank(e.Name(), ingress); {
		case r > ours && (next == nil || r < nextRank):
			next, nextRank, l = l, r, next
		case r <= ours && (last == nil || r > lastRank):
			last, lastRank, l = l, r, last
		}
		closeLinks(l)
	}
	switch {
	case next != nil:
		return link.BeforeLink(next), release, nil
	case last != nil:
		return link.AfterLink(last), release, nil
	}
	return nil, release, nil
}

func closeLinks(ls ...link.Link) {
	for _, l := range ls {
		if l != nil {
			l.Close()
		}
	}
}
