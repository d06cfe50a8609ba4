package engine

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
)

const udpPort = 6740

// Over a path that drops options, our own stack's errors go in UDP, and those of
// the correspondent come in it.
func TestErrorsInUDP(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.cfg.UDPPort = udpPort
	p := e.entries[sessionKey]
	p.Encap = true
	e.entries[sessionKey] = p
	theirs := built(t)(ilnpwire.BuildEcho(e.sessionAddr(peerNID), e.sessionAddr(ourNID), ilnp.Nonce{}, true, 1, 1, nil))
	m := ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: theirs}
	packet := built(t)(ilnpwire.BuildError(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{}, m))
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorOut, Key: sessionKey, Packet: packet})
	if len(o.sent) != 1 {
		t.Fatalf("%d packets sent", len(o.sent))
	}
	if got, err := ilnpwire.ParseControl(o.sent[0], udpPort); err != nil || !got.Encapsulated || got.Nonce != ourNonce {
		t.Errorf("sent %+v, %v", got, err)
	}
	m.Quoted = built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	packet = built(t)(ilnpwire.BuildError(them, us, theirNonce, m))
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: built(t)(ilnpwire.Encapsulate(packet, udpPort))})
	if len(o.injected) != 1 {
		t.Errorf("an error in UDP did not reach our stack: %v", e.refused)
	}
}

// A host without control in UDP says that nobody listens there: that is no
// forgery, and nothing for our stack.
func TestNobodyListens(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.cfg.UDPPort = udpPort
	ours := built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	m := ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: built(t)(ilnpwire.Encapsulate(ours, udpPort))}
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: built(t)(ilnpwire.BuildError(them, us, ilnp.Nonce{}, m))})
	if len(o.injected) != 0 || len(e.refused) != 0 {
		t.Errorf("injected %d, refused %v", len(o.injected), e.refused)
	}
}

// What a router says of a path's size is remembered, and what none says our stack
// is told, as it would be by one.
func TestTooBig(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	ours := built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	m := ilnpwire.ErrorMessage{Type: ilnpwire.TypePacketTooBig, Param: 1400, Quoted: ours}
	router := us
	router.NID = 9
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: built(t)(ilnpwire.BuildError(router, us, ilnp.Nonce{}, m))})
	if e.TooBig(sessionKey) != 1400 || len(o.injected) != 1 {
		t.Errorf("remembers %d, injected %d", e.TooBig(sessionKey), len(o.injected))
	}
	e.execute(time.Now(), ilnp.TooBig{Key: sessionKey, MTU: 1280})
	if len(o.injected) != 2 {
		t.Fatalf("injected %d", len(o.injected))
	}
	p, err := ilnpwire.ParsePacket(o.injected[1])
	if err != nil {
		t.Fatal(err)
	}
	got, err := ilnpwire.ParseError(p.Payload)
	if err != nil || got.Type != ilnpwire.TypePacketTooBig || got.Param != 1280 || p.Dst != e.sessionAddr(ourNID) {
		t.Errorf("our stack sees %+v in %+v, %v", got, p, err)
	}
	// That was the size of a path, which it is to forget when there is another one.
	for range 2 {
		e.execute(time.Now(), ilnp.PathsChanged{Key: sessionKey, Why: roam.PathsAdded})
	}
	if len(o.flushed) != 1 || o.flushed[0] != e.sessionAddr(peerNID).Addr() || e.TooBig(sessionKey) != 0 {
		t.Errorf("forgotten for %v, remembers %d", o.flushed, e.TooBig(sessionKey))
	}
}
