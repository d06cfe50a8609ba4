package sbr

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// aside is another internal locator of the site; packets from there leave by siteA alone.
const aside roam.L64 = internal + 1<<16

// newAside is a border that has that locator, too, on link 8.
func newAside(t *testing.T) *border {
	b := newBorder(t)
	b.HandleOwn(map[roam.LinkID]roam.ILV{8: {L64: aside, NID: 1}, 9: ownILV})
	text := testPolicy(20, 80).AppendTo(nil)
	p, err := ParsePolicy(fmt.Appendf(text, "%v 60 0 none 1 3\n%v 20 0 none 3\n", aside.Prefix(), siteA.Prefix()))
	if err != nil {
		t.Fatal(err)
	}
	b.HandlePolicy(b.now, p)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	b.drain()
	b.sent, b.announced = nil, nil
	return b
}

// What the data plane reports of a host that has moved inside the site is news: messages from outside go to where it
// is, and its correspondent learns the locators of there.
func TestHostMovesInside(t *testing.T) {
	b := newAside(t)
	there := seenFlow
	there.Internal, there.Link, there.Sent = aside, 8, b.now
	if b.Knows(there) {
		t.Error("a host at another place is known")
	}
	b.HandleFlow(b.now, there, []roam.L64{siteA, siteB})
	b.drain()
	if _, u := b.take(1); !b.Knows(there) || len(u.Locators) != 1 || u.Locators[0].L64 != siteA {
		t.Errorf("announces %+v", u.Locators)
	}
	if a := b.announced; len(a) != 1 || !slices.Equal(a[0].Locators, []roam.L64{siteA}) {
		t.Errorf("announced %+v", a)
	}
	far := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: remote, Lifetime: 60}}}
	b.handle(false, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, far)
	if m, _ := b.take(8); m.Dst.L64 != aside {
		t.Errorf("an update from outside goes to %v", m.Dst)
	}
}

const siteC roam.L64 = 0x2001_0db8_000e_0000

// twoNetworks is a policy by which packets from aside leave by siteC alone, with further lines.
func twoNetworks(t *testing.T, more string) Policy {
	t.Helper()
	text := testPolicy(20, 80).AppendTo(nil)
	text = fmt.Appendf(text, "%s%v 60 0 none 1 3\n%v 30 0 none 3\n", more, aside.Prefix(), siteC.Prefix())
	p, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A border that begins anew knows by the site locators which an earlier one has announced that a host is on two
// networks, and withdraws none of their locators, whichever it sends from. Of networks with the same provider it is
// that whose providers were all announced.
func TestRestartedBesideTwoNetworks(t *testing.T) {
	const third, siteD = aside + 1<<16, siteC + 1<<16
	more := fmt.Sprintf("%v 5 0 vlb 1 4\n%v 30 0 none 4\n%v 30 0 none 4\n", third.Prefix(), siteC.Prefix(), siteD.Prefix())
	for _, more := range []string{"", more} {
		b := &border{Core: New(coalesce, port, maxFlows, theProbe), T: t, now: origin}
		b.HandleOwn(map[roam.LinkID]roam.ILV{8: {L64: aside, NID: 1}, 9: ownILV})
		b.HandleSites(b.now, append(slices.Clone(bothUp), Site{siteC, 3, true}, Site{siteD, 4, true}))
		b.HandlePolicy(b.now, twoNetworks(t, more))
		b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB, siteC})
		b.AnnounceAnew(b.now)
		b.drain()
		b.until(b.now.Add(firstRetry / 2))
		_, u := b.take(1)
		if !slices.Equal(locatorsOf(u.Locators), []roam.L64{siteA, siteB, siteC}) || len(b.announced) != 0 {
			t.Errorf("announces %+v, announced %+v", u.Locators, b.announced)
		}
		b.handle(false, theirs, atSite, inward, u.Ack())
		b.announced = nil
		there := seenFlow
		there.Internal, there.Link, there.Sent = aside, 8, b.now
		b.HandleFlow(b.now, there, nil)
		b.HandleSites(b.now, append(slices.Clone(bothUp), Site{siteC, 3, true})) // nothing of its locators
		b.until(b.now.Add(firstRetry / 4))
		if len(b.announced)+len(b.sent) != 0 {
			t.Errorf("announced %+v, sent %d", b.announced, len(b.sent))
		}
	}
}

// A host on two networks of the site announces both. What its correspondent has acknowledged stays: the border
// withdraws no locator of the network that the flow's packets do not come from, and announces changes for both.
func TestHostOnTwoNetworks(t *testing.T) {
	b := newAside(t)
	b.HandlePolicy(b.now, twoNetworks(t, ""))
	b.HandleSites(b.now, append(slices.Clone(bothUp), Site{siteC, 3, true}))
	b.until(b.now.Add(time.Second))
	b.sent = nil
	both := []ilnp.LocatorEntry{{L64: internal, Lifetime: 100}, {L64: aside, Lifetime: 100}}
	b.handle(true, mine, theirs, outward, ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: both})
	_, u := b.take(1)
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
	b.take(9)
	there := seenFlow
	there.Internal, there.Link, there.Sent = aside, 8, b.now
	for _, f := range []FlowSeen{seenFlow, there} {
		b.HandleFlow(b.now, f, nil)
		b.drain()
		b.until(b.now.Add(time.Hour))
		if a := b.Flows()[0].Announced; len(b.sent) != 0 || !sameSet(a, []roam.L64{siteA, siteB, siteC}) {
			t.Fatalf("from %v: %d updates of the border's own, announced %v", f.Internal, len(b.sent), a)
		}
	}
	b.HandleSites(b.now, []Site{{siteA, 1, true}, {siteC, 3, true}})
	b.until(b.now.Add(coalesce))
	if m, u := b.take(3); m.Src.L64 != siteC || len(u.Locators) != 2 {
		t.Errorf("a link of the other network went: from %v, %+v", m.Src, u)
	}
}

// With the same locators of the site the correspondent has nothing to learn, unless their preferences are others.
func TestHostMovesAlike(t *testing.T) {
	for rewrite, updates := range map[string]int{"vlb 1": 0, "none 1": 1} {
		b := newAside(t)
		text := testPolicy(20, 80).AppendTo(nil)
		p, err := ParsePolicy(fmt.Appendf(text, "%v 60 0 %s 2\n", aside.Prefix(), rewrite))
		if err != nil {
			t.Fatal(err)
		}
		b.HandlePolicy(b.now, p)
		b.until(b.now.Add(time.Second))
		b.sent = nil
		there := seenFlow
		there.Internal, there.Link, there.Sent = aside, 8, b.now
		b.HandleFlow(b.now, there, nil)
		if b.drain(); len(b.sent) != updates {
			t.Errorf("%s: %d updates, want %d", rewrite, len(b.sent), updates)
		}
	}
}

// Once the link to a host is gone, another one on which the border has an address of the same locator takes its place:
// messages from outside leave by that, and the host is asked by it. Without one the host's routes know.
func TestLinkToHostGone(t *testing.T) {
	b := newAside(t)
	far := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: remote, Lifetime: 60}}}
	site := roam.ILV{L64: siteB, NID: insideNID}
	for _, c := range []struct {
		own  map[roam.LinkID]roam.ILV
		link roam.LinkID
	}{
		{map[roam.LinkID]roam.ILV{8: {L64: aside, NID: 1}, 9: {}}, 9}, // the border has no address there
		{map[roam.LinkID]roam.ILV{8: {L64: aside, NID: 1}}, 0},
		{map[roam.LinkID]roam.ILV{8: {L64: aside, NID: 1}, 12: ownILV, 13: ownILV}, 12},
	} {
		b.HandleOwn(c.own)
		b.handle(false, theirs, site, inward, far)
		if m, _ := b.take(c.link); m.Dst != mine {
			t.Errorf("own %v: sent to %v", c.own, m.Dst)
		}
	}
	b.now = b.now.Add(time.Minute)
	b.HandleSites(b.now, bothUp[1:])
	b.HandleTimeout(b.now.Add(coalesce))
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		switch o := o.(type) {
		case Look:
			b.HandleSeen(b.now, o.FlowKey, origin)
		case Transmit:
			b.sent = append(b.sent, o)
		}
	}
	if len(b.sent) != 1 || b.sent[0].Link != 12 {
		t.Errorf("the host is asked by %+v, want link 12", b.sent)
	}
}
