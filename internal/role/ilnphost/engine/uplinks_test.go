package engine

import (
	"net"
	"net/netip"
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
