package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

func silence(b *bench) { b.see(Observation{Trigger: SeenSilence, Key: theKey}) }

// TestSilence: three rounds of probes within about two seconds, then the entry
// is held for dead; probes go on once a second, slowing down to every 15 s.
func TestSilence(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	silence(b) // told again meanwhile
	start := b.now
	b.pass(2099 * time.Millisecond)
	if n := len(b.probesSent()); n != 3 || b.entries[theKey].Dead {
		t.Fatalf("%d probes after 2.1 s and dead=%t, want 3 and not yet", n, b.entries[theKey].Dead)
	}
	b.pass(time.Millisecond)
	if !b.entries[theKey].Dead || b.count(PeerDead) != 1 {
		t.Fatal("not held for dead after three unanswered rounds")
	}
	b.pass(time.Minute)
	many := len(b.probesSent())
	b.pass(time.Minute)
	if n := len(b.probesSent()) - many; n != 4 {
		t.Errorf("%d probes in the third minute of silence, want one every 15 s", n)
	}
	b.answerProbes()
	if b.entries[theKey].Dead || b.count(PeerDead) != 0 {
		t.Errorf("still held for dead %v after a reply", b.now.Sub(start))
	}
}

// TestILNPThatWent: a host that has stopped Roam says so by the error of any IPv6
// host. Of a session that lives nobody believes it; of a dead one it is the end,
// and what comes next falls back.
func TestILNPThatWent(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	own := b.entries[theKey].LocalNonce
	b.receive(1, problem(b, netP, own, 2))
	if b.entries[theKey].State != Established || b.RejectedInput()[reasonQuote] != 1 {
		t.Fatalf("entry %+v, want the session to stay", b.entries[theKey])
	}
	silence(b)
	b.pass(3 * time.Second)
	wrong := own
	wrong.Bytes[0] ^= 1
	b.receive(1, problem(b, netP, wrong, 2))
	if !b.entries[theKey].Dead {
		t.Fatalf("entry %+v, want it dead, and an error without our nonce to change nothing", b.entries[theKey])
	}
	b.receive(1, problem(b, netP, own, 2))
	if _, there := b.entries[theKey]; there || b.count(SessionEnded) != 1 {
		t.Fatal("the session has not ended")
	}
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if p := b.entries[theKey]; p.State != Initiated || p.LocalNonce == own {
		t.Fatalf("entry %+v, want another session", p)
	}
	b.receive(1, problem(b, netP, b.entries[theKey].LocalNonce, 2))
	if b.entries[theKey].State != Plain {
		t.Errorf("entry %+v, want plain IPv6", b.entries[theKey])
	}
}

func TestWhatRevives(t *testing.T) {
	for name, revive := range map[string]func(b *bench){
		"life": func(b *bench) { b.see(Observation{Trigger: SeenLife, Key: theKey}) },
		"locator": func(b *bench) {
			b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}})
		},
		"reply": func(b *bench) { b.answerProbes() },
		"count": func(b *bench) {
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now.Add(time.Millisecond)}})
		},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		silence(b)
		b.pass(5 * time.Second)
		if !b.entries[theKey].Dead {
			t.Fatalf("%s: not dead", name)
		}
		revive(b)
		b.drain()
		if b.entries[theKey].Dead {
			t.Errorf("%s: still dead", name)
		}
	}
}

// TestHeardDuringSuspicion: echo replies may be filtered, but the nonce came.
func TestHeardDuringSuspicion(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	b.pass(time.Second)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastNonceRx: b.now}})
	b.pass(time.Minute)
	if b.entries[theKey].Dead {
		t.Error("held for dead although it was heard")
	}
}

// TestNewLocatorOfADeadSession: data does not wait for an answer there.
func TestNewLocatorOfADeadSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	b.pass(5 * time.Second)
	b.forget()
	b.prefix(2, netB, roam.Infinite)
	if b.entries[theKey].Dead || !slices.Equal(b.sources(), []roam.L64{netB}) {
		t.Error("still dead on a locator that was never tried")
	}
	if b.parse(b.sent[0]).Type != ilnpwire.TypeLocatorUpdate {
		t.Error("something left ahead of the update")
	}
	b.pass(3 * time.Second)
	if !b.entries[theKey].Dead || b.count(PeerDead) != 1 {
		t.Error("not dead again although nothing came back")
	}
}

func TestSilenceWhileThereIsNoLocator(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.withdraw(1, netA)
	silence(b)
	b.pass(time.Minute)
	if len(b.sent) != 0 || b.entries[theKey].Dead {
		t.Errorf("%d packets without a locator and dead=%t", len(b.sent), b.entries[theKey].Dead)
	}
}

// TestFailover: the path in use is dead, another answers: that one is used,
// the correspondent is told, and the first one is taken up again when it works.
func TestFailover(t *testing.T) {
	for _, mode := range []Mode{Soft, Hard} {
		b := newBench(t, inMode(mode))
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.prefix(2, netB, roam.Infinite)
		b.acknowledgeLast()
		b.forget()
		silence(b)
		answer := func() {
			for _, p := range b.probesSent() {
				if p.Src.L64 == netA {
					b.reply(p, peerNonce)
				}
			}
		}
		answer()
		if mode == Hard {
			b.pass(301 * time.Millisecond) // the reserve is asked in the second round
			answer()
		}
		b.pass(time.Second)
		if got := b.sources(); !slices.Equal(got, []roam.L64{netA}) {
			t.Fatalf("%v: sends from %v, want the one that works", mode, got)
		}
		list := b.updates()
		if len(list) == 0 || list[0].Locators[0] != entry(netA, 10, 65535) && list[0].Locators[0].Preference >= list[0].Locators[1].Preference {
			t.Fatalf("%v: told %v, want the one that works preferred", mode, list)
		}
		b.acknowledgeLast()
		b.forget()
		b.pass(16 * time.Second)
		probes := b.probesSent()
		if len(probes) == 0 {
			t.Fatalf("%v: dead path is never asked again", mode)
		}
		for _, p := range probes {
			b.reply(p, peerNonce)
		}
		if got := b.sources(); !slices.Equal(got, []roam.L64{netB}) {
			t.Errorf("%v: sends from %v, want the active one again", mode, got)
		}
	}
}

// TestFirstRoundOfSuspicion does not stray to locators that are not listed:
// a sender of datagrams that nobody answers is suspected every two seconds.
func TestFirstRoundOfSuspicion(t *testing.T) {
	b := newBench(t, inMode(Hard))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.pass(time.Minute)
	for range 10 {
		b.forget()
		silence(b)
		if probes := b.probesSent(); len(probes) != 1 || probes[0].Src.L64 != netB {
			t.Fatalf("%d probes, want one from the listed locator", len(probes))
		}
		b.answerProbes()
		b.pass(2 * time.Second)
		if len(b.sent) != 0 {
			t.Fatalf("%d packets after the reply", len(b.sent))
		}
	}
}

// TestMonitor: one of two paths in use dies, and the other one's answers would
// hide it.
func TestMonitor(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.answerProbes() // about the length of the new path
	active := func() { b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}}); b.drain() }
	b.pass(5 * time.Second)
	active()
	if n := len(b.probesSent()); n != 2 {
		t.Fatalf("%d probes, want one on each path", n)
	}
	for i := 0; i < len(b.probesSent()); i++ {
		if p := b.probesSent()[i]; p.Src.L64 == netA {
			b.reply(p, peerNonce)
		}
	}
	b.pass(time.Second)
	if got := b.sources(); !slices.Equal(got, []roam.L64{netA}) {
		t.Errorf("sends from %v, want what works", got)
	}
	b.forget()
	b.pass(time.Hour)
	b.forget()
	active()
	if n := len(b.probesSent()); n > 1 {
		t.Errorf("%d probes at once for an idle session", n)
	}
}

// TestMonitorHearsNothing: that is for silence to judge.
func TestMonitorHearsNothing(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.pass(5 * time.Second)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
	b.pass(4 * time.Second)
	if n := len(b.sources()); n != 2 || b.entries[theKey].Dead {
		t.Errorf("%d sources and dead=%t, want nothing changed", n, b.entries[theKey].Dead)
	}
}

func TestIdleTimeout(t *testing.T) {
	b := newBench(t, func(c *Config) { c.IdleTimeout = time.Minute })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(50 * time.Second)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now}})
	b.pass(59 * time.Second)
	if len(b.entries) != 1 {
		t.Fatal("ended although packets were sent 59 s ago")
	}
	b.pass(2 * time.Second)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now.Add(-time.Millisecond)}})
	if b.drain(); len(b.entries) != 1 {
		t.Fatal("ended although the reading after a minute showed a packet")
	}
	quiet := b.now
	b.pass(time.Minute)
	if len(b.entries) != 1 {
		t.Fatal("ended before anybody looked for packets")
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: quiet.Add(-time.Millisecond)}})
	if b.drain(); len(b.entries) != 0 || b.count(SessionEnded) != 1 {
		t.Error("not ended after a minute without packets")
	}
	if _, armed := b.PollTimeout(); armed {
		t.Error("a timer of the ended session is still armed")
	}
}

func TestRepliesFromElsewhereAreRefused(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	p := b.probesSent()[0]
	p.Dst.L64 = netQ
	b.reply(p, peerNonce)
	p.Dst.L64 = netP
	b.reply(p, Nonce{})
	r := b.RejectedInput()
	if r[reasonToken] != 1 || r[reasonNoNonce] != 1 {
		t.Errorf("refusals %v, want one for the place, one for want of a nonce", r)
	}
}

func TestGetters(t *testing.T) {
	b := newBench(t)
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 1, L64: netA}, Present: true, Preferred: time.Minute, LinkName: "eth0"})
	b.AddPeer(b.now, Peer{NID: 99, Names: []string{"other"}, Locators: []RemoteLocator{{L64: netR, Lifetime: time.Hour}}})
	b.open(netP)
	b.AddPeer(b.now, Peer{NID: peerNID, Names: []string{"peer", "alias"}, Locators: []RemoteLocator{
		{L64: netP, Lifetime: roam.Infinite}, {L64: netQ, Lifetime: roam.Infinite}, {L64: 0, Lifetime: roam.Infinite},
	}})
	b.drain()
	peers := b.Peers(b.now)
	if len(peers) != 2 || peers[0].NID != 99 || peers[0].Since != (time.Time{}) || peers[0].Locators[0].Lifetime < 59*time.Minute {
		t.Fatalf("peers %+v, want the known one first, without a session", peers)
	}
	p := peers[1]
	if !slices.Equal(p.Names, []string{"peer", "alias"}) || p.State != Established || len(p.Locators) != 2 || len(p.Paths) != 1 {
		t.Errorf("peer %+v, want both names, two locators and one path", p)
	}
	l := b.Locals(b.now.Add(20 * time.Second))
	if len(l) != 1 || l[0].LinkName != "eth0" || l[0].Preferred > 40*time.Second || l[0].State != Active {
		t.Errorf("locals %+v", l)
	}
	if s := b.Snapshot(); len(s) != 1 || !sameEntry(s[0], b.entries[theKey]) || s[0].Seq != b.entries[theKey].Seq {
		t.Errorf("snapshot %+v, want what was upserted", s)
	}
}

// TestNewsOfAPeer: what a look-up finds while its session is up.
func TestNewsOfAPeer(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 100))))
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netQ, Preference: 1, Lifetime: roam.Infinite}}})
	b.drain()
	b.wantTargets(netP)
	if len(b.Peers(b.now)[0].Locators) != 2 {
		t.Fatal("what was looked up is not kept for bad times")
	}
	b.forget()
	silence(b)
	b.answerProbesTo(netQ, peerNonce)
	b.pass(time.Second)
	b.wantTargets(netQ)
}

// TestUpdatesKeepNoSessionAlive: where prefixes live for less than an idle
// session, their renewal would keep it for ever. Found by the soak.
func TestUpdatesKeepNoSessionAlive(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, 5*time.Minute)
	b.open(netP)
	b.answerProbes()
	for range 30 {
		b.prefix(1, netA, 5*time.Minute)
		b.prefix(2, netB, 5*time.Minute)
		b.pass(time.Minute)
		if n := len(b.updates()); n > 0 && len(b.entries) > 0 {
			b.acknowledgeLast()
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now.Add(-time.Millisecond)}})
			b.forget()
		}
	}
	if len(b.entries) != 0 {
		t.Error("half an hour after the last packet of an application the session is there")
	}
}

// TestAnswersWithAnotherNonce: the correspondent has lost its state, or what was
// made of its first packets is not what it has now. The token proves where it
// is, and the old nonce gets its time to be heard, unless the session is dead.
func TestAnswersWithAnotherNonce(t *testing.T) {
	other := Nonce{Len: 4, Bytes: [12]byte{7, 7, 7, 7}}
	for _, c := range []struct {
		name      string
		prepare   func(b *bench)
		after     time.Duration
		right     bool // the right one is heard meanwhile
		want      Nonce
		refusals  uint64
		remakings int
	}{
		{"silent", silence, 200 * time.Millisecond, false, other, 0, 1},
		{"not silent", silence, 200 * time.Millisecond, true, peerNonce, 1, 0},
		{"dead", func(b *bench) { silence(b); b.pass(10 * time.Second) }, 0, false, other, 0, 1},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.answerProbes()
		c.prepare(b)
		own := b.entries[theKey].LocalNonce
		b.reply(b.probesSent()[len(b.probesSent())-1], other)
		if c.after > 0 && b.entries[theKey].RemoteNonce == other {
			t.Fatalf("%s: adopted at once", c.name)
		}
		if c.right {
			b.now = b.now.Add(time.Millisecond)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastNonceRx: b.now}})
		}
		b.pass(c.after)
		p := b.entries[theKey]
		if p.Dead || p.RemoteNonce != c.want || p.LocalNonce != own || b.count(SessionReplaced) != c.remakings {
			t.Errorf("%s: dead=%t, nonce %x, replaced %d times", c.name, p.Dead, p.RemoteNonce.Value(), b.count(SessionReplaced))
		}
		if n := b.RejectedInput()[reasonForged]; n != c.refusals {
			t.Errorf("%s: %d refusals, want %d", c.name, n, c.refusals)
		}
	}
}

// TestUpdateElsewhereDoubtsThePath: an update that comes to the locator in
// reserve says that the correspondent does not send to the one in use any more.
func TestUpdateElsewhereDoubtsThePath(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now}})
	b.drain()
	b.answerProbes() // the path is asked by turn
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 100))))
	probes := b.probesSent()
	if len(probes) != 1 || probes[0].Src.L64 != netB {
		t.Errorf("%d probes %+v, want one from the locator in use", len(probes), probes)
	}
}

// One round-trip time that a machine made long does not prolong what an unvalidated
// locator may get.
func TestGraceIsOfTheLesserRTT(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	s := b.sessions[theKey]
	for _, c := range []struct{ measured, want time.Duration }{
		{20 * time.Millisecond, 40 * time.Millisecond},
		{300 * time.Millisecond, 40 * time.Millisecond},
		{300 * time.Millisecond, 600 * time.Millisecond},
		{20 * time.Millisecond, 40 * time.Millisecond},
	} {
		s.noteRTT(c.measured, roam.LinkLocator{Link: 1, L64: netA})
		s.nonceUntil = s.nonceUntil.Add(time.Second) // the entry is written
		b.upsert(b.now, s, s.entry.Paths)
		if b.drain(); b.entries[theKey].Grace != c.want {
			t.Errorf("after %v: grace %v, want %v", c.measured, b.entries[theKey].Grace, c.want)
		}
	}
}

// TestProbeThatLeavesLate: the caller was late with a packet, and so is the probe that answers to it.
// The round trip counts from when it left.
func TestProbeThatLeavesLate(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.sessions[theKey].rtt = 20 * time.Millisecond
	b.forget()
	silence(b)
	b.now = b.now.Add(300 * time.Millisecond)
	left := 0
	for _, s := range b.sent {
		if s.Probe != (token{}) {
			b.HandleSent(b.now, s.Probe)
			left++
		}
	}
	b.HandleSent(b.now, token{1})
	b.answerProbes()
	if rtt := b.sessions[theKey].rtt; left == 0 || rtt != 20*time.Millisecond {
		t.Errorf("%d probes left; the round trip takes %v, want 20 ms", left, rtt)
	}
}
