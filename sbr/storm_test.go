package sbr

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// A provider's link is lost under the sessions of 100 hosts. All of their updates have left within
// 40 ms, by the other link, and each one's acknowledgement confirms its flow.
func TestLinkLostManyHosts(t *testing.T) {
	const hosts, bound = 100, 40 * time.Millisecond
	b := newBorder(t)
	both := []roam.L64{siteA, siteB}
	for i := range roam.NID(hosts) {
		seen := seenFlow
		seen.Inside += i
		b.HandleFlow(b.now, seen, both)
	}
	b.drain()
	b.until(b.now.Add(time.Second))
	b.sent, b.announced = nil, nil
	lost := b.now
	b.HandleSites(b.now, bothUp[1:])
	b.drain()
	b.until(lost.Add(bound))
	left := make(map[roam.NID]bool)
	for _, s := range b.sent {
		m, err := ilnp.ParseControl(s.Packet, port)
		if err != nil || s.Link != 2 || m.Src.L64 != siteB {
			t.Fatalf("on link %d: %+v, %v", s.Link, m, err)
		}
		u, err := ilnp.ParseLocatorUpdate(m.Payload)
		if err != nil || len(u.Locators) != 1 || u.Locators[0].L64 != siteB {
			t.Fatalf("%+v, %v", u, err)
		}
		left[m.Src.NID] = true
		b.handle(false, m.Dst, m.Src, inward, u.Ack())
	}
	if len(left) != hosts {
		t.Errorf("updates of %d hosts within %v, want %d", len(left), bound, hosts)
	}
	n := len(b.sent)
	b.until(b.now.Add(time.Hour))
	if len(b.sent) != n || len(b.refused) != 0 {
		t.Errorf("%d repetitions after the acknowledgements, refused %v", len(b.sent)-n, b.refused)
	}
	for _, f := range b.Flows() {
		if !slices.Equal(f.Announced, both[1:]) {
			t.Errorf("%v: announced %v", f.Inside, f.Announced)
		}
	}
}

// Changes that follow each other do not put off what the first one has to have announced: it leaves when
// the border has collected for its time, and what came later within that time leaves with it. A change after
// that is collected anew.
func TestChangesInARow(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	b.drain()
	b.until(b.now.Add(time.Second))
	b.sent = nil
	lost := b.now
	change := func(after time.Duration, states ...Site) {
		b.until(lost.Add(after))
		b.HandleSites(b.now, states)
		b.drain()
	}
	change(0, Site{siteA, 1, false}, bothUp[1])
	change(coalesce/2, bothUp[0], Site{siteB, 2, false})
	change(coalesce-time.Millisecond, Site{siteA, 1, false}, bothUp[1])
	b.until(lost.Add(coalesce - time.Nanosecond))
	if len(b.sent) != 0 {
		t.Error("announced before the border has collected for its time")
	}
	b.until(lost.Add(coalesce))
	m, u := b.take(2)
	if len(u.Locators) != 1 || u.Locators[0].L64 != siteB {
		t.Errorf("%+v", u)
	}
	b.handle(false, m.Dst, m.Src, inward, u.Ack())
	change(coalesce+time.Millisecond, bothUp...)
	b.until(lost.Add(2 * coalesce))
	if len(b.sent) != 0 {
		t.Error("a change after that is not collected")
	}
	b.until(lost.Add(2*coalesce + time.Millisecond))
	if _, u := b.take(1); len(u.Locators) != 2 {
		t.Errorf("%+v", u)
	}
}

// Every host is announced while links flap, however many there are: none loses its turn to those that
// come before it.
func TestFlappingLinkManyHosts(t *testing.T) {
	const hosts, every, changes = 3_000, 50 * time.Millisecond, 12
	b := newBorder(t)
	b.maxFlows = hosts
	for i := range roam.NID(hosts) {
		seen := seenFlow
		seen.Inside += i
		b.HandleFlow(b.now, seen, []roam.L64{siteA, siteB})
	}
	b.drain()
	b.until(b.now.Add(time.Second))
	b.sent = nil
	for i := range changes {
		b.HandleSites(b.now, [][]Site{bothUp[1:], bothUp[:1]}[i%2])
		b.drain()
		b.until(b.now.Add(every))
	}
	left := make(map[roam.NID]bool)
	for _, s := range b.sent {
		m, err := ilnp.ParseControl(s.Packet, port)
		if err != nil {
			t.Fatal(err)
		}
		left[m.Src.NID] = true
	}
	if len(left) != hosts {
		t.Errorf("updates of %d hosts within %v, want %d", len(left), changes*every, hosts)
	}
}

// A storm of updates from one inside host passes, keeps a bounded number of them, and leaves the
// latest to be acknowledged; of one with other nonces some pass, and one from outside with the site's own
// locators does not, and neither changes anything.
func TestUpdateStorm(t *testing.T) {
	const storm = 10_000
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	b.sent = nil
	var u ilnp.LocatorUpdate
	for i := range uint32(storm) {
		u = ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: internal, Lifetime: i}}}
		b.handle(true, mine, theirs, outward, u)
	}
	f := b.flows[key]
	if len(b.sent) != storm || len(f.sent) > kept || len(b.refused) != 0 {
		t.Errorf("%d passed, %d kept, refused %v", len(b.sent), len(f.sent), b.refused)
	}
	b.sent = b.sent[storm-1:]
	_, out := b.take(1)
	wrong := outward
	wrong.Bytes[0]++
	site := roam.ILV{L64: siteA, NID: insideNID}
	for range storm {
		b.handle(true, mine, theirs, wrong, u)
		b.handle(false, theirs, site, inward, out)
	}
	if len(b.sent) != othersBurst || len(b.refused) != 2*storm-othersBurst ||
		len(b.incomplete)+len(b.announced)+len(b.claims) != 0 {
		t.Errorf("%d passed, %d refused", len(b.sent), len(b.refused))
	}
	b.sent = nil
	b.handle(false, theirs, site, inward, out.Ack())
	if _, in := b.take(9); !slices.Equal(in.Locators, u.Locators) {
		t.Errorf("acknowledged %+v, want %+v", in, u)
	}
}

// Most outside nodes never acknowledge. Repetitions to them have a rate, no call takes long, and after the loss
// of a link those that have acknowledged are told first.
func TestManyThatNeverAcknowledge(t *testing.T) {
	const never, known = 4_000, 2 * mostDue
	b := newBorder(t)
	b.Core.maxFlows = never + known
	for i := range roam.NID(never + known) {
		seen, announced := seenFlow, []roam.L64(nil)
		if seen.Outside += i; i >= never {
			announced = []roam.L64{siteA, siteB}
		}
		b.HandleFlow(b.now, seen, announced)
	}
	b.drain()
	b.sent = nil
	b.until(b.now.Add(firstRetry)) // all are due now
	began, rest := b.now, len(b.sent)
	for b.now.Sub(began) < time.Second {
		b.HandleTimeout(b.now)
		b.drain()
		b.now = b.now.Add(time.Millisecond)
	}
	if n, most := len(b.sent)-rest, atOnce+int(time.Second/pacePatient)+1; n > most || n < most/2 {
		t.Errorf("%d repetitions in a second, want %d at most", n, most)
	}
	b.sent = nil
	b.HandleSites(b.now, bothUp[1:])
	b.until(b.now.Add(coalesce + 2*known*pace))
	told := 0
	for _, s := range b.sent {
		if m, err := ilnp.ParseControl(s.Packet, port); err == nil && m.Dst.NID >= seenFlow.Outside+never {
			told++
		}
	}
	if told != known {
		t.Errorf("told %d of %d that have acknowledged, in %d updates", told, known, len(b.sent))
	}
	b.now = b.now.Add(time.Minute)
	b.HandleTimeout(b.now)
	if n := len(b.out); n > mostDue {
		t.Errorf("%d things to do at once, want %d at most", n, mostDue)
	}
}
