package engine

import (
	"bytes"
	"testing"
	"time"

	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// A packet that has left by a preinstalled entry is kept until its nonce is known to
// be understood, and leaves again when it is not.
func TestFirstPacketIsKept(t *testing.T) {
	for _, c := range []struct {
		was, becomes ilnp.SessionState
		kept, again  int
	}{
		{ilnp.Initiated, ilnp.Plain, 1, 1},
		{ilnp.Initiated, ilnp.Established, 1, 0},
		{ilnp.Plain, ilnp.Plain, 0, 0},
		{ilnp.Established, ilnp.Established, 0, 0}, // the answer was told before it
	} {
		e, o := withSession(t, c.was)
		e.cfg.Plane = &table{entries: map[ilnp.SessionKey]ilnp.Entry{}}
		first := built(t)(ilnpwire.BuildEcho(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{}, true, 1, 1, nil))
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.First, Key: sessionKey, Packet: bytes.Clone(first)})
		if got := len(e.held.Packets(sessionKey)); got != c.kept || len(o.resent) != 0 {
			t.Errorf("%v: %d packets kept, %d retransmitted at once, want %d, 0", c.was, got, len(o.resent), c.kept)
		}
		p := e.entries[sessionKey]
		p.State = c.becomes
		e.upsert(time.Now(), p)
		e.release(time.Now(), sessionKey)
		if len(o.resent) != c.again || c.again > 0 && !bytes.Equal(o.resent[0], first) || len(e.held.Packets(sessionKey)) != 0 {
			t.Errorf("%v becomes %v: %d packets retransmitted, want %d", c.was, c.becomes, len(o.resent), c.again)
		}
	}
}

// What the data plane has retransmitted itself does not leave a second time; what else
// is kept does.
func TestRetriedIsNotSentAgain(t *testing.T) {
	e, o := withSession(t, ilnp.Initiated)
	e.cfg.Plane = &table{entries: map[ilnp.SessionKey]ilnp.Entry{}}
	segment := func(port byte) []byte {
		b := make([]byte, ip6.HeaderLen+20)
		own, peer := e.sessionAddr(ourNID), e.sessionAddr(peerNID)
		h := ip6.Header{PayloadLen: 20, NextHeader: ip6.TCP, HopLimit: 64, Src: own.Addr(), Dst: peer.Addr()}
		built(t)(h.AppendTo(b[:0]))
		b[ip6.HeaderLen+1], b[ip6.HeaderLen+12] = port, 5<<4
		return b
	}
	for port := range byte(3) {
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.First, Key: sessionKey, Packet: segment(port)})
	}
	wire := segment(1)
	copy(wire[8:], "other addresses, as on the wire.")
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Retried, Key: sessionKey, Packet: wire})
	e.release(time.Now(), sessionKey)
	if len(o.resent) != 2 || o.resent[0][ip6.HeaderLen+1] != 0 || o.resent[1][ip6.HeaderLen+1] != 2 || e.held.Len() != 2 {
		t.Errorf("retransmitted %x, %d kept", o.resent, e.held.Len())
	}
}
