package sim

import (
	"net/netip"
	"testing"
	"time"

	"roam"
)

// border is a router at the edge of a site. It rewrites the upper halves of addresses:
// inside they are those of the site, outside those of a provider.
type border struct {
	*Router
	inside          roam.LinkID
	site, providers netip.Prefix // of 64 bits
}

func (b *border) Receive(now time.Time, link roam.LinkID, p Packet) {
	at, from, to := 8, b.site, b.providers
	if link != b.inside {
		at, from, to = 24, b.providers, b.site
	}
	if from.Contains(p.address(at)) {
		b2, upper := append([]byte(nil), p.Bytes...), to.Addr().As16()
		copy(b2[at:at+8], upper[:8])
		p.Bytes = b2
	}
	b.Router.Receive(now, link, p)
}

// TestBorderRewrites has a router be a part of another node, behind which a host has
// addresses that nobody outside knows.
func TestBorderRewrites(t *testing.T) {
	n := New(1)
	mine, theirs := netip.MustParseAddr("fd00::7"), netip.MustParseAddr("2001:db8:f::7")
	b := &border{inside: 1, site: prefix(mine, 64).Masked(), providers: prefix(theirs, 64).Masked()}
	b.Router = n.AddRouterIn(b, netip.MustParseAddr("2001:db8:f::1"))
	host, server := n.AddHost(mine), n.AddHost(serving)
	n.Connect(End{host, 1}, End{b, 1}, Params{MTU: 1500})
	n.Connect(End{b, 2}, End{server, 1}, Params{MTU: 1400})
	b.Add(Route{Prefix: b.site, Link: 1})
	b.Add(Route{Prefix: prefix(serving, 64), Link: 2})
	host.Add(Route{Prefix: all, Link: 1})
	server.Add(Route{Prefix: all, Link: 1})
	in, out := listen(host), listen(server)
	host.Send(udp(mine, serving, 1400))
	n.Run(time.Second)
	if p := out.only(t); p.Source() != theirs {
		t.Errorf("comes from %v, want %v", p.Source(), theirs)
	}
	server.Send(udp(serving, theirs, 1400))
	n.Run(time.Second)
	if p := in.only(t); p.Destination() != mine {
		t.Errorf("comes for %v, want %v", p.Destination(), mine)
	}
	// The MTU is that of the border's own link.
	host.Send(udp(mine, serving, 1401))
	n.Run(time.Second)
	if c := b.Counts(); c.TooBig != 1 || c.Forwarded != 2 {
		t.Errorf("%+v", c)
	}
}
