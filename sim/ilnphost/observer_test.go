package ilnphost

import (
	"maps"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/observer"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// gauge is an observer beside a node: what its programs would count, and its core.
type gauge struct {
	net    *Network
	core   *observer.Core
	counts map[observer.Class]observer.Traffic
	seen   []observer.Seen
}

// observe has a node observed from now on.
func observe(h *Node) *gauge {
	g := &gauge{net: h.net, core: observer.New(h.net.Now()), counts: make(map[observer.Class]observer.Traffic)}
	h.net.Seen = func(at *Node, link roam.LinkID, leaves bool, p Packet) {
		if at == h {
			g.count(link, leaves, p)
		}
	}
	g.settle()
	return g
}

func (g *gauge) count(link roam.LinkID, leaves bool, p Packet) {
	k := observer.Class{Link: link, Next: ip6.UDP}
	if leaves {
		k.Flags |= observer.Egress
	}
	if p.Nonce.Present() {
		k.Flags |= observer.Nonce
	}
	if p.Control != nil && !p.Encapsulated {
		k.Next = ip6.ICMPv6
		if messageType(p) == ilnpwire.TypeLocatorUpdate {
			k.Flags |= observer.LocatorUpdate
		}
	}
	n := g.counts[k]
	g.counts[k] = observer.Traffic{Packets: n.Packets + 1, Bytes: n.Bytes + uint64(p.size())}
}

// settle carries out what the core wants and sets its timer.
func (g *gauge) settle() {
	for {
		o, ok := g.core.Poll()
		if !ok {
			break
		}
		switch o := o.(type) {
		case observer.Read:
			g.core.HandleReading(g.net.Now(), maps.Clone(g.counts))
		case observer.Seen:
			g.seen = append(g.seen, o)
		}
	}
	at, _ := g.core.PollTimeout()
	g.net.After(at.Sub(g.net.Now()), func() {
		g.core.HandleTimeout(g.net.Now())
		g.settle()
	})
}

// of returns the last reading of a class; zero: there was none.
func (g *gauge) of(k observer.Class) (n observer.Count) {
	for _, c := range g.core.Counts() {
		if c.Class == k {
			n = c
		}
	}
	return n
}

// An observer on a mobile host sees its datagrams move from one link to the other, and
// reports the update that leaves by the new link, and its acknowledgement, within one
// reading.
func TestObserverOfAHandoff(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	g := observe(w.mobile)
	var encapsulated uint64 // control messages in UDP, which the observer counts as UDP
	count := w.Seen
	w.Seen = func(at *Node, link roam.LinkID, leaves bool, p Packet) {
		if at == w.mobile && leaves && p.Encapsulated {
			encapsulated++
		}
		count(at, link, leaves, p)
	}
	f := w.start(t, true)
	moved := w.Now()
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(10 * time.Second)
	f.Stop()
	w.Run(2 * time.Second)
	var datagrams uint64
	for _, link := range []roam.LinkID{1, 2} {
		for _, nonce := range []observer.Flags{0, observer.Nonce} {
			datagrams += g.of(observer.Class{Link: link, Next: ip6.UDP, Flags: observer.Egress | nonce}).Packets
		}
	}
	if want := uint64(f.Sent) + encapsulated; datagrams != want {
		t.Errorf("%d datagrams counted, %d sent", datagrams, want)
	}
	update := observer.Class{Link: 2, Next: ip6.ICMPv6, Flags: observer.Nonce | observer.LocatorUpdate}
	for _, direction := range []observer.Flags{observer.Egress, 0} {
		k := update
		k.Flags |= direction
		if n := g.of(k); n.Packets != 1 {
			t.Errorf("direction %d: %d updates and acknowledgements", direction, n.Packets)
		}
		reported := 0
		for _, s := range g.seen {
			if s.Class == k && s.At.After(moved) && s.At.Sub(moved) <= observer.Every {
				reported++
			}
		}
		if reported != 1 {
			t.Errorf("direction %d: reported %d times in the first second, of %+v", direction, reported, g.seen)
		}
	}
}

// The rate of the last second is that of the flow.
func TestObserverOfAFlow(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	g := observe(w.mobile)
	f := w.start(t, true)
	w.Run(5 * time.Second)
	was := f.Sent
	w.Run(10 * time.Second)
	rate := float64(f.Sent-was) / 10
	if n := g.of(observer.Class{Link: 1, Next: ip6.UDP, Flags: observer.Egress}); n.PacketsPerSecond != rate {
		t.Errorf("%v packets a second counted, %v sent", n.PacketsPerSecond, rate)
	}
	f.Stop()
	w.Run(2 * time.Second)
	if n := g.of(observer.Class{Link: 1, Next: ip6.UDP, Flags: observer.Egress}); n.PacketsPerSecond != 0 {
		t.Errorf("%v packets a second of a flow that has ended", n.PacketsPerSecond)
	}
}
