package engine

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
)

// TestErrorsToAPendingPeer: the Port Unreachable for a peer's first datagram bears the
// nonce of all else that goes there, not that of an entry that is preinstalled for it,
// and goes to where the datagram came from.
func TestErrorsToAPendingPeer(t *testing.T) {
	const elsewhere = there + 1<<16
	for name, encap := range map[string]bool{"option": false, "UDP": true} {
		e, o := withSession(t, ilnp.Initiated)
		e.cfg.UDPPort = udpPort
		p := e.entries[sessionKey]
		p.Preinstalled = true
		e.entries[sessionKey] = p
		theirs := built(t)(ilnpwire.BuildEcho(e.sessionAddr(peerNID), e.sessionAddr(ourNID), ilnp.Nonce{}, true, 1, 1, nil))
		packet := built(t)(ilnpwire.BuildError(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{},
			ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: theirs}))
		e.handlePlane(time.Now(), dataplane.Event{
			Kind: dataplane.ErrorOut, Link: 7, Key: sessionKey, Packet: packet, Local: us,
			Remote: roam.ILV{NID: peerNID, L64: elsewhere}, OwnNonce: wrongNonce, Encapsulated: encap,
		})
		if len(o.sent) != 1 {
			t.Fatalf("%s: %d packets sent, refused %v", name, len(o.sent), e.refused)
		}
		got, err := ilnpwire.ParseControl(o.sent[0], udpPort)
		if err != nil || got.Src != us || got.Dst != (roam.ILV{NID: peerNID, L64: elsewhere}) || got.Nonce != wrongNonce || got.Encapsulated != encap {
			t.Errorf("%s: sent %+v with nonce %x, %v", name, got, got.Nonce.Value(), err)
		}
	}
}

// TestExcessOfAPendingPeer waits here, though an entry is preinstalled for that peer, and
// is sent when the session has its own.
func TestExcessOfAPendingPeer(t *testing.T) {
	e, o := withSession(t, ilnp.Initiated)
	p := e.entries[sessionKey]
	p.Preinstalled = true
	e.entries[sessionKey] = p
	packet := built(t)(ilnpwire.BuildEcho(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{}, true, 1, 1, nil))
	ev := dataplane.Event{Kind: dataplane.Miss, Link: 7, Key: sessionKey, Packet: packet, Local: us, Remote: them, Nonce: theirNonce, OwnNonce: wrongNonce}
	e.handlePlane(time.Now(), ev)
	if len(o.resent) > 0 || len(e.excess.Packets(sessionKey)) != 1 {
		t.Fatalf("%d packets sent, %d held", len(o.resent), len(e.excess.Packets(sessionKey)))
	}
	p.Preinstalled, p.State, p.RemoteNonce = false, ilnp.Established, theirNonce
	e.cfg.Plane = &kernel{}
	e.upsert(time.Now(), p)
	e.release(time.Now(), sessionKey)
	if len(o.resent) != 1 || len(e.excess.Packets(sessionKey)) != 0 {
		t.Errorf("%d packets sent, %d held", len(o.resent), len(e.excess.Packets(sessionKey)))
	}
}
