package engine

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/loop"
	"roam/tcpassist"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// kernel is a data plane that knows connections only. With begun and done, a list takes
// as long as the test wants.
type kernel struct {
	Plane
	all         []dataplane.Connection
	begun, done chan struct{}
}

func (k *kernel) Upsert(ilnp.Entry, dataplane.Turn) error { return nil }
func (k *kernel) Delete(ilnp.SessionKey) error            { return nil }

func (k *kernel) Connections(roam.L64) ([]dataplane.Connection, error) {
	if k.begun != nil {
		k.begun <- struct{}{}
		<-k.done
	}
	return k.all, nil
}

// session is an end of a connection: a node's session address, and a port.
func session(e *Engine, n roam.NID, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(e.sessionAddr(n).Addr(), port)
}

// stalledTo is a connection with a node, whose time-out was doubled once.
func stalledTo(e *Engine, n roam.NID, port uint16) dataplane.Connection {
	return dataplane.Connection{
		Local: session(e, ourNID, port), Remote: session(e, n, 443), Open: true, Next: 1000, Unacked: 900, Wanted: 77, Arrived: 5, Backoff: 1,
	}
}

// assistNow is assistTCP with a list that is made at once, if one is wanted.
func (e *Engine) assistNow(t *testing.T, now time.Time) (wanted bool) {
	t.Helper()
	e.assist.HandleTimeout(now)
	o, _ := e.assist.Poll()
	if _, wanted = o.(tcpassist.ListConnections); wanted {
		all, err := e.cfg.Plane.Connections(e.cfg.SessionPrefix)
		e.listed(now, list{all, err})
	}
	return wanted
}

// resyncOf reads the conntrack resync in a packet.
func resyncOf(t *testing.T, packet []byte) ilnpwire.Resync {
	t.Helper()
	c, err := ip6.Walk(packet)
	if err != nil {
		t.Fatal(err)
	}
	o, err := ilnpwire.ParseResync(packet[c.UpperOffset:c.End])
	if err != nil || c.Header.Src != roam.ILV.Addr(roam.ILV{L64: roam.DefaultSessionPrefix, NID: ourNID}) {
		t.Fatalf("from %v: %v", c.Header.Src, err)
	}
	return o
}

// A session that moves has its connections listed, by whichever alias they have; they
// are woken, and where nothing arrives the next list has them shown to firewalls, with
// the session's nonce.
func TestConnectionsAreAssisted(t *testing.T) {
	const name = peerNID + 7
	for which, c := range map[string]struct {
		state ilnp.SessionState
		show  bool
		roam  bool
		want  int // resyncs
	}{
		"Roam":         {ilnp.Established, true, true, 1},
		"another one":  {ilnp.Established, true, false, 0},
		"turned off":   {ilnp.Established, false, true, 0},
		"plain":        {ilnp.Plain, true, true, 0},
		"not answered": {ilnp.Initiated, true, true, 0},
	} {
		e, o := withSession(t, c.state)
		e.cfg.Show, e.runsRoam = c.show, func(k ilnp.SessionKey) bool { return c.roam && k == sessionKey }
		p := e.entries[sessionKey]
		p.Named, p.RemoteNID = true, name
		e.keep(p)
		e.cfg.Plane = &kernel{all: []dataplane.Connection{stalledTo(e, name, 4001), stalledTo(e, peerNID+1, 4002)}}
		now := time.Now()
		e.execute(time.Now(), ilnp.PathsChanged{Key: sessionKey, Why: roam.PathsAdded})
		if !e.assistNow(t, now) || len(o.injected) != 1 {
			t.Fatalf("%s: %d packets for our stack", which, len(o.injected))
		}
		if port := binary.BigEndian.Uint16(o.injected[0][ip6.HeaderLen+8+ip6.HeaderLen:]); port != 4001 {
			t.Errorf("%s: told the connection from port %d", which, port)
		}
		next, ok := e.assist.PollTimeout()
		if ok {
			e.assistNow(t, next)
		}
		if len(o.resent) != c.want {
			t.Errorf("%s: %d resyncs, want %d", which, len(o.resent), c.want)
		}
		for _, b := range o.resent {
			if got := resyncOf(t, b); got != (ilnpwire.Resync{From: 4001, To: 443, Seq: 999, Nonce: ourNonce}) {
				t.Errorf("%s: sent %+v", which, got)
			}
		}
	}
}

// A session without an entry sends nothing: its connections are left alone.
func TestNoEntryNoAssistance(t *testing.T) {
	e, _ := withSession(t, ilnp.Established)
	e.cfg.Plane = &kernel{}
	e.execute(time.Now(), ilnp.PathsChanged{Key: ilnp.SessionKey{Local: ourNID, Remote: peerNID + 1}, Why: roam.PathsAdded})
	if e.assistNow(t, time.Now()) {
		t.Error("a list was made")
	}
}

// A conntrack resync counts with the nonce of the session only, and is answered at our
// own sequence number; its answer ends the handshake.
func TestResyncsCountWithTheNonce(t *testing.T) {
	for name, c := range map[string]struct {
		resync           ilnpwire.Resync
		answers, ours    int
		refused, counted bool
	}{
		"a resync":      {ilnpwire.Resync{From: 443, To: 4001, Seq: 500, Nonce: theirNonce}, 1, 2, false, false},
		"an answer":     {ilnpwire.Resync{From: 443, To: 4001, Seq: 500, Answer: true, Nonce: theirNonce}, 0, 2, false, true},
		"our own nonce": {ilnpwire.Resync{From: 443, To: 4001, Seq: 500, Nonce: ourNonce}, 0, 0, true, false},
	} {
		e, o := withSession(t, ilnp.Established)
		k := &kernel{all: []dataplane.Connection{stalledTo(e, peerNID, 4001)}}
		e.cfg.Plane = k
		if c.counted { // it has sent one
			now := time.Now()
			e.execute(time.Now(), ilnp.PathsChanged{Key: sessionKey, Why: roam.PathsAdded})
			e.assistNow(t, now)
			next, _ := e.assist.PollTimeout()
			e.assistNow(t, next)
			o.resent, o.injected = nil, nil
		}
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Control, Link: 7, Key: sessionKey, Packet: built(t)(c.resync.Build(them, us))})
		e.assistNow(t, time.Now())
		if len(o.resent) != c.answers || len(o.injected) != c.ours || (len(e.refused) == 1) != c.refused || (e.Opened(sessionKey) == 1) != c.counted {
			t.Errorf("%s: %d answers, %d to our stack, refused %v, %d opened", name, len(o.resent), len(o.injected), e.refused, e.Opened(sessionKey))
		}
		for _, b := range o.resent {
			if got := resyncOf(t, b); got != (ilnpwire.Resync{From: 4001, To: 443, Seq: 999, Ack: 501, Answer: true, Nonce: ourNonce}) {
				t.Errorf("%s: answer %+v", name, got)
			}
		}
	}
}

// A list that takes its time holds nothing up, no timer runs for it, and a session that
// ends meanwhile is not woken.
func TestNothingWaitsForAList(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	k := &kernel{all: []dataplane.Connection{stalledTo(e, peerNID, 4001)}, begun: make(chan struct{}), done: make(chan struct{})}
	e.cfg.Plane = k
	change := func() { e.execute(time.Now(), ilnp.PathsChanged{Key: sessionKey, Why: roam.PathsAdded}) }
	change()
	e.assistTCP(time.Now())
	<-k.begun
	change()
	e.assistTCP(time.Now()) // no second list, or the test would stand still
	e.loop.Add(&loop.Part{Machines: []loop.Machine{hostMachine{e}}, Late: []loop.Machine{e.machine()}})
	if at, armed := e.loop.Next(); armed && !at.After(time.Now()) {
		t.Error("the engine spins while a list is made")
	}
	k.done <- struct{}{}
	e.listed(time.Now(), <-e.lists)
	if len(o.injected) != 1 {
		t.Errorf("told %d times, want once", len(o.injected))
	}
	<-k.begun
	e.execute(time.Now(), ilnp.Delete{Key: sessionKey})
	k.done <- struct{}{}
	e.listed(time.Now(), <-e.lists)
	if len(o.injected) != 1 {
		t.Error("a session that has ended was told")
	}
}
