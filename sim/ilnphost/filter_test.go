package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam/ilnp"

	"roam"
)

var filters = map[string]Filter{"options": DropOptions, "updates": DropUpdates, "icmp": DropICMP, "all": DropOptions | DropICMP}

// A first contact through a network that drops what Roam likes to send: the
// session comes to be within the time that plain IPv6 would take, on either side.
func TestFirstContactThroughFilters(t *testing.T) {
	for name, filter := range filters {
		for _, atServer := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " at server ", atServer), func(t *testing.T) {
				w := newWorld(t, ilnp.Soft, 1)
				access := near
				access.Filter = filter
				if atServer {
					w.server.Down(1)
					w.server.Up(1, netS, access, roam.Infinite)
				} else {
					w.mobile.Down(1)
					w.mobile.Up(1, netA, access, roam.Infinite)
				}
				w.Run(time.Second)
				f := w.start(t, true)
				w.finish(t, f)
				if f.Answered == 0 {
					t.Error("nothing was answered")
				}
				if got := len(w.mobile.peer(w.server).Encapsulated)+len(w.server.peer(w.mobile).Encapsulated) > 0; got != (filter != DropUpdates) {
					t.Errorf("control goes in UDP: %v", got)
				}
			})
		}
	}
}

// A soft handoff into such a network and out of it again: the session goes on, and
// the form of the RFCs is used again outside.
func TestSoftHandoffThroughFilters(t *testing.T) {
	for name, filter := range filters {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ilnp.Soft, 2)
			f := w.startEvery(t, 10*time.Millisecond, true)
			access := near
			access.Filter = filter
			w.mobile.Up(2, netB, access, roam.Infinite)
			w.Run(2 * time.Second)
			w.mobile.Down(1)
			w.Run(10 * time.Second)
			s := w.mobile.peer(w.server)
			if s.State != ilnp.Established || s.Dead || len(s.Encapsulated) > 0 != (filter != DropUpdates) {
				t.Fatalf("in there: %+v", s)
			}
			t.Logf("longest gap: %v, lost %d", f.Gap(), f.Sent-f.Answered)
			if gap := f.Gap(); gap > 500*time.Millisecond {
				t.Errorf("longest gap %v", gap)
			}
			w.mobile.Up(3, netC, near, roam.Infinite)
			w.Run(2 * time.Second)
			w.mobile.Down(2)
			w.Run(2 * time.Second)
			if s := w.mobile.peer(w.server); s.Dead || s.Paths[0].Local.L64 != netC {
				t.Errorf("outside: %+v", s)
			}
			w.finish(t, f)
		})
	}
}

// A flow that nobody answers, where echoes are filtered: it is not taken for dead.
func TestOneWayThroughFilter(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 3)
	access := near
	access.Filter = DropICMP
	w.mobile.Up(2, netB, access, roam.Infinite)
	w.mobile.Down(1)
	f := w.start(t, false)
	w.Run(time.Minute)
	if s := w.mobile.peer(w.server); s.Dead || s.State != ilnp.Established {
		t.Errorf("%+v", s)
	}
	w.finish(t, f)
	if lost := f.Sent - f.Received(); lost > 0 {
		t.Logf("lost %d of %d", lost, f.Sent)
	}
}

// Behind a firewall that lets only answers in, the correspondent learns that we
// receive there, and the session is one at both ends.
func TestOnlyAnswersComeIn(t *testing.T) {
	for _, atServer := range []bool{false, true} {
		w := newWorld(t, ilnp.Soft, 4)
		access := near
		access.Filter = OnlyAnswers
		from, to := w.mobile, w.server
		if atServer {
			from, to = to, from
			w.server.Know(w.mobile, netA)
		}
		l64 := from.attachments[0].l64
		from.Down(1)
		from.Up(1, l64, access, roam.Infinite)
		f := from.Flow(to, 10*time.Millisecond, true)
		w.Run(5 * time.Second)
		if s := to.peer(from); s.State != ilnp.Established || s.Dead {
			t.Errorf("begun by the server %v: the other end has %+v", atServer, s)
		}
		answered := f.Answered
		w.Run(time.Minute)
		if got := f.Answered - answered; got < 5900 {
			t.Errorf("begun by the server %v: %d answers in a minute", atServer, got)
		}
		f.Stop()
	}
}

// The correspondent is behind such a firewall and has begun. A soft handoff is told
// over the old path, once the correspondent misses us and asks.
func TestSoftHandoffTowardsAFirewall(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 5)
	access := near
	access.Filter = OnlyAnswers
	w.server.Down(1)
	w.server.Up(1, netS, access, roam.Infinite)
	w.server.Know(w.mobile, netA)
	f := w.server.Flow(w.mobile, 10*time.Millisecond, true)
	w.Run(5 * time.Second)
	before := w.mobile.Count(ilnp.UpdateAcked) // the server was asked by updates, too
	w.mobile.Up(2, netB, near, roam.Infinite)
	if !w.RunUntil(10*time.Second, func() bool { return w.mobile.Count(ilnp.UpdateAcked) > before }) {
		t.Error("the update was not acknowledged")
	}
	w.mobile.Down(1)
	answered := f.Answered
	w.Run(10 * time.Second)
	if got := f.Answered - answered; got < 900 {
		t.Errorf("%d answers in 10 s after the old path has gone", got)
	}
	f.Stop()
}
