package engine

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/internal/hostnet"
)

// table is a data plane that knows rows and entries only: a path without a row
// is left out.
type table struct {
	Plane
	rows    []ilnp.Local
	entries map[ilnp.PairKey]ilnp.Pair
	writes  int
}

func (p *table) AttachUplink(roam.LinkID, bool) error { return nil }

func (p *table) SetUplinks(us []dataplane.UplinkEntry) error {
	p.rows = nil
	for _, u := range us {
		p.rows = append(p.rows, u.Local)
	}
	return nil
}

func (p *table) Upsert(e ilnp.Pair) error {
	p.writes++
	e.Paths = slices.DeleteFunc(slices.Clone(e.Paths), func(path ilnp.Path) bool { return !slices.Contains(p.rows, path.Local) })
	p.entries[e.Key] = e
	return nil
}

// TestPathsOfALocatorThatComesLate: a session that was restored into a new data
// plane sends as soon as its locator is there, and is not written again with
// every advertisement.
func TestPathsOfALocatorThatComesLate(t *testing.T) {
	e, _ := withSession(t, ilnp.Established)
	p := &table{entries: make(map[ilnp.PairKey]ilnp.Pair)}
	e.cfg.Plane = p
	if err := p.Upsert(e.pairs[pairKey]); err != nil || len(p.entries[pairKey].Paths) != 0 {
		t.Fatal("the path has a row before its locator is there")
	}
	e.handleNetwork(hostnet.UplinkChanged{Uplink: hostnet.Uplink{Link: 7, Name: "net7", Up: true, Routed: true, HasMAC: true}})
	at := hostnet.LocatorChanged{LocatorEvent: ilnp.LocatorEvent{Local: ilnp.Local{Link: 7, L64: here}, Present: true, Preferred: time.Hour}}
	for range 3 {
		e.handleNetwork(at)
	}
	if got := p.entries[pairKey].Paths; !slices.Equal(got, e.pairs[pairKey].Paths) {
		t.Errorf("paths %v, want %v", got, e.pairs[pairKey].Paths)
	}
	if p.writes != 2 {
		t.Errorf("written %d times, want once more", p.writes)
	}
}
