package links

import (
	"os"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
)

// soonGone is what it may cost when a router takes a network away with a word:
// the link goes on to receive.
const soonGone = vanished / 5

// noticed bounds the cost of a dead path that nothing reports: 0.4 s of silence and probes, twice
// where the directions die one after the other, with a margin for a busy machine.
const noticed = 3 * time.Second

// TestRouters plays what routers say, and what they do without saying it.
func TestRouters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "routers").start()
	w.sub("lifetimes of 2 s", func(t *testing.T) { shortLifetimes(w) })
	w.sub("lifetimes of zero", func(t *testing.T) { zeroLifetimes(w) })
	w.sub("lifetimes without end", func(t *testing.T) { endlessLifetimes(w) })
	w.sub("gone without a word", func(t *testing.T) { silentRouter(w) })
	w.sub("default route taken away", func(t *testing.T) { takenRoute(w) })
	w.sub("another host owns our address", func(t *testing.T) { duplicate(w) })
}

// updates counts the Locator Updates that the correspondent took.
func (w *world) updates() int {
	b, _ := os.ReadFile(w.cn.log)
	return strings.Count(string(b), "msg=update-received")
}

// shortLifetimes keeps a network that must be renewed every two seconds, and
// then lets it run out.
func shortLifetimes(w *world) {
	l := numbered(2)
	p := w.trip()
	w.veth(w.mn, "net2", "tonet2")
	w.route("tonet2", l)
	p.phase("the link appears", 0, func() {
		w.advertise("tonet2", advert{router: 2, prefixes: []prefix{{l, 2, 2}}})
		w.uses("net2", l)
	})
	before, began := w.updates(), time.Now()
	p.phase("it is renewed", 0, func() { p.flows(8 * rate) })
	// Told anew each time that half of the lifetime is over, at most.
	if n, most := w.updates()-before, int(time.Since(began)/time.Second)+2; n > most {
		w.t.Errorf("%d Locator Updates in %v", n, time.Since(began))
	}
	p.phase("it runs out", soonGone, func() {
		w.radios["tonet2"].stop()
		delete(w.radios, "tonet2")
		w.uses("net1", numbered(1))
	})
	p.end()
	w.unplug("net2")
}

// zeroLifetimes says that a prefix is not to be used any more, that it is not
// valid, and that the router is none.
func zeroLifetimes(w *world) {
	l := numbered(3)
	p := w.trip()
	w.veth(w.mn, "net2", "tonet2")
	w.route("tonet2", l)
	for _, c := range []struct {
		name string
		advert
	}{
		{"deprecated", advert{router: 1800, prefixes: []prefix{{l, 0, 3600}}}},
		{"not valid", advert{router: 1800, prefixes: []prefix{{l, 0, 0}}}},
		{"without a default router", advert{router: 0, prefixes: []prefix{{l, 1800, 3600}}}},
	} {
		p.phase(c.name+" from the start", 0, func() {
			w.advertise("tonet2", c.advert)
			p.flows(rate / 2) // two advertisements
			w.uses("net1", numbered(1))
		})
	}
	p.phase("used after all", 0, func() { w.radios["tonet2"].set(lasting(l)); w.uses("net2", l) })
	p.phase("deprecated", 0, func() {
		w.radios["tonet2"].set(advert{router: 1800, prefixes: []prefix{{l, 0, 3600}}})
		w.uses("net1", numbered(1))
	})
	p.phase("used again", 0, func() { w.radios["tonet2"].set(lasting(l)); w.uses("net2", l) })
	p.phase("no default router", soonGone, func() {
		w.radios["tonet2"].set(advert{router: 0, prefixes: []prefix{{l, 1800, 3600}}})
		w.uses("net1", numbered(1))
	})
	p.end()
	w.unplug("net2")
}

// endlessLifetimes never runs out.
func endlessLifetimes(w *world) {
	l := numbered(4)
	p := w.trip()
	w.veth(w.mn, "net2", "tonet2")
	w.route("tonet2", l)
	p.phase("the link appears", 0, func() {
		w.advertise("tonet2", advert{router: 0xffff, prefixes: []prefix{{l, forever, forever}}})
		w.uses("net2", l)
	})
	before := w.updates()
	p.phase("it is renewed", 0, func() { p.flows(2 * rate) })
	if n := w.updates() - before; n > 0 {
		w.t.Errorf("%d Locator Updates about what never ends", n)
	}
	p.phase("it vanishes", vanished, func() { w.unplug("net2"); w.uses("net1", numbered(1)) })
	p.end()
}

// silentRouter loses all that goes over the link in use, in both directions:
// the carrier stays, and so do the default route and the prefix.
func silentRouter(w *world) {
	l := numbered(5)
	link, err := w.lab.Link(w.mn.Host, "wlan2", w.r, "towlan2", linkem.Params{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.route("towlan2", l)
	cut := func(on bool) {
		if err := link.SetBoth(linkem.Params{Cut: on}); err != nil {
			w.t.Fatal(err)
		}
	}
	p := w.trip()
	p.phase("the link appears", 0, func() { w.advertise("towlan2", lasting(l)); w.uses("wlan2", l) })
	p.phase("its router is gone", noticed, func() { cut(true); w.uses("net1", numbered(1)) })
	p.phase("it is back", soonGone, func() { cut(false); w.uses("wlan2", l) })
	// Reception works as before, until the router no longer finds the host's hardware address.
	p.phase("it takes nothing", noticed, func() {
		if err := link.Set(linkem.AB, linkem.Params{Cut: true}); err != nil {
			w.t.Fatal(err)
		}
		w.uses("net1", numbered(1))
	})
	p.phase("it is back again", soonGone, func() { cut(false); w.uses("wlan2", l) })
	// The kernel tells of lost carriers once a second where the device is not
	// one of a pair.
	p.phase("it says so", time.Second+vanished, func() {
		if err := link.Down(); err != nil {
			w.t.Fatal(err)
		}
		w.uses("net1", numbered(1))
	})
	p.end()
	w.radios["towlan2"].stop()
	delete(w.radios, "towlan2")
}

// takenRoute takes the only default route away and puts it back a moment later,
// as a manager of links does that starts anew; and then one for good.
func takenRoute(w *world) {
	l := numbered(7)
	gateway := func(link string) (via string) {
		out, _ := w.tryIP(w.mn.Host, "-6 route show default dev "+link)
		if words := strings.Fields(out); len(words) > 2 && words[1] == "via" {
			via = words[2]
		}
		return via
	}
	p := w.trip()
	p.phase("taken for a moment", 0, func() {
		w.radios["tonet1"].stop() // which would put it back at once
		via := gateway("net1")
		w.ip(w.mn.Host, "-6 route del default via "+via+" dev net1")
		p.flows(rate / 4) // less than a network manager gets
		// Of its own metric, for another link may have a default route.
		w.ip(w.mn.Host, "-6 route add default via "+via+" dev net1 metric 1025")
		p.flows(2 * rate)
		w.uses("net1", numbered(1))
	})
	w.advertise("tonet1", lasting(numbered(1)))
	p.phase("another link", 0, func() { w.plug("net2", 7); w.uses("net2", l) })
	p.phase("taken for good", soonGone, func() {
		w.radios["tonet2"].stop()
		w.ip(w.mn.Host, "-6 route del default via "+gateway("net2")+" dev net2")
		w.uses("net1", numbered(1))
	})
	p.end()
	w.unplug("net2")
}

// duplicate joins a network in which another host has prefix:NID. Duplicate
// detection finds it; that costs no more than the moment until then, once.
func duplicate(w *world) {
	w.needKind("bridge")
	l := numbered(6)
	own := roam.ILV{L64: l, NID: mnNID}.Addr().String()
	w.ip(w.r, "link add segment type bridge forward_delay 0")
	w.ip(w.r, "link set segment up")
	thief, err := w.lab.Host("thief")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.lab.Veth(thief, "net1", w.r, "tothief"); err != nil {
		w.t.Fatal(err)
	}
	w.ip(thief, "addr add "+own+"/64 dev net1 nodad")
	w.ip(w.r, "link set tothief master segment")
	w.route("segment", l)
	p := w.trip()
	p.phase("the link appears", 2*time.Second, func() {
		w.veth(w.mn, "net2", "tonet2")
		w.ip(w.r, "link set tonet2 master segment")
		w.advertise("segment", lasting(l))
		testutil.Eventually(w.t, patience, func() bool {
			b, _ := os.ReadFile(w.mn.log)
			return strings.Contains(string(b), "duplicate address: another node on net2 uses "+own)
		}, "a word about the duplicate")
		w.uses("net1", numbered(1))
	})
	p.phase("it is tried again", 0, func() { p.flows(7 * rate) })
	p.phase("the other has left", 0, func() { w.ip(thief, "addr del "+own+"/64 dev net1"); w.uses("net2", l) })
	p.phase("it vanishes", vanished, func() { w.unplug("net2"); w.uses("net1", numbered(1)) })
	p.end()
	w.radios["segment"].stop()
	delete(w.radios, "segment")
	w.ip(w.r, "link del segment")
}
