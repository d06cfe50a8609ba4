package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
)

// slowly is a data plane whose ring of pending peers is read by a thread that has to wait for
// a processor.
type slowly struct {
	table
	unvalidated chan dataplane.Event
	left        []dataplane.Event // in the ring
	during      []dataplane.Event // come while an entry is written
	unheard     int               // of these, when programs see the entry
}

func (p *slowly) Unvalidated() <-chan dataplane.Event { return p.unvalidated }

func (p *slowly) IsRead(c <-chan dataplane.Event) bool {
	if c != (<-chan dataplane.Event)(p.unvalidated) {
		return true
	}
	if len(p.left) == 0 {
		return len(p.unvalidated) == 0
	}
	p.unvalidated <- p.left[0]
	p.left = p.left[1:]
	return false
}

// numberedEvent is a packet of a pending peer.
func numberedEvent(t *testing.T, nid roam.NID, seq uint16) dataplane.Event {
	local, remote := roam.ILV{L64: here, NID: ourNID}, roam.ILV{L64: there, NID: nid}
	packet := built(t)(ilnpwire.BuildEcho(remote, local, theirNonce, false, 1, seq, nil))
	return dataplane.Event{Kind: dataplane.PendingPeer, Local: local, Remote: remote, Nonce: theirNonce, Packet: packet}
}

// Upsert is that of a data plane that packets reach while it writes an entry.
func (p *slowly) Upsert(entry ilnp.Entry, turn dataplane.Turn) error {
	p.left, p.during = p.during, nil
	turn.Before()
	p.unheard = len(p.left) + len(p.unvalidated)
	return p.table.Upsert(entry, dataplane.Turn{})
}

// TestLastLook: what comes between the admission of a pending peer and its entry is delivered before the programs see
// that: packets that come later would overtake it. Only the first entry waits, and that of another session does not.
func TestLastLook(t *testing.T) {
	const another = peerNID + 1
	who := ilnp.Pending{Local: ourNID, Remote: roam.ILV{L64: there, NID: peerNID}, Nonce: theirNonce}
	for name, c := range map[string]struct {
		key       ilnp.SessionKey
		delivered int
	}{
		"its entry":             {sessionKey, 3},
		"another one's":         {ilnp.SessionKey{Local: ourNID, Remote: another}, 1},
		"its second, then none": {sessionKey, 3},
	} {
		e, o := withSession(t, ilnp.Established)
		p := &slowly{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}, unvalidated: make(chan dataplane.Event, 16)}
		e.cfg.Plane = p
		first := numberedEvent(t, peerNID, 0)
		e.holdPending(time.Now(), &first)
		e.admit(ilnp.Admit{Pending: who, Key: sessionKey})
		p.during = []dataplane.Event{numberedEvent(t, peerNID, 1), numberedEvent(t, another, 9), numberedEvent(t, peerNID, 2)}
		entry := e.entries[sessionKey]
		entry.Key = c.key
		e.upsert(time.Now(), entry)
		if want := 3 - 3*min(c.delivered-1, 1); len(o.injected) != c.delivered || p.unheard != want {
			t.Errorf("%s: %d packets delivered, want %d; %d left, want %d", name, len(o.injected), c.delivered, p.unheard, want)
		}
		for i, b := range o.injected {
			if seq := binary.BigEndian.Uint16(b[len(b)-2:]); int(seq) != i {
				t.Errorf("%s: packet %d is number %d", name, i, seq)
			}
		}
		if name != "its second, then none" {
			continue
		}
		p.during = []dataplane.Event{numberedEvent(t, peerNID, 3)}
		if e.upsert(time.Now(), entry); len(o.injected) != 3 || p.unheard != 1 {
			t.Errorf("the second entry: %d packets delivered, %d left", len(o.injected), p.unheard)
		}
	}
}

// When a pending peer is admitted, what is still on its way to the daemon is delivered
// before the session has an entry, in order; events of others wait, in theirs.
func TestAdmitDeliversWhatIsOnItsWay(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	wire := func(nid roam.NID, seq uint16) dataplane.Event { return numberedEvent(t, nid, seq) }
	p := &slowly{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}, unvalidated: make(chan dataplane.Event, 16)}
	e.cfg.Plane = p
	const another = peerNID + 1
	first := wire(peerNID, 0)
	e.holdPending(time.Now(), &first)
	p.unvalidated <- wire(another, 100)
	p.unvalidated <- wire(peerNID, 1)
	p.left = []dataplane.Event{wire(peerNID, 2), wire(another, 101), wire(peerNID, 3)}
	who := ilnp.Pending{Local: ourNID, Remote: roam.ILV{L64: there, NID: peerNID}, Nonce: theirNonce}
	began := time.Now()
	e.admit(ilnp.Admit{Pending: who, Key: sessionKey})
	if took := time.Since(began); took > time.Second {
		t.Errorf("the engine stood still for %v", took)
	}
	if len(o.injected) != 4 {
		t.Fatalf("%d packets delivered", len(o.injected))
	}
	for i, b := range o.injected {
		if seq := binary.BigEndian.Uint16(b[len(b)-2:]); int(seq) != i {
			t.Errorf("packet %d is number %d", i, seq)
		}
	}
	if len(e.later) != 2 || e.later[0].Remote.NID != another || e.later[1].Remote.NID != another {
		t.Errorf("events of others: %v", e.later)
	}
}

// TestHeldProbeIsAnswered: at once, with the nonce that its sender is answered with; it is
// not held, but all else is.
func TestHeldProbeIsAnswered(t *testing.T) {
	for name, size := range map[string]int{"probe": 16, "ping": 56} {
		e, o := withSession(t, ilnp.Established)
		packet := built(t)(ilnpwire.BuildEcho(them, us, wrongNonce, true, 3, 4, make([]byte, size)))
		ev := dataplane.Event{
			Kind: dataplane.OtherNonce, Link: 7, Local: us, Remote: them, Nonce: wrongNonce, OwnNonce: ourNonce,
			Packet: packet, Bytes: len(packet),
		}
		e.handlePlane(time.Now(), ev)
		held := len(e.pending.Take(ilnp.Pending{Local: ourNID, Remote: them, Nonce: wrongNonce}))
		var got ilnpwire.Packet
		if len(o.sent) == 1 {
			got, _ = ilnpwire.ParseControl(o.sent[0], 0)
		}
		answered := got.Type == ilnpwire.TypeEchoReply && got.Src == us && got.Dst == them && got.Nonce == ourNonce
		if answered != (size == 16) || held != map[bool]int{true: 0, false: 1}[answered] {
			t.Errorf("%s: sent %d packets, %+v; %d held", name, len(o.sent), got, held)
		}
	}
}

// TestHeldProbeFromASecondLink: while a pending peer is about to be validated where it was
// first seen, its probe from another link waits, as the answer would have another nonce.
func TestHeldProbeFromASecondLink(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.core.AddPeer(time.Now(), ilnp.Peer{NID: peerNID, Anywhere: true})
	for i, from := range []roam.ILV{them, {NID: peerNID, L64: there + 1}} {
		packet := built(t)(ilnpwire.BuildEcho(from, us, wrongNonce, true, 3, 4, make([]byte, 16)))
		e.handlePlane(time.Now(), dataplane.Event{
			Kind: dataplane.PendingPeer, Link: 7, Local: us, Remote: from, Nonce: wrongNonce, Key: sessionKey,
			OwnNonce: ilnp.Nonce{Len: 4, Bytes: [12]byte{byte(i + 1)}}, Packet: packet, Bytes: len(packet),
		})
		held := len(e.pending.Take(ilnp.Pending{Local: ourNID, Remote: from, Nonce: wrongNonce}))
		if len(o.sent) != 1 || held != i {
			t.Errorf("link %d: %d answers, %d held", i+1, len(o.sent), held)
		}
	}
}

// forgetful notes which pending peers the data plane has forgotten, and what was delivered
// by then.
type forgetful struct {
	slowly
	out       *outside
	delivered []int
}

func (p *forgetful) Delete(k ilnp.SessionKey) error {
	if k == sessionKey {
		p.delivered = append(p.delivered, len(p.out.injected))
	}
	return nil
}

// TestAdmittedIsAnswered: before the packets of a pending peer are delivered, the data plane
// forgets which other one it answers under that alias, unless there is an entry.
func TestAdmittedIsAnswered(t *testing.T) {
	for _, made := range []bool{false, true} {
		e, o := withSession(t, ilnp.Established)
		if !made {
			delete(e.entries, sessionKey)
		}
		p := &forgetful{slowly: slowly{unvalidated: make(chan dataplane.Event)}, out: o}
		e.cfg.Plane = p
		packet := built(t)(ilnpwire.BuildEcho(them, us, theirNonce, true, 1, 1, nil))
		ev := dataplane.Event{Kind: dataplane.PendingPeer, Local: us, Remote: them, Nonce: theirNonce, Packet: packet}
		e.holdPending(time.Now(), &ev)
		e.admit(ilnp.Admit{Pending: ilnp.Pending{Local: ourNID, Remote: them, Nonce: theirNonce}, Key: sessionKey})
		if first := len(p.delivered) == 1 && p.delivered[0] == 0; first == made || len(o.injected) != 1 {
			t.Errorf("with an entry %t: forgotten behind %v packets of %d", made, p.delivered, len(o.injected))
		}
	}
}
