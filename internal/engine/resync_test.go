package engine

import (
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// kernel is a data plane that knows connections only.
type kernel struct {
	Plane
	list []dataplane.Connection
}

func (k *kernel) Upsert(ilnp.Entry) error                              { return nil }
func (k *kernel) Connections(roam.L64) ([]dataplane.Connection, error) { return k.list, nil }

// session is an end of a connection: a node's session address, and a port.
func session(e *Engine, n roam.NID, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(e.sessionAddr(n).Addr(), port)
}

// resyncIn reads the conntrack resync in a packet, if it is one.
func resyncIn(t *testing.T, packet []byte) (o ilnpwire.Resync, seen bool) {
	t.Helper()
	c, err := ip6.Walk(packet)
	if err != nil {
		t.Fatal(err)
	}
	o, err = ilnpwire.ParseResync(packet[c.UpperOffset:c.End])
	return o, err == nil
}

// After a move, a connection on which nothing arrives is shown to firewalls, some
// times; one that lives is not, nor one after it has come to life.
func TestSilentConnectionsAreShown(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	k := &kernel{list: []dataplane.Connection{
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4000), Open: true, Next: 1000, Wanted: 77, Arrived: 5},
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4001), Open: true, Arrived: 5},
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4002), Arrived: 5}, // being set up
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID+1, 4000), Open: true, Arrived: 5},
	}}
	e.cfg.Plane = k
	p := e.entries[sessionKey]
	p.Seq = 1
	e.entries[sessionKey] = p
	p.Paths = append([]ilnp.Path{{Local: roam.LinkLocator{Link: 8, L64: there}, Remote: there}}, p.Paths...)
	e.upsert(p)
	now := time.Now()
	e.lookNow(now)
	for i := range 10 {
		k.list[1].Arrived++
		if now = e.opener.due(); now.IsZero() {
			break
		}
		e.lookNow(now)
		if i == 0 && len(o.resent) != 1 {
			t.Fatalf("%d packets after the first look, want one", len(o.resent))
		}
	}
	if got, seen := resyncIn(t, o.resent[0]); !seen || got != (ilnpwire.Resync{From: 22, To: 4000, Seq: 999, Nonce: ourNonce}) {
		t.Errorf("shown: %+v", got)
	}
	if len(o.resent) != openTries || len(e.opener.watched) != 0 {
		t.Errorf("shown %d times, want %d; still watched: %d", len(o.resent), openTries, len(e.opener.watched))
	}
	// The same once more, and it comes to life by the first one.
	o.resent = nil
	p.Paths = p.Paths[1:]
	e.upsert(p)
	if len(e.opener.watched) != 0 {
		t.Error("watched for a path that was there before")
	}
	e.cfg.Show = false
	q := p
	q.Paths = append([]ilnp.Path{{Local: roam.LinkLocator{Link: 9, L64: there}, Remote: there}}, p.Paths...)
	e.upsert(q)
	if len(e.opener.watched) != 0 {
		t.Error("watched though that is turned off")
	}
	e.opener.watch(p, false)
	e.lookNow(now)
	e.lookNow(e.opener.due())
	k.list[0].Arrived++
	for now = e.opener.due(); !now.IsZero(); now = e.opener.due() {
		e.lookNow(now)
	}
	if n := len(o.resent); n != 1+openTries { // and the other one, which is silent now
		t.Errorf("shown %d times", n)
	}
}

// An opening is answered at our own sequence number, and an answer ends it; both
// make our stack send an ACK. Without the session's nonce it is nothing.
func TestResyncsAreAnswered(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.cfg.Plane = &kernel{list: []dataplane.Connection{
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4000), Open: true, Next: 1000, Wanted: 77, Unacked: 900},
	}}
	hear := func(op ilnpwire.Resync) {
		t.Helper()
		e.handlePlane(dataplane.Event{Kind: dataplane.Control, Link: 7, Key: sessionKey, Packet: built(t)(op.Build(them, us))})
		e.lookNow(time.Now())
	}
	hear(ilnpwire.Resync{From: 4000, To: 22, Seq: 500, Nonce: theirNonce})
	if len(o.resent) != 1 || len(o.injected) != 1 {
		t.Fatalf("%d answers, %d to our stack", len(o.resent), len(o.injected))
	}
	if got, _ := resyncIn(t, o.resent[0]); got != (ilnpwire.Resync{From: 22, To: 4000, Seq: 999, Ack: 501, Answer: true, Nonce: ourNonce}) {
		t.Errorf("answer: %+v", got)
	}
	hear(ilnpwire.Resync{From: 4000, To: 22, Seq: 500, Ack: 1000, Answer: true, Nonce: theirNonce})
	if len(o.resent) != 1 || len(o.injected) != 2 {
		t.Errorf("an answer made %d answers, %d to our stack", len(o.resent), len(o.injected))
	}
	if e.Opened(sessionKey) != 0 {
		t.Error("a connection that nobody watched was opened")
	}
	hear(ilnpwire.Resync{From: 4000, To: 22, Seq: 500, Nonce: ourNonce})
	hear(ilnpwire.Resync{From: 4000, To: 23, Seq: 500, Nonce: theirNonce})
	if len(o.resent) != 1 || len(o.injected) != 2 || len(e.refused) != 1 {
		t.Errorf("with a wrong nonce, or to no connection: %d answers, %d to our stack, %v", len(o.resent), len(o.injected), e.refused)
	}
}

// After an outage our stack is made to send an ACK for each connection of the
// session, and not after any other move.
func TestOutageIsAcknowledged(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.cfg.Plane = &kernel{list: []dataplane.Connection{
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4000), Open: true, Wanted: 1 << 20},
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID+1, 4000), Open: true},
	}}
	p := e.entries[sessionKey]
	paths := p.Paths
	for i, c := range []struct {
		paths []ilnp.Path
		want  int
	}{{nil, 0}, {paths, 1}, {[]ilnp.Path{{Local: roam.LinkLocator{Link: 8, L64: there}, Remote: there}}, 1}} {
		p.Seq++
		p.Paths = c.paths
		e.upsert(p)
		e.lookNow(time.Now())
		if len(o.injected) != c.want {
			t.Errorf("step %d: %d segments, want %d", i, len(o.injected), c.want)
		}
	}
	if len(o.injected) == 0 {
		t.Fatal("nothing to look at")
	}
	c, err := ip6.Walk(o.injected[0])
	if err != nil || c.Upper != ip6.TCP || ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.TCP, o.injected[0][c.UpperOffset:c.End]) != 0 {
		t.Errorf("injected %+v, %v", c, err)
	}
}

// A connection that stood still with data under way and was answered is told of,
// once for each move; an idle one is not.
func TestOpenedIsCounted(t *testing.T) {
	for unacked, want := range map[uint32]int{900: 1, 1000: 0} {
		e, _ := withSession(t, ilnp.Established)
		e.cfg.Plane = &kernel{list: []dataplane.Connection{
			{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4000), Open: true, Next: 1000, Unacked: unacked},
		}}
		e.opener.watch(e.entries[sessionKey], false)
		e.lookNow(time.Now())
		e.lookNow(e.opener.due())
		answer := ilnpwire.Resync{From: 4000, To: 22, Seq: 500, Ack: 1000, Answer: true, Nonce: theirNonce}
		for range 2 {
			e.handlePlane(dataplane.Event{Kind: dataplane.Control, Link: 7, Key: sessionKey, Packet: built(t)(answer.Build(them, us))})
			e.lookNow(time.Now())
		}
		if got := e.Opened(sessionKey); got != want {
			t.Errorf("unacknowledged from %d: %d opened, want %d", unacked, got, want)
		}
	}
}

// A connection with a correspondent that is not known to run Roam is shown to nobody:
// its stack would take the segment for one of the connection.
func TestOthersGetNoResync(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.runsRoam = func(ilnp.SessionKey) bool { return false }
	k := &kernel{list: []dataplane.Connection{
		{Local: session(e, ourNID, 22), Remote: session(e, peerNID, 4000), Open: true, Next: 1000, Wanted: 77, Arrived: 5},
	}}
	e.cfg.Plane = k
	p := e.entries[sessionKey]
	p.Seq = 1
	e.entries[sessionKey] = p
	p.Paths = append([]ilnp.Path{{Local: roam.LinkLocator{Link: 8, L64: there}, Remote: there}}, p.Paths...)
	e.upsert(p)
	for now, looks := time.Now(), 0; !now.IsZero() && looks < 20; looks++ {
		e.lookNow(now)
		now = e.opener.due()
	}
	if len(o.resent) != 0 || len(e.opener.watched) != 0 {
		t.Errorf("shown %d times, still watched: %d", len(o.resent), len(e.opener.watched))
	}
}
