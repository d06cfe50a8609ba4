package engine

import (
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// proving is an engine whose host and peer have each other's key, and the core of that peer.
type proving struct {
	*Engine
	out  *outside
	peer *ilnp.Core
	now  time.Time
	t    *testing.T
}

// newProving returns one; listed: this host knows where the peer is, or else the peer where this host is.
func newProving(t *testing.T, p Plane, listed bool) proving {
	t.Helper()
	own, its := keyOf(t, 1), keyOf(t, 2)
	core, o, now := coreWith(t, ourNID, own), &outside{}, time.Now()
	e := New(Config{Core: core, Plane: p, Network: o, Sender: o, SessionPrefix: roam.DefaultSessionPrefix, NID: ourNID,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	at := roam.LinkLocator{Link: 7, L64: here}
	uplink := hostnet.Uplink{Link: 7, Name: "net7", Up: true, Routed: true, HasMAC: true}
	e.handleNetwork(now, hostnet.UplinkChanged{Uplink: uplink})
	prefix := roam.PrefixEvent{LinkLocator: at, Present: true, Preferred: time.Hour}
	e.handleNetwork(now, hostnet.LocatorChanged{PrefixEvent: prefix})
	peer := coreWith(t, peerNID, its)
	at = roam.LinkLocator{Link: 1, L64: there}
	peer.HandleLocator(now, roam.PrefixEvent{LinkLocator: at, Present: true, Preferred: roam.Infinite})
	secret, err := own.Shared(its.Public)
	if err != nil {
		t.Fatal(err)
	}
	them := ilnp.Peer{NID: peerNID, Secret: secret, Public: its.Public}
	us := ilnp.Peer{NID: ourNID, Secret: secret, Public: own.Public}
	if listed {
		them.Locators = []ilnp.RemoteLocator{{L64: there, Lifetime: roam.Infinite}}
	} else {
		us.Locators = []ilnp.RemoteLocator{{L64: here, Lifetime: roam.Infinite}}
	}
	core.AddPeer(now, them)
	peer.AddPeer(now, us)
	e.drain(now)
	x := proving{e, o, peer, now, t}
	x.peerSends()
	return x
}

func keyOf(t *testing.T, seed uint64) *nidkey.Key {
	t.Helper()
	var random [nidkey.KeyLen]byte
	_, _ = chance{rand.New(rand.NewPCG(seed, 77))}.Read(random[:])
	k, err := nidkey.Ephemeral(random)
	if err != nil {
		t.Fatal(err)
	}
	return &k
}

func coreWith(t *testing.T, nid roam.NID, key *nidkey.Key) *ilnp.Core {
	t.Helper()
	random := chance{rand.New(rand.NewPCG(uint64(nid), 2))}
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{nid}, Rand: random, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// miss hands over the first packet of a local program to the peer.
func (x proving) miss() {
	x.t.Helper()
	first := built(x.t)(ilnpwire.BuildEcho(x.sessionAddr(ourNID), x.sessionAddr(peerNID), ilnp.Nonce{}, true, 1, 1, nil))
	x.see(dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
}

func (x proving) see(ev dataplane.Event) {
	x.handlePlane(x.now, ev)
	x.drain(x.now)
}

// peerSends takes what the peer sends.
func (x proving) peerSends() (list [][]byte) {
	for out, ok := x.peer.Poll(); ok; out, ok = x.peer.Poll() {
		if tr, is := out.(ilnp.Transmit); is {
			list = append(list, tr.Packet)
		}
	}
	return list
}

// toPeer delivers what the engine has sent.
func (x proving) toPeer() {
	sent := x.out.sent
	x.out.sent = nil
	for _, b := range sent {
		q := x.parsed(b)
		if q.Type != ilnpwire.TypeEchoRequest {
			x.peer.HandlePacket(x.now, 1, b)
			continue
		}
		x.peer.HandleObservation(x.now, ilnp.Observation{
			Trigger: ilnp.SeenPending, Key: ilnp.SessionKey{Local: peerNID, Remote: ourNID}, LocalNID: peerNID,
			Local: roam.LinkLocator{Link: 1, L64: there}, Remote: us, Nonce: q.Nonce, OwnNonce: theirNonce,
			Bytes: len(b), Packets: 1, Found: ilnp.FoundProbe,
		})
	}
}

func (x proving) parsed(b []byte) ilnpwire.Packet {
	x.t.Helper()
	q, err := ilnpwire.ParseControl(b, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	return q
}

// event is how the data plane hands over a packet of the peer.
func (x proving) event(b []byte) dataplane.Event {
	q := x.parsed(b)
	ev := dataplane.Event{
		Kind: dataplane.Control, Link: 7, Key: sessionKey, Local: us, Remote: them, Nonce: q.Nonce, OwnNonce: ourNonce,
		Packet: b, Bytes: len(b), Packets: 1,
	}
	if q.Proof == nil && (q.Type == ilnpwire.TypeEchoRequest || q.Type == ilnpwire.TypeEchoReply) {
		ev.Kind = dataplane.PendingPeer
	}
	return ev
}

// TestPolicyOfASessionThatProves: the offer leaves before the session has an entry. An obstructed path of it is noted
// as the session's all the same, and not for good as that of a node without one. So is a path which is an exception.
func TestPolicyOfASessionThatProves(t *testing.T) {
	for name, rules := range map[string]*rulebook{
		"obstructed": {to: map[roam.L64]bool{there: true}},
		"exception":  {all: map[roam.L64]bool{here: true}, spared: map[roam.L64]bool{there: true}},
	} {
		p := &book{table: table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}, ever: make(map[ilnp.Path]bool)}
		x := newProving(t, p, true)
		x.cfg.Policy = rules
		x.handleNetwork(x.now, hostnet.PolicyChanged{Armed: true})
		x.drain(x.now)
		x.miss()
		if len(x.policy.unvalidated) > 0 || len(x.policy.blocked)+len(x.policy.free) != 1 {
			t.Errorf("%s: of nodes without a session %v; of sessions %v, %v", name,
				x.policy.unvalidated, x.policy.blocked, x.policy.free)
		}
		x.core.RemovePeer(x.now, peerNID)
		x.policy.writeAt = time.Time{}
		x.drain(x.now)
		if len(x.policy.unvalidated)+len(x.policy.blocked)+len(x.policy.free) > 0 {
			t.Errorf("%s: something is kept of a session that has ended: %v", name, p.obstructed)
		}
	}
}

// flooded is a data plane whose ring of pending peers never runs empty.
type flooded struct {
	table
	unvalidated chan dataplane.Event
	out         *outside
	sent        int // when it was first asked
	asked       bool
}

func (p *flooded) Unvalidated() <-chan dataplane.Event { return p.unvalidated }

func (p *flooded) IsRead(c <-chan dataplane.Event) bool {
	if c != (<-chan dataplane.Event)(p.unvalidated) {
		return true
	}
	if !p.asked {
		p.asked, p.sent = true, len(p.out.sent)
	}
	return false
}

// TestConfirmationUnderFlood: it leaves although the ring of pending peers never runs empty, and not before what the
// peer has sent was looked for: that would be overtaken by what the peer sends next.
func TestConfirmationUnderFlood(t *testing.T) {
	p := &flooded{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}, unvalidated: make(chan dataplane.Event, 64)}
	x := newProving(t, p, true)
	p.out = x.out
	x.miss()
	answered := false
	for range 6 {
		x.toPeer()
		for _, b := range x.peerSends() {
			q := x.parsed(b)
			p.asked, x.out.sent = false, nil
			x.see(x.event(b))
			if q.Proof == nil || q.Proof.Step != ilnpwire.ProofAnswer {
				continue
			}
			answered = true
			if !p.asked || p.sent != 0 || x.parsed(x.out.sent[0]).Proof == nil {
				t.Errorf("looked for packets: %t, when %d packets had left", p.asked, p.sent)
			}
		}
	}
	if !answered {
		t.Error("no answer has come")
	}
}

// TestAdmitInOrder: packets of a peer that an earlier Admit, of another peer, has met and left come before later ones.
func TestAdmitInOrder(t *testing.T) {
	for _, left := range []int{0, 3} {
		p := &slowly{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}, unvalidated: make(chan dataplane.Event, 64)}
		x := newProving(t, p, false)
		x.peer.HandleObservation(x.now, ilnp.Observation{
			Trigger: ilnp.SeenMiss, Key: ilnp.SessionKey{Local: peerNID, Remote: ourNID}, LocalNID: peerNID,
		})
		for _, b := range x.peerSends() {
			x.see(x.event(b))
		}
		for _, b := range x.out.sent { // a challenge is among it
			if x.parsed(b).Proof != nil {
				x.peer.HandlePacket(x.now, 1, b)
			}
		}
		var all []dataplane.Event
		for _, b := range x.peerSends() {
			all = append(all, x.event(b))
		}
		if len(all) != 1 {
			t.Fatalf("the peer answers the challenge by %d packets", len(all))
		}
		want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
		for i := range want {
			all = append(all, x.event(built(t)(ilnpwire.BuildEcho(them, us, all[0].Nonce, false, 1, uint16(i), nil))))
		}
		x.later = append(x.later, all[:left]...)
		for _, ev := range all[left:] {
			p.unvalidated <- ev
		}
		for len(p.unvalidated) > 0 || len(x.later) > 0 {
			for range len(x.later) { // as the loop does
				leftover{x.Engine}.HandleNext(x.now)
				x.drain(x.now)
			}
			if len(p.unvalidated) > 0 {
				x.see(<-p.unvalidated)
			}
		}
		var got []int
		for _, b := range x.out.injected {
			got = append(got, int(binary.BigEndian.Uint16(b[len(b)-2:])))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %d left: delivered %v", left, got)
		}
	}
}
