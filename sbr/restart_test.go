package sbr

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// restarted is a core that takes over what an earlier one has left in the data plane: site locators by their indices,
// and one flow.
func restarted(t *testing.T, indices []roam.L64, f FlowSeen) *border {
	b := &border{Core: New(coalesce, port, maxFlows, theProbe), T: t, now: origin}
	b.HandleOwn(map[roam.LinkID]roam.ILV{9: ownILV})
	b.HandleSites(b.now, bothUp)
	b.HandleIndices(indices)
	b.HandlePolicy(b.now, testPolicy(20, 80))
	b.HandleFlow(b.now, f, []roam.L64{siteA, siteB})
	b.AnnounceAnew(b.now)
	b.drain()
	b.until(b.now.Add(time.Second))
	return b
}

// What was announced stays over a restart where the site locators have the same indices. The border announces them
// once more, with the preferences of its policy, but for a flow whose updates have MACs: there its own are refused.
func TestRestart(t *testing.T) {
	sealed := seenFlow
	sealed.Sealed = true
	for _, f := range []FlowSeen{seenFlow, sealed} {
		b := restarted(t, []roam.L64{siteA, siteB}, f)
		for _, i := range b.installs {
			if i.Renamed != 0 {
				t.Error("the indices are taken for others")
			}
		}
		if list := b.Flows(); len(b.announced) != 0 || len(list) != 1 || len(list[0].Announced) != 2 {
			t.Errorf("sealed %v: announced %+v, flows %+v", f.Sealed, b.announced, list)
		}
		if f.Sealed {
			if len(b.sent) != 0 {
				t.Errorf("%d updates without a MAC", len(b.sent))
			}
			continue
		}
		b.sent = b.sent[len(b.sent)-1:]
		m, u := b.take(1)
		if m.Nonce != outward || !announces(u, siteSet) {
			t.Errorf("announces %+v %+v", m, u)
		}
		b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
		if b.until(b.now.Add(time.Hour)); len(b.sent) != 0 {
			t.Errorf("%d updates after the acknowledgement", len(b.sent))
		}
	}
	for _, c := range []struct {
		was, want []roam.L64
		renamed   uint16
	}{
		{[]roam.L64{siteB, siteA}, []roam.L64{siteB, siteA}, 0},
		{[]roam.L64{siteB, 0, siteA, siteB}, []roam.L64{siteB, 0, siteA, 0}, 8},
		{[]roam.L64{remote, siteB, 0}, []roam.L64{siteA, siteB, 0}, 1},
	} {
		b := restarted(t, c.was, sealed)
		if !slices.Contains(b.installs, Install{Renamed: c.renamed}) || !slices.Equal(b.indices, c.want) {
			t.Errorf("indices %v: %v, installs %+v", c.was, b.indices, b.installs)
		}
	}
}

// The data plane is told once that a flow's updates have MACs, and when that may have ended.
func TestSealIsKept(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	poll := func() (list []bool) {
		for o, ok := b.Poll(); ok; o, ok = b.Poll() {
			if s, is := o.(Sealed); is {
				list = append(list, s.Sealed)
			}
		}
		return list
	}
	f := b.flows[key]
	b.seal(f)
	b.seal(f)
	if got := poll(); !slices.Equal(got, []bool{true}) {
		t.Errorf("sealed: %v", got)
	}
	b.HandleFlow(b.now, seenFlow, nil) // the data plane may be behind
	if !f.Sealed {
		t.Error("the same flow again has no MACs")
	}
	anew := seenFlow
	anew.Inward, anew.Outward, anew.Sealed = outward, inward, true
	b.HandleFlow(b.now, anew, nil)
	if got := poll(); !slices.Equal(got, []bool{false}) || f.Sealed {
		t.Errorf("a new session: %v, sealed %v", got, f.Sealed)
	}
}

// A node with one locator that lasts sends no update. So the border renews what it has announced long before the
// outside node would forget it, as long as the flow is there and its updates have no MACs.
func TestLifetimesAreRenewed(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	b.until(b.now.Add(10 * time.Millisecond))
	for range 5 {
		if len(b.sent) == 0 {
			t.Fatal("no update")
		}
		b.sent = b.sent[:1]
		_, u := b.take(1)
		least := slices.MinFunc(u.Locators, func(x, y ilnp.LocatorEntry) int { return int(x.Lifetime) - int(y.Lifetime) })
		b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
		if list := b.Flows(); len(list[0].Announced) != 2 || len(b.sent) != 0 {
			t.Fatalf("announced %v, %d more updates", list[0].Announced, len(b.sent))
		}
		b.until(b.now.Add(time.Duration(least.Lifetime) * time.Second / 2))
		if list := b.Flows(); len(list[0].Announced) != 2 {
			t.Errorf("announced %v while that is renewed", list[0].Announced)
		}
	}
	b.sent = b.sent[:1]
	_, u := b.take(1)
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
	b.seal(b.flows[key])
	if b.until(b.now.Add(24 * time.Hour)); len(b.sent) != 0 {
		t.Errorf("%d updates without a MAC", len(b.sent))
	}
}
