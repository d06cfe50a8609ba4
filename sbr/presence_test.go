package sbr

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// In the name of a host that has left the site the border sends nothing outside, neither updates
// nor probes. When the host sends again, or answers, it is announced.
func TestSilentForLeftHost(t *testing.T) {
	w := newWatched(t)
	w.pass(3*time.Second, 10*time.Millisecond)
	w.gone, w.probes = true, 0
	w.lastSent = w.now
	w.pass(presence+100*time.Millisecond, 10*time.Millisecond) // a round may begin within that
	w.probes, w.asked = 0, 0
	w.HandleSites(w.now, bothUp[1:])
	for range 200 {
		w.until(w.now.Add(time.Second))
		if len(w.sent) != 0 {
			t.Fatalf("sent in its name: %x", w.sent[0].Packet)
		}
	}
	if a := w.announced; !slices.Equal(a[len(a)-1].Locators, []roam.L64{siteB}) || w.asked == 0 || w.asked > retries+1 {
		t.Errorf("announced %+v, %d questions", a, w.asked)
	}
	// A host that answers nothing shows by its packets that it is there, in the sweep.
	w.lastSent = w.now
	w.HandleSeen(w.now, key, w.lastSent)
	w.drain()
	if _, u := w.take(2); len(u.Locators) != 1 {
		t.Errorf("back: %+v", u)
	}
}

// A host that sends nothing and answers is announced at once, with one question for all of its flows,
// and never asked about providers.
func TestQuietHost(t *testing.T) {
	w := newWatched(t)
	w.quiet, w.lastSent = true, w.now
	more := seenFlow
	for i := range roam.NID(9) {
		more.Outside = outsideNID + 1 + i
		w.HandleFlow(w.now, more, []roam.L64{siteA, siteB})
	}
	w.until(w.now.Add(active + time.Second))
	w.sent = nil
	if w.until(w.now.Add(time.Minute)); len(w.sent) != 0 {
		t.Errorf("%d probes in the name of a quiet host", len(w.sent))
	}
	w.sent, w.asked = nil, 0
	w.HandleSites(w.now, bothUp[1:])
	w.until(w.now.Add(coalesce + 10*time.Millisecond))
	if len(w.sent) != 10 || w.asked != 1 {
		t.Fatalf("%d updates, %d questions", len(w.sent), w.asked)
	}
}

// Of many flows that are silent the border finds the one whose host sends.
func TestProbesByActiveFlow(t *testing.T) {
	w := newWatched(t)
	w.quiet = true
	more := seenFlow
	for i := range roam.NID(100) {
		more.Outside = outsideNID + 1 + i
		w.HandleFlow(w.now, more, []roam.L64{siteA, siteB})
	}
	w.until(w.now.Add(2 * lately))
	w.sent = nil
	for range 30 {
		w.HandleSeen(w.now, more.FlowKey, w.now)
		w.lastSent = w.now
		w.until(w.now.Add(time.Second))
	}
	for _, s := range w.sent {
		if m, err := ilnp.ParseControl(s.Packet, port); err != nil || m.Dst.NID != more.Outside {
			t.Fatalf("asks %+v, %v", m, err)
		}
	}
	if len(w.sent) < 40 {
		t.Errorf("%d probes in 30 s", len(w.sent))
	}
}

// An answer of another host, or to another border, shows nothing.
func TestForeignPresence(t *testing.T) {
	b := newBorder(t)
	b.gone = true
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	b.sent, b.now = nil, b.now.Add(time.Minute)
	b.HandleSites(b.now, bothUp[:1])
	b.until(b.now.Add(coalesce))
	for name, p := range map[string]Probe{"number": {ID: 78, Token: theProbe.Token}, "token": {ID: theProbe.ID}} {
		a, err := ilnp.BuildEcho(mine, ownILV, ilnp.Nonce{}, false, p.ID, 1, p.data())
		if err != nil {
			t.Fatal(err)
		}
		b.HandlePacket(b.now, Packet{Bytes: a, Link: 9, Inside: true})
		if b.drain(); len(b.sent) != 0 {
			t.Errorf("another %s: %d packets sent", name, len(b.sent))
		}
	}
	if !slices.Equal(b.refused, []Refusal{Malformed, Malformed}) {
		t.Errorf("refused %v", b.refused)
	}
}

// What is known of hosts does not grow with those that are gone.
func TestManyHosts(t *testing.T) {
	b := newBorder(t)
	b.quiet = true
	one := seenFlow
	for i := range roam.NID(10 * fewHosts) {
		one.Inside = insideNID + i
		b.HandleFlow(b.now, one, nil)
		b.drain()
		b.HandleIdle(one.FlowKey)
		b.now = b.now.Add(presence / 8)
	}
	if n := len(b.hosts); n > 2*fewHosts {
		t.Errorf("%d hosts are kept", n)
	}
}

// An outside node that was out of reach for longer than the border repeats its update is sent one more when it sends
// packets again, and not more than that.
func TestTriesAgain(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	before := b.now.Add(time.Second)
	b.until(b.now.Add(time.Hour))
	b.sent = nil
	sweep := func(came time.Time) int {
		b.HandleSwept(b.now, key, b.now, came)
		b.drain()
		b.until(b.now.Add(10 * time.Second))
		return len(b.sent)
	}
	if n := sweep(before); n != 0 {
		t.Errorf("%d updates to a node that sends nothing", n)
	}
	if n := sweep(b.now); n != 1 {
		t.Fatalf("%d updates to a node that sends again, want 1", n)
	}
	b.until(b.now.Add(time.Hour))
	_, u := b.take(1)
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
	if sweep(b.now) != 0 || len(b.Flows()[0].Announced) != 2 {
		t.Errorf("after its acknowledgement %d updates, announced %v", len(b.sent), b.Flows()[0].Announced)
	}
}
