package ilnp

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// pendingBench holds pending peers without a Core. Its sessions are those of its cache.
type pendingBench struct {
	*pendingPeers
	t          *testing.T
	now        time.Time
	wakes      map[*schedule]time.Time
	out        []Output
	refused    []string
	sent       []probe
	oldSince   int        // probes of sessions
	oldPaths   []Path     // of the last of these
	oldAnswers int        // which of these is answered; 0: none
	started    []*session // of pending peers
	replaced   []*session // by those
}

func newPendingBench(t *testing.T) *pendingBench {
	ca := newCache()
	at := roam.LinkLocator{Link: 1, L64: netA}
	cfg := &Config{NIDs: []roam.NID{ownNID}, Accept: Any, NonceLength: 4, UDPPort: 6740}
	h := &host{cfg: cfg, locals: []*local{{LinkLocator: at, state: Active}}, active: []roam.LinkLocator{at}}
	b := &pendingBench{t: t, now: epoch, wakes: make(map[*schedule]time.Time)}
	b.pendingPeers = &pendingPeers{
		cfg: cfg, cache: &ca, host: h,
		preinstalled: &preinstalled{entries: make(map[SessionKey]*session)}, accounts: &accounts{}, probes: make(probes), effects: b,
		byKey: make(map[Pending]*pendingPeer), byNIDs: make(map[SessionKey][]*pendingPeer),
	}
	return b
}

func (b *pendingBench) emit(o Output) { b.out = append(b.out, o) }

func (b *pendingBench) refuse(_ time.Time, _ SessionKey, reason string) {
	b.refused = append(b.refused, reason)
}

func (b *pendingBench) draw(_ time.Time, p []byte) bool {
	for i := range p {
		p[i] = byte(len(b.out) + i)
	}
	return true
}

func (b *pendingBench) arm(s *schedule, _ timer, now time.Time, d time.Duration) {
	b.wakes[s] = now.Add(d)
}

func (b *pendingBench) retire(s *schedule) { delete(b.wakes, s) }

func (b *pendingBench) sendProbe(_ time.Time, q question, pr probe) {
	t := token{byte(len(b.sent))}
	pr.from, pr.sent = q.from, b.now
	b.probes[t], *q.sent, b.sent = &pr, append(*q.sent, t), append(b.sent, pr)
}

func (b *pendingBench) probePaths(now time.Time, s *session, paths []Path) {
	b.oldSince++
	b.oldPaths = paths
	if b.oldSince == b.oldAnswers {
		s.lastNonceRx = now.Add(10 * time.Millisecond)
	}
}

func (b *pendingBench) listingFor(*session, []Path) []listed { return []listed{{netA, preferActive}} }

func (b *pendingBench) disown(_ time.Time, s *session) { s.state, s.remoteNonce = Initiated, Nonce{} }

func (b *pendingBench) tellCopied(time.Time, *session, []roam.L64) {}

func (b *pendingBench) askProof(time.Time, *pendingPeer, Nonce) {}

func (b *pendingBench) startFrom(now time.Time, k *pendingPeer, old *session) {
	if old != nil {
		b.replaced = append(b.replaced, old)
		b.cache.remove(old)
	}
	s := b.session(now, k, old)
	s.state, s.remoteNonce = Established, k.nonce
	s.remotes[0].validate()
	b.admit(now, k, s)
	b.cache.index(s)
	b.started = append(b.started, s)
}

// packet has a packet with a nonce come from a locator.
func (b *pendingBench) packet(l roam.L64, n Nonce, change ...func(*Observation)) *pendingPeer {
	o := Observation{
		Trigger: SeenPending, Key: theKey, LocalNID: ownNID, Remote: roam.ILV{NID: peerNID, L64: l}, Nonce: n,
		Local: roam.LinkLocator{Link: 1, L64: netA}, OwnNonce: Nonce{Len: 4, Bytes: [12]byte{7, 7}}, Bytes: 100,
	}
	for _, f := range change {
		f(&o)
	}
	key := b.keyOf(o)
	if k := b.byKey[key]; k != nil {
		b.receive(b.now, k, o)
	} else {
		b.open(b.now, key, o)
	}
	return b.byKey[key]
}

// answer has the last probe answered with a nonce.
func (b *pendingBench) answer(k *pendingPeer, n Nonce) {
	b.answered(b.now, k, b.sent[len(b.sent)-1], ilnpwire.Packet{Src: k.key.Remote, Nonce: n, Type: ilnpwire.TypeEchoReply})
}

// pass lets time pass, with every timer at its time.
func (b *pendingBench) pass(d time.Duration) {
	for end := b.now.Add(d); ; {
		var next *pendingPeer
		for _, k := range b.byKey {
			if at, ok := b.wakes[&k.schedule]; ok && !at.After(end) && (next == nil || at.Before(b.wakes[&next.schedule])) {
				next = k
			}
		}
		if next == nil {
			b.now = end
			return
		}
		b.now = b.wakes[&next.schedule]
		delete(b.wakes, &next.schedule)
		b.timeout(b.now, next)
	}
}

// talks has packets go both ways between the peer and a local program for so long.
func (b *pendingBench) talks(l roam.L64, n Nonce, d time.Duration) {
	for i := range int(d / time.Second) {
		b.packet(l, n, func(o *Observation) { o.Packets = i + 1 })
		b.pass(time.Second)
	}
}

func (b *pendingBench) has(o Output) bool { return slices.Contains(b.out, o) }

// TestPendingPeerWithoutAnswer: it is probed ever more rarely, in both forms, and then
// forgotten, in the data plane too; packets for it go by a preinstalled entry if there is one.
func TestPendingPeerWithoutAnswer(t *testing.T) {
	for _, preinstalled := range []bool{false, true} {
		b := newPendingBench(t)
		if preinstalled {
			b.preinstalled.entries[theKey] = &session{key: theKey}
		}
		k := b.packet(netQ, secondNonce, func(o *Observation) { o.Held = true })
		b.pass(18 * time.Second)
		if len(b.byKey) != 1 || len(b.sent) != pendingTries {
			t.Fatalf("%d probes, and %d pending peers after 18 s", len(b.sent), len(b.byKey))
		}
		udp := slices.ContainsFunc(b.sent, func(pr probe) bool { return pr.form == FormUDP })
		if b.sent[0].form != FormOption || !udp {
			t.Errorf("probes %v", b.sent)
		}
		b.pass(2 * time.Second)
		if len(b.byKey)+len(b.byNIDs)+len(b.wakes) != 0 || len(b.started) != 0 {
			t.Errorf("left are %d and %d, %d timers, %d sessions", len(b.byKey), len(b.byNIDs), len(b.wakes), len(b.started))
		}
		if !b.has(Dismiss{k.key, theKey}) || b.has(Reject{theKey}) == preinstalled || b.has(Release{theKey}) != preinstalled {
			t.Errorf("preinstalled %v: outputs %v", preinstalled, b.out)
		}
	}
}

// TestPendingPeerThatAnswers: it gets a session with the nonce of its answer, and its held
// packets are delivered. An answer with another nonce takes nothing from the packets.
func TestPendingPeerThatAnswers(t *testing.T) {
	for _, other := range []bool{false, true} {
		b := newPendingBench(t)
		k := b.packet(netQ, secondNonce, func(o *Observation) { o.Held, o.Found = true, FoundRFC6741 })
		n := secondNonce
		if other {
			n = forged
		}
		b.answer(k, n)
		if len(b.started) != 1 || len(b.byKey) != 0 {
			t.Fatalf("%d sessions, %d pending peers", len(b.started), len(b.byKey))
		}
		s := b.started[0]
		if s.remoteNonce != n || s.localNonce != k.own || s.sought != other || s.localNID != ownNID || s.remoteNID != peerNID {
			t.Errorf("nonces %v and %v, rule sought %v", s.remoteNonce, s.localNonce, s.sought)
		}
		if !b.has(Admit{k.key, s.key}) || b.has(Dismiss{k.key, theKey}) {
			t.Errorf("outputs %v", b.out)
		}
	}
}

// TestPendingPeerWithASession: where a session with its NID is in use, the old nonce
// decides: it is silent, and the node has come back, or it is another node.
func TestPendingPeerWithASession(t *testing.T) {
	for _, c := range []struct {
		name     string
		at       roam.L64 // of the pending peer; the session is validated at netP
		announce bool     // the session's peer has announced that locator
		alive    bool     // the old nonce comes again
		dead     bool     // the session is dead
		probes   int      // of the session
		replaced bool
		started  int
		refused  bool
	}{
		{name: "silent, same place", at: netP, probes: 3, replaced: true, started: 1},
		{name: "in use, same place", at: netP, alive: true, probes: 1, refused: true},
		{name: "in use, elsewhere", at: netQ, alive: true, started: 1},
		{name: "silent, at a listed place", at: netR, probes: 3, replaced: true, started: 1},
		{name: "in use, at a listed place", at: netR, alive: true, probes: 1, started: 1},
		{name: "silent, at an announced one", at: netQ, announce: true, probes: 3, replaced: true, started: 1},
		{name: "dead", at: netP, dead: true, replaced: true, started: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newPendingBench(t)
			b.cache.known[peerNID] = &correspondent{nid: peerNID, locators: remotes{{l64: netR}}}
			old := &session{
				key: theKey, localNID: ownNID, remoteNID: peerNID, state: Established, confirmed: true, owned: true, dead: c.dead,
				remoteNonce: peerNonce, remotes: remotes{{l64: netP, validated: true}}, lastNonceRx: epoch,
			}
			if c.announce {
				old.remotes = append(old.remotes, remote{l64: netQ})
			}
			b.cache.index(old)
			k := b.packet(c.at, secondNonce)
			b.pass(50 * time.Millisecond)
			b.answer(k, secondNonce)
			if c.alive {
				old.lastNonceRx = b.now.Add(time.Millisecond)
			}
			b.pass(5 * time.Second)
			if b.oldSince != c.probes || slices.Contains(b.replaced, old) != c.replaced || len(b.started) != c.started || slices.Contains(b.refused, reasonForged) != c.refused {
				t.Errorf("%d probes of the session, replaced %d, started %d, refused %v", b.oldSince, len(b.replaced), len(b.started), b.refused)
			}
			if len(b.byKey) != 0 {
				t.Error("it is still pending")
			}
		})
	}
}

// TestOldNonceIsAskedWell: whoever has proven the key of a session's peer replaces the session when the old nonce was
// silent for a time, which is asked for at every validated locator, and so often that one packet that is lost decides
// nothing: a thief could try until one is.
func TestOldNonceIsAskedWell(t *testing.T) {
	for answers, replaced := range map[int]bool{0: true, 1: false, 2: false, 3: false} {
		b := newPendingBench(t)
		b.oldAnswers = answers
		b.cache.known[peerNID] = &correspondent{nid: peerNID}
		used := Path{Local: b.host.active[0], Remote: netP}
		old := &session{
			key: theKey, localNID: ownNID, remoteNID: peerNID, state: Established, confirmed: true,
			owned: true, remoteNonce: peerNonce, lastNonceRx: epoch, entry: Entry{Paths: []Path{used}},
			agreed: &agreement{confirmed: true},
			remotes: remotes{
				{l64: netP, validated: true}, {l64: netR, validated: true}, {l64: netS},
				{l64: netC, validated: true, standing: dropped},
			},
		}
		b.cache.index(old)
		k := b.packet(netQ, secondNonce)
		k.offer = &offered{}
		since := b.now
		b.validate(b.now, k, secondNonce, 20*time.Millisecond)
		b.pass(silenceMin)
		if slices.Contains(b.replaced, old) != replaced || len(b.started) != 1 {
			t.Errorf("the %dth probe is answered: replaced %d, started %d after %v",
				answers, len(b.replaced), len(b.started), b.now.Sub(since))
		}
		if want := []Path{used, {used.Local, netR}}; !slices.Equal(b.oldPaths, want) {
			t.Errorf("asked along %v, want %v", b.oldPaths, want)
		}
	}
}

// TestForgedFirstNonceIsDisowned: where no probe has confirmed a session's nonce, the node
// that proves it elsewhere takes it.
func TestForgedFirstNonceIsDisowned(t *testing.T) {
	b := newPendingBench(t)
	s := &session{key: theKey, localNID: ownNID, remoteNID: peerNID, state: Established, remoteNonce: secondNonce, remotes: remotes{{l64: netP, validated: true}}}
	b.cache.index(s)
	o := Observation{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: roam.ILV{NID: peerNID, L64: netQ}, Nonce: secondNonce}
	b.openElsewhere(b.now, s, o)
	k := b.byKey[Pending{ownNID, o.Remote, secondNonce}]
	b.answer(k, secondNonce)
	if s.remoteNonce.Present() || s.state != Initiated || len(b.started) != 1 {
		t.Errorf("the session has the nonce %v in state %v; %d sessions more", s.remoteNonce, s.state, len(b.started))
	}
}

// TestPendingPeerBySynAck: an acknowledged SYN-ACK validates a peer at the locator that its
// record names; at another one it causes a Locator Update at once, and three of those
// acknowledged as they were sent validate it.
func TestPendingPeerBySynAck(t *testing.T) {
	for _, place := range []roam.L64{netP, netQ} {
		b := newPendingBench(t)
		b.cache.known[peerNID] = &correspondent{nid: peerNID, locators: remotes{{l64: netP}}}
		b.cfg.UDPPort = 0
		k := b.packet(place, secondNonce)
		acked := func(o *Observation) { o.Packets = 1 }
		b.packet(place, secondNonce, acked)
		b.synAcked(b.now, Observation{LocalNID: ownNID, Remote: k.key.Remote, Nonce: secondNonce})
		b.pass(ackPatience)
		if place == netP {
			if len(b.started) != 1 || !k.quiet || len(b.started[0].sent) != 1 {
				t.Errorf("%d sessions, quiet %v", len(b.started), k.quiet)
			}
			continue
		}
		updates := 0
		for ; len(b.started) == 0 && updates < updateRounds+1; updates++ {
			lu := b.lastUpdate()
			if len(lu.Locators) != 1 || lu.Locators[0].L64 != netA || lu.Locators[0].Lifetime > largestRFC {
				t.Fatalf("update %+v", lu)
			}
			b.acked(b.now, k, ilnpwire.Packet{Src: k.key.Remote, Nonce: secondNonce}, lu.Ack())
		}
		if len(b.started) != 1 || k.proof.known < updateBits || updates < 2 {
			t.Errorf("%d sessions after %d updates, %d bits", len(b.started), updates, k.proof.known)
		}
	}
}

// lastUpdate returns the Locator Update that was sent last.
func (b *pendingBench) lastUpdate() ilnpwire.LocatorUpdate {
	b.t.Helper()
	for _, o := range slices.Backward(b.out) {
		if sent, ok := o.(Transmit); ok {
			p, err := ilnpwire.ParsePacket(sent.Packet)
			if err != nil {
				b.t.Fatal(err)
			}
			lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
			if err != nil {
				b.t.Fatal(err)
			}
			return lu
		}
	}
	b.t.Fatal("no Locator Update was sent")
	return ilnpwire.LocatorUpdate{}
}

// TestPendingPeerThatTalks: a peer that answers nothing stays as long as packets go both
// ways, and is probed slowly.
func TestPendingPeerThatTalks(t *testing.T) {
	b := newPendingBench(t)
	b.talks(netQ, secondNonce, 60*time.Second)
	if len(b.byKey) != 1 {
		t.Fatal("a peer that talks is forgotten")
	}
	before := len(b.sent)
	b.talks(netQ, secondNonce, 30*time.Second)
	if n := len(b.sent) - before; n < 1 || n > 3 {
		t.Errorf("%d probes in 30 s", n)
	}
	b.pass(pendingSilence + pendingSlowly)
	if len(b.byKey) != 0 {
		t.Error("a peer that has fallen silent is kept")
	}
}

// TestRoomForPendingPeers: of those that claim one NID the oldest one makes room that is
// not listed and has not answered in time; in a flood of all, the oldest.
func TestRoomForPendingPeers(t *testing.T) {
	b := newPendingBench(t)
	b.cache.known[peerNID] = &correspondent{nid: peerNID, locators: remotes{{l64: netP}}}
	nonce := func(i int) Nonce {
		n := Nonce{Len: 4}
		binary.BigEndian.PutUint32(n.Bytes[:], uint32(i+1))
		return n
	}
	first := b.packet(netP, nonce(0))
	for i := 1; i < maxOfOneNID; i++ {
		b.packet(netQ, nonce(i))
	}
	if b.packet(netQ, nonce(maxOfOneNID)) != nil || !slices.Contains(b.refused, reasonTooMany) {
		t.Error("one more is taken in before the others could answer")
	}
	if b.packet(netP, nonce(maxOfOneNID)) == nil {
		t.Error("one at the record's locator finds no room")
	}
	b.now = b.now.Add(pendingFirst)
	if b.packet(netQ, nonce(maxOfOneNID+1)) == nil || len(b.byNIDs[theKey]) != maxOfOneNID || b.byKey[first.key] == nil {
		t.Errorf("%d of one NID, or the one at the record's locator is gone", len(b.byNIDs[theKey]))
	}
	b.dropAll(b.now, ownNID, peerNID)
	if len(b.byKey)+len(b.byNIDs) != 0 {
		t.Errorf("%d are left", len(b.byKey))
	}
	all := func(i int) *pendingPeer {
		return b.packet(netQ, nonce(i), func(o *Observation) { o.Remote.NID += roam.NID(i + 1) })
	}
	oldest := all(0)
	for i := 1; i < maxPending; i++ {
		all(i)
	}
	if all(maxPending) != nil {
		t.Error("the table has no bound")
	}
	b.now = b.now.Add(pendingFirst)
	if all(maxPending) == nil || len(b.byKey) != maxPending || b.byKey[oldest.key] != nil {
		t.Errorf("%d in all, the oldest is there: %v", len(b.byKey), b.byKey[oldest.key] != nil)
	}
}

// TestFormsOfProbes: the option goes first, the other rule second, then both forms by
// turns; a listed peer gets both at once, one that came in UDP that first.
func TestFormsOfProbes(t *testing.T) {
	option, udp, both := []ProbeForm{FormOption}, []ProbeForm{FormUDP}, []ProbeForm{FormOption, FormUDP}
	for name, c := range map[string]struct {
		k    pendingPeer
		want [4][]ProbeForm
	}{
		"unknown":        {pendingPeer{}, [4][]ProbeForm{option, option, udp, option}},
		"Roam":           {pendingPeer{runsRoam: true}, [4][]ProbeForm{option, udp, option, udp}},
		"in UDP":         {pendingPeer{encap: true}, [4][]ProbeForm{udp, option, udp, option}},
		"listed":         {pendingPeer{listed: true, runsRoam: true}, [4][]ProbeForm{option, both, both, both}},
		"listed, in UDP": {pendingPeer{listed: true, encap: true}, [4][]ProbeForm{udp, both, both, both}},
		"no port":        {pendingPeer{control: control{noUDP: true}}, [4][]ProbeForm{option, option, option, option}},
		"rule seen":      {pendingPeer{control: control{icmp: icmpOrdinary}}, [4][]ProbeForm{option, udp, option, udp}},
	} {
		for i, want := range c.want {
			c.k.tries = i
			if got := c.k.forms(true); !slices.Equal(got, want) {
				t.Errorf("%s, try %d: forms %v, want %v", name, i, got, want)
			}
			if got := c.k.forms(false); !slices.Equal(got, option) {
				t.Errorf("%s, try %d without a port: forms %v", name, i, got)
			}
		}
	}
}
