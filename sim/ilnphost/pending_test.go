package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/xlate/decide"
)

// mute is a peer that answers no echo request, puts its nonce on every packet, and takes
// for ours the first one that it was shown: all else is another node's.
type mute struct {
	*Node
	server                *Node
	flow                  *Flow
	theirs                Nonce
	acks, probes, strange int
	takes                 bool // it acknowledges Locator Updates
}

var muteNonce = Nonce{Len: 4, Bytes: [12]byte{6, 6, 6, 1}}

func newMute(n *Network, server *Node) *mute {
	m := &mute{server: server}
	m.Node = n.AddScript("mute", mobileNID, m.receive)
	m.flow = &Flow{From: m.Node, To: server, Echo: true, key: ilnp.SessionKey{Local: mobileNID, Remote: serverNID}}
	m.Up(1, netA, near, roam.Infinite)
	return m
}

// place returns where the peer is and where it sends to.
func (m *mute) place() (own, peer roam.ILV) {
	at := m.attachments[len(m.attachments)-1]
	return roam.ILV{NID: m.nid, L64: at.l64}, roam.ILV{NID: serverNID, L64: netS}
}

// talk sends a datagram every 20 ms, for a time.
func (m *mute) talk(d time.Duration) {
	end := m.net.Now().Add(d)
	var next func()
	next = func() {
		if !m.net.Now().Before(end) {
			return
		}
		src, dst := m.place()
		m.flow.arrivals = append(m.flow.arrivals, arrival{number: m.flow.Sent, sent: m.net.Now()})
		m.put(m.attachments[len(m.attachments)-1].link, Packet{Src: src, Dst: dst, Nonce: muteNonce, Data: Datagram{Number: m.flow.Sent, Size: 100, flow: m.flow}})
		m.flow.Sent++
		m.net.After(20*time.Millisecond, next)
	}
	next()
}

// update announces where the peer is.
func (m *mute) update(t *testing.T) {
	t.Helper()
	src, dst := m.place()
	b, err := ilnpwire.BuildUpdate(src, dst, muteNonce, ilnpwire.LocatorUpdate{
		Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{{L64: src.L64, Preference: 10, Lifetime: 3600}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.put(m.attachments[len(m.attachments)-1].link, Packet{Src: src, Dst: dst, Nonce: muteNonce, Control: b})
}

func (m *mute) receive(p Packet) {
	if !m.theirs.Present() {
		m.theirs = p.Nonce
	}
	switch {
	case p.Nonce.Present() && p.Nonce != m.theirs:
		m.strange++
	case p.Control == nil:
		m.flow.Answered++
	case messageType(p) == ilnpwire.TypeLocatorUpdate:
		m.takeUpdate(p)
	case messageType(p) == ilnpwire.TypeEchoRequest:
		m.probes++
	}
}

func (m *mute) takeUpdate(p Packet) {
	q, err := ilnpwire.ParseControl(p.Control, udpPort)
	if err != nil {
		return
	}
	lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
	switch {
	case err != nil:
	case lu.Operation == ilnpwire.Acknowledgement:
		m.acks++
	case m.takes:
		if b, err := ilnpwire.BuildUpdate(p.Dst, p.Src, muteNonce, lu.Ack()); err == nil {
			m.put(m.attachments[len(m.attachments)-1].link, Packet{Src: p.Dst, Dst: p.Src, Nonce: muteNonce, Control: b})
		}
	}
}

// TestPeerThatAnswersNoEcho: it talks for ten minutes and loses nothing; its Locator
// Updates are acknowledged; it sees one nonce of ours. One that was validated moves.
func TestPeerThatAnswersNoEcho(t *testing.T) {
	for name, takes := range map[string]bool{"nor updates": false, "but updates": true} {
		t.Run(name, func(t *testing.T) { talksForLong(t, takes) })
	}
}

func talksForLong(t *testing.T, takes bool) {
	n := New(1)
	server := n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Accept: ilnp.Any})
	showTrace(t, n)
	n.Brief = true
	server.Up(1, netS, near, roam.Infinite)
	m := newMute(n, server)
	m.takes = takes
	m.talk(10 * time.Minute)
	n.Run(time.Second)
	for range 9 {
		m.update(t)
		n.Run(time.Minute)
	}
	if takes {
		m.Up(2, netB, near, roam.Infinite)
	}
	m.update(t)
	n.Run(time.Minute)
	if m.flow.Received() != m.flow.Sent || m.flow.Answered != m.flow.Sent || m.strange > 0 {
		t.Errorf("%d datagrams, %d arrived, %d answers, %d packets with another nonce of ours",
			m.flow.Sent, m.flow.Received(), m.flow.Answered, m.strange)
	}
	if m.acks != 10 {
		t.Errorf("%d acknowledgements of 10 updates", m.acks)
	}
	if m.probes > 700 {
		t.Errorf("%d probes", m.probes)
	}
	if got := server.Core().Overview(server.net.Now()).Sessions[ilnp.Established] > 0; got != takes {
		t.Errorf("validated: %t", got)
	}
}

// TestLastWrittenHasThePlace: where two sessions were validated at one locator, the entry
// written last has what comes from there without a nonce, as in the map of the programs.
// The order of a Go map would make each run of a course another one.
func TestLastWrittenHasThePlace(t *testing.T) {
	n := New(1)
	h := n.AddNode("h", ilnp.Config{NIDs: []roam.NID{serverNID}})
	entry := func(alias roam.NID) ilnp.Entry {
		return ilnp.Entry{
			Key: ilnp.SessionKey{Local: serverNID, Remote: alias}, LocalNID: serverNID, RemoteNID: mobileNID,
			RemoteNonce: Nonce{Len: 4, Bytes: [12]byte{byte(alias)}}, Accept: []roam.L64{peerNet}, Validated: []roam.L64{peerNet},
		}
	}
	in := Packet{Src: roam.ILV{NID: mobileNID, L64: peerNet}}
	for i := range 64 {
		last := roam.NID(1 + i%2)
		h.plane.upsert(entry(3 - last))
		h.plane.upsert(entry(last))
		if key := h.plane.state.Collisions[decide.CollisionKey{Local: serverNID, Remote: in.Src}]; key.Remote != last {
			t.Fatalf("it is that of %+v, want that of the alias %v", key, last)
		}
	}
}
