package engine

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	ilnpwire "roam/wire/ilnp"
)

// chance is a source of randomness that repeats itself.
type chance struct{ *rand.Rand }

func (c chance) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c.Uint32())
	}
	return len(b), nil
}

// attached is an engine whose host is in a network and knows a correspondent, and
// the first packet to that one.
func attached(t *testing.T, p *table, onEvent func(ilnp.Event, *Engine)) (*Engine, *outside, []byte) {
	t.Helper()
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{ourNID}, Rand: chance{rand.New(rand.NewPCG(1, 2))}})
	if err != nil {
		t.Fatal(err)
	}
	o := &outside{}
	e := New(Config{Core: core, Plane: p, Network: o, Sender: o, SessionPrefix: roam.DefaultSessionPrefix,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), OnEvent: onEvent})
	e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: hostnet.Uplink{Link: 7, Name: "net7", Up: true, Routed: true, HasMAC: true}})
	e.handleNetwork(time.Now(), hostnet.LocatorChanged{PrefixEvent: roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 7, L64: here}, Present: true, Preferred: time.Hour}})
	core.AddPeer(time.Now(), ilnp.Peer{NID: peerNID, Locators: []ilnp.RemoteLocator{{L64: there, Lifetime: roam.Infinite}}})
	e.drain(time.Now())
	return e, o, built(t)(ilnpwire.BuildEcho(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{}, true, 1, 1, nil))
}

// TestFirstPacketGoesFirst: the entry, then the packet that waits for it, then
// probes; people are told when all that is done.
func TestFirstPacketGoesFirst(t *testing.T) {
	p := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}
	var told []ilnp.EventKind
	var o *outside
	e, o, first := attached(t, p, func(ev ilnp.Event, _ *Engine) {
		told = append(told, ev.Kind)
		if ev.Kind == ilnp.SessionStarted && (p.writes == 0 || len(o.resent) == 0 || len(o.sent) == 0) {
			t.Errorf("told with %d entries written, %d packets and %d probes sent", p.writes, len(o.resent), len(o.sent))
		}
	})
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(time.Now())
	if !slices.Contains(told, ilnp.SessionStarted) {
		t.Errorf("told of %v only", told)
	}
}

// TestNoRoomForASession: a packet whose session has no entry is not retransmitted, for
// the data plane would hand it over once more, and so on without end. The next
// packet tries again.
func TestNoRoomForASession(t *testing.T) {
	p := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry), full: true}
	e, o, first := attached(t, p, nil)
	var told bytes.Buffer
	e.cfg.Log = slog.New(slog.NewTextHandler(&told, nil))
	for range 2 {
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: bytes.Clone(first)})
		e.drain(time.Now())
	}
	if len(o.resent) != 0 || len(e.held.Packets(sessionKey)) != 0 || e.refused[noRoom] != 2 {
		t.Errorf("%d packets retransmitted, %d kept, %d counted, want 0, 0, 2", len(o.resent), len(e.held.Packets(sessionKey)), e.refused[noRoom])
	}
	if n := strings.Count(told.String(), "cannot write session"); n != 1 {
		t.Errorf("told %d times of a full table, want once", n)
	}
	p.full = false
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(time.Now())
	if len(o.resent) != 1 || len(p.entries) != 1 {
		t.Errorf("with room: %d packets retransmitted, %d entries, want 1, 1", len(o.resent), len(p.entries))
	}
}
