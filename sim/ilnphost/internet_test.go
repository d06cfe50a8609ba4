package ilnphost

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// TestOtherNodes connects a host of another kind with the Internet: routers and hosts
// answer each other across kinds, and what an ILNP host cannot read does no harm.
func TestOtherNodes(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	addr, port := netip.MustParseAddr("2001:db8:77::1"), OtherLinks
	host := w.AddHost(addr)
	w.Connect(sim.End{Node: host, Link: 1}, sim.End{Node: w.Internet(), Link: port}, sim.Params{})
	w.Internet().Add(sim.Route{Prefix: netip.PrefixFrom(addr, 64), Link: port})
	host.Add(sim.Route{Prefix: netip.MustParsePrefix("::/0"), Link: 1})
	server := roam.ILV{L64: netS, NID: serverNID}
	seen := 0
	w.Seen = func(h *Node, _ roam.LinkID, leaves bool, p Packet) {
		if h == w.server && !leaves && p.Src.Addr() == addr {
			seen++
		}
	}
	host.Send(sim.ICMP(addr, server.Addr(), sim.EchoRequest, 0, 1, make([]byte, 16)))
	host.Send(sim.ICMP(addr, server.Addr(), sim.EchoRequest, 0, 1, nil))
	foreign := sim.ICMP(addr, server.Addr(), sim.EchoRequest, 0, 1, nil)
	foreign.Bytes[6] = 17
	host.Send(foreign)
	w.Run(time.Second)
	if seen == 0 {
		t.Error("nothing of the other host came")
	}
	w.server.attachments[0].wire.Set(sim.Backward, sim.Params{MTU: 900})
	before := f.Received()
	tooBig := 0
	w.Seen = func(h *Node, _ roam.LinkID, leaves bool, p Packet) {
		if h == w.mobile && !leaves && messageType(p) == sim.PacketTooBig {
			tooBig++
		}
	}
	w.Run(time.Second)
	if got := f.Received() - before; got > 20 || tooBig < 900 {
		t.Errorf("%d datagrams of 1000 bytes came through, %d reports of their size", got, tooBig)
	}
	w.server.attachments[0].set(near)
	w.Run(time.Second)
	w.finish(t, f)
}

// TestPathBehindARouter has the correspondent be in a site, behind a router of its own.
// What is lost there of one path, in one direction, makes the mobile host leave that path,
// though no link of any host is cut.
func TestPathBehindARouter(t *testing.T) {
	n := New(1)
	showTrace(t, n)
	all := netip.MustParsePrefix("::/0")
	inSite := netip.PrefixFrom(roam.ILV{L64: netS}.Addr(), 60)
	edge := n.AddRouter(netip.MustParseAddr("2001:db8:e::1"))
	uplink := n.Connect(sim.End{Node: n.Internet(), Link: OtherLinks}, sim.End{Node: edge, Link: OtherLinks},
		sim.Params{Delay: 7 * time.Millisecond})
	n.Internet().Add(sim.Route{Prefix: inSite, Link: OtherLinks})
	edge.Add(sim.Route{Prefix: all, Link: OtherLinks})
	n.Behind(inSite, edge, &edge.Routes)
	w := &world{
		Network: n,
		mobile:  n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, Mode: ilnp.Duality}),
		server:  n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Mode: ilnp.Duality}),
	}
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile)
	f := w.startEvery(t, 10*time.Millisecond, true)
	w.Run(time.Second)
	sources := func() []roam.L64 {
		e := w.mobile.plane.named(ilnp.SessionKey{Local: mobileNID, Remote: serverNID})
		return slices.Compact(slices.Sorted(slices.Values(sourcesOf(e))))
	}
	if got := sources(); !slices.Equal(got, []roam.L64{netA, netB}) {
		t.Fatalf("the mobile host sends from %v", got)
	}
	if at := f.arrivals[0]; at.at.Sub(at.sent) < 17*time.Millisecond || edge.Counts().Forwarded < 100 {
		t.Errorf("the first one took %v; the edge forwarded %+v", at.at.Sub(at.sent), edge.Counts())
	}
	broken := sim.Pair{Src: netip.PrefixFrom(roam.ILV{L64: netA}.Addr(), 64)}
	uplink.CutPair(sim.Forward, broken)
	w.Run(20 * time.Second)
	if got := sources(); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("the mobile host sends from %v by a path that is cut", got)
	}
	from := w.Elapsed()
	w.Run(time.Second)
	to := w.Elapsed()
	w.Run(time.Second)
	if lost := f.Lost(from, to); lost > 0 {
		t.Errorf("%d datagrams lost by the other path", lost)
	}
	uplink.MendPair(sim.Forward, broken)
	w.Run(3 * time.Minute)
	w.finish(t, f)
}

// TestObservedLink counts on the link of a host that moves, out of the bytes alone, what
// its core says that it has sent and received.
func TestObservedLink(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	w.withoutUDP()
	var updates, acks, withNonce, data int
	look := func(_ time.Time, out bool, p sim.Packet) {
		q, err := ilnpwire.ParseControl(p.Bytes, udpPort)
		if err != nil { // not of ICMPv6
			data++
			if p.Bytes[6] == ip6.DestOpts {
				withNonce++
			}
			return
		}
		lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
		switch {
		case q.Type != ilnpwire.TypeLocatorUpdate || err != nil:
		case out && lu.Operation == ilnpwire.Advertisement:
			updates++
		case !out && lu.Operation == ilnpwire.Acknowledgement:
			acks++
		}
	}
	for link := range roam.LinkID(3) { // also of links that are not there yet
		w.Watch(sim.End{Node: w.mobile, Link: link}, look)
	}
	f := w.start(t, true)
	for _, l := range []roam.L64{netB, netC} {
		w.mobile.Up(2, l, near, roam.Infinite)
		w.Run(500 * time.Millisecond)
	}
	sent, acked := w.mobile.Count(ilnp.UpdateSent), w.mobile.Count(ilnp.UpdateAcked)
	if updates != sent || acks < acked || sent < 2 {
		t.Errorf("%d updates and %d acknowledgements on the links, %d and %d in the core", updates, acks, sent, acked)
	}
	if want := f.Sent + f.Received(); withNonce == 0 || withNonce == data || data < want-100 || data > want {
		t.Errorf("%d datagrams, %d of them with a nonce, of %d", data, withNonce, want)
	}
	w.finish(t, f)
}
