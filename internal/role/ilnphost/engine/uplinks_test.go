package engine

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
)

// rows is a data plane that keeps the table of uplinks as last written.
type rows struct {
	table
	last   []dataplane.UplinkEntry
	writes int
}

func (p *rows) SetUplinks(us []dataplane.UplinkEntry) error {
	p.last, p.writes = us, p.writes+1
	return nil
}

// TestHardwareAddressesOfRouters: the data plane gets the hardware addresses of a router
// while the kernel's entry is valid, as of the reading of activity before the last one:
// what happened until then was handled.
func TestHardwareAddressesOfRouters(t *testing.T) {
	e, _ := withSession(t, ilnp.Established)
	p := &rows{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}}
	e.cfg.Plane = p
	e.noteLocal(roam.LinkLocator{Link: 7, L64: here}, true)
	own, router := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 9}
	known := hostnet.Uplink{Link: 7, Up: true, Routed: true, HasMAC: true, MAC: own,
		NextHop: netip.MustParseAddr("fe80::9"), NextHopMAC: router, NextHopValid: true}
	change := func(u hostnet.Uplink) dataplane.UplinkEntry {
		t.Helper()
		e.links[7] = u
		e.uplinks.write()
		if len(p.last) != 1 {
			t.Fatalf("%d rows", len(p.last))
		}
		return p.last[0]
	}
	got := change(known)
	if got.NextHopMAC.String() != router.String() || got.MAC.String() != own.String() || !got.KnownAt.IsZero() {
		t.Errorf("at first %+v", got)
	}
	first := time.Now()
	e.confirm(first)
	e.confirm(first.Add(time.Second))
	if got := p.last[0]; p.writes != 3 || !got.KnownAt.Equal(first) {
		t.Errorf("%d writes, %+v", p.writes, got)
	}
	raw, failed := known, known
	raw.HasMAC, failed.NextHopValid = false, false
	for name, u := range map[string]hostnet.Uplink{"link without MAC header": raw, "neighbour not valid": failed} {
		if got := change(u); got.NextHopMAC != nil || got.MAC != nil || !got.KnownAt.IsZero() {
			t.Errorf("%s: %+v", name, got)
		}
		before := p.writes
		e.confirm(first.Add(2 * time.Second))
		if p.writes != before {
			t.Errorf("%s: written again for nothing", name)
		}
	}
}

// withLocators gives a host locators 0 to n-1 on link 7, with a session on the first of them.
func withLocators(t *testing.T, n int) (*Engine, *table, func(int) roam.LinkLocator) {
	t.Helper()
	e, _ := withSession(t, ilnp.Established)
	p := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}
	e.cfg.Plane = p
	e.links[7] = hostnet.Uplink{Link: 7, Name: "net7", Up: true, Routed: true}
	at := func(i int) roam.LinkLocator { return roam.LinkLocator{Link: 7, L64: here + roam.L64(i)} }
	for i := range n {
		e.noteLocal(at(i), true)
		e.writeUplinks()
	}
	return e, p, at
}

// TestLocatorInUseKeepsItsRow: however many locators come, those of entries keep their rows, and one that a session
// turns to gets one.
func TestLocatorInUseKeepsItsRow(t *testing.T) {
	for name, paths := range map[string]func(*ilnp.Entry) *[]ilnp.Path{
		"in use":     func(p *ilnp.Entry) *[]ilnp.Path { return &p.Paths },
		"ruled":      func(p *ilnp.Entry) *[]ilnp.Path { return &p.Ruled },
		"back":       func(p *ilnp.Entry) *[]ilnp.Path { return &p.Back },
		"in reserve": func(p *ilnp.Entry) *[]ilnp.Path { return &p.Reserve },
	} {
		e, p, at := withLocators(t, 1)
		entry := e.entries[sessionKey]
		list := entry.Paths
		entry.Paths = nil
		*paths(&entry) = list
		e.keep(entry)
		for i := 1; i < 3*uplinkRows; i++ {
			e.noteLocal(at(i), true)
			e.writeUplinks()
			if len(p.rows) > uplinkRows || !slices.Contains(p.rows, at(0)) {
				t.Fatalf("%s: with %d locators, its own has no row: %v", name, i+1, p.rows)
			}
		}
		moved := entry
		*paths(&moved) = []ilnp.Path{{Local: at(1), Remote: there}}
		e.upsert(time.Now(), moved)
		if !slices.Contains(p.rows, at(1)) {
			t.Errorf("%s: the locator that the session turned to has no row: %v", name, p.rows)
		}
	}
}

// TestEntryWithoutItsRowIsRewritten: where more locators are in use than there are rows, an entry whose locator gives
// its row away is written again, without the path.
func TestEntryWithoutItsRowIsRewritten(t *testing.T) {
	e, p, at := withLocators(t, uplinkRows+1)
	entryOn := func(i int) ilnp.Entry {
		entry := e.entries[sessionKey]
		if i > 0 {
			entry.Key.Remote, entry.RemoteNID = roam.NID(1000+i), roam.NID(1000+i)
		}
		entry.Paths = []ilnp.Path{{Local: at(i), Remote: there}}
		return entry
	}
	for i := range uplinkRows + 1 {
		e.upsert(time.Now(), entryOn(i))
	}
	var sending int
	for i := range uplinkRows + 1 {
		entry := p.entries[entryOn(i).Key]
		if has := len(entry.Paths) > 0; has != slices.Contains(p.rows, at(i)) {
			t.Errorf("the entry on locator %d has paths %v, rows are %v", i, entry.Paths, p.rows)
		} else if has {
			sending++
		}
	}
	if sending != uplinkRows || !slices.Contains(p.rows, at(uplinkRows)) {
		t.Errorf("%d sessions send; rows %v", sending, p.rows)
	}
}
