package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// other is a bench with a session from A to a correspondent that runs another stack.
func other(t *testing.T, m Mode) *bench {
	t.Helper()
	b := newBench(t, inMode(m))
	b.prefix(1, netA, roam.Infinite)
	b.openOther(netP)
	return b
}

func (b *bench) wantSources(why string, want ...roam.L64) {
	b.t.Helper()
	if got := b.sources(); !slices.Equal(got, want) {
		b.t.Fatalf("%s: sends from %v, want %v", why, got, want)
	}
}

// sentFrom returns where the updates left from: link and source.
func (b *bench) sentFrom() []roam.LinkLocator {
	var ls []roam.LinkLocator
	for _, s := range b.sent {
		p := b.parse(s)
		lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
		if p.Type == ilnpwire.TypeLocatorUpdate && err == nil && lu.Operation == ilnpwire.Advertisement {
			ls = append(ls, roam.LinkLocator{Link: s.Link, L64: p.Src.L64})
		}
	}
	return ls
}

// Towards another stack than Roam, the update leaves from the new locator and tells
// what this host wants, and data wait on the old one for the acknowledgement.
func TestDataWaitForTheAcknowledgement(t *testing.T) {
	b := other(t, Soft)
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("not acknowledged", netA)
	if from := b.sentFrom(); !slices.Equal(from, []roam.LinkLocator{{Link: 2, L64: netB}}) {
		t.Errorf("updates from %v, want one from the new locator", from)
	}
	lu := b.updates()[0].Locators
	if len(lu) != 2 || lu[0].L64 != netB || lu[0].Preference != uint32(preferActive) || lu[1].Preference != uint32(preferValid) {
		t.Errorf("the update tells %v, want the new locator preferred", lu)
	}
	b.pass(time.Minute)
	b.wantSources("a minute without an acknowledgement", netA)
	b.acknowledgeLast()
	b.wantSources("acknowledged", netB)
	if !b.entries[theKey].NonceUntil.After(b.now) {
		t.Error("the first packets from the new locator go without nonce")
	}
}

// So they do in duality, for their share.
func TestShareWaitsForTheAcknowledgement(t *testing.T) {
	b := other(t, Duality)
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("not acknowledged", netA)
	b.acknowledgeLast()
	b.wantSources("acknowledged", netA, netB)
	b.Detach(b.now, 1)
	b.drain()
	b.wantSources("one link is gone", netB)
}

// In duality from the beginning, data go from where the first answer came.
func TestShareFromTheStart(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{
		Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Local: roam.LinkLocator{Link: 2, L64: netB}, Nonce: peerNonce,
	})
	b.wantSources("answered", netB)
	b.answerProbesTo(netP, peerNonce)
	b.acknowledgeLast()
	b.wantSources("acknowledged", netA, netB)
}

// A message, or data with the nonce, to the new locator say as much as an
// acknowledgement; an echo reply does not.
func TestSignsThatTheNewLocatorIsKnown(t *testing.T) {
	for name, sign := range map[string]func(b *bench){
		"update": func(b *bench) {
			p, err := ilnpwire.BuildUpdate(roam.ILV{NID: peerNID, L64: netP}, roam.ILV{NID: ownNID, L64: netB}, peerNonce,
				ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(netP, 10, 100)}})
			if err != nil {
				t.Fatal(err)
			}
			b.receive(2, p)
		},
		"data": func(b *bench) {
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastNonceRx: b.now, NonceAt: netB}})
			b.drain()
		},
	} {
		b := other(t, Soft)
		b.prefix(2, netB, roam.Infinite)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastNonceRx: b.now, NonceAt: netA}})
		b.probePaths(b.now, b.sessions[theKey], []Path{{roam.LinkLocator{Link: 2, L64: netB}, netP}})
		b.drain()
		b.answerProbesTo(netP, peerNonce)
		b.wantSources(name+": an echo reply", netA)
		sign(b)
		b.wantSources(name, netB)
	}
	b := other(t, Soft)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastNonceRx: b.now, NonceAt: netC}})
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("data to a locator that was never told of", netA)
}

// Away from a correspondent that is silent data move at once; back to it when the new
// locator is not acknowledged either.
func TestReturnToTheKnownLocator(t *testing.T) {
	b := other(t, Soft)
	b.pass(time.Second)
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("silent for a second", netB)
	b.pass(returnAfter - time.Millisecond)
	b.wantSources("not yet", netB)
	b.pass(time.Millisecond)
	b.wantSources("unacknowledged", netA)
	if n := len(b.updates()); n != 3 {
		t.Errorf("%d transmissions until data return, want 3", n)
	}
	if b.count(HandoffReturned) != 1 {
		t.Error("nobody is told that data returned")
	}
	b.acknowledgeLast()
	b.wantSources("acknowledged after all", netB)
	b.pass(time.Minute)
	b.wantSources("stays", netB)
}

// One that answers echo requests on the new locator only is not returned to on the
// old one, until it answers there.
func TestNoReturnToSilence(t *testing.T) {
	answerFrom := func(b *bench, l roam.L64) {
		for _, p := range b.probesSent() {
			if p.Src.L64 == l {
				b.reply(p, peerNonce)
			}
		}
		b.sent = nil
	}
	b := other(t, Soft)
	b.pass(time.Second)
	b.prefix(2, netB, roam.Infinite)
	answerFrom(b, netB)
	b.pass(returnAfter)
	b.wantSources("only the new one answers", netB)
	answerFrom(b, netA)
	b.pass(returnAfter)
	b.wantSources("the old one answers again", netA)
}

// An immediate handoff does not wait, and returns when it was in vain.
func TestHardHandoffReturns(t *testing.T) {
	b := other(t, Hard)
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("at once", netB)
	if len(b.probesSent()) > 0 {
		t.Error("a probe from the withdrawn locator calls the correspondent back")
	}
	b.pass(returnAfter)
	b.wantSources("unacknowledged", netA)
	b.acknowledgeLast()
	b.wantSources("acknowledged", netB)

	b = other(t, Hard)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.pass(time.Minute)
	b.wantSources("acknowledged in time", netB)
	if b.count(HandoffReturned) > 0 {
		t.Error("returned although acknowledged")
	}
}

// A link that is gone is left at once, and returned to once it is back.
func TestKnownLocatorComesBack(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Place = func(link string) int { return len(link) } })
	up := func(link roam.LinkID, name string, l roam.L64) {
		b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: link, L64: l}, Present: true, Preferred: roam.Infinite, LinkName: name})
		b.drain()
	}
	up(1, "second", netA)
	b.openOther(netP)
	up(2, "first", netB)
	b.wantSources("not acknowledged", netA)
	b.Detach(b.now, 1)
	b.drain()
	b.wantSources("the old link is gone", netB)
	b.pass(time.Minute)
	up(1, "second", netA)
	b.wantSources("it is back", netA)
	if b.count(HandoffReturned) != 1 {
		t.Error("nobody is told that data returned")
	}
}

// An update that fails leaves data where they are, says so, and is tried slowly even
// if echo requests are answered.
func TestUpdateThatFails(t *testing.T) {
	b := other(t, Soft)
	b.prefix(2, netB, roam.Infinite)
	b.pass(time.Minute)
	i := slices.IndexFunc(b.events, func(e Event) bool { return e.Kind == UpdateFailed })
	if i < 0 || b.events[i].Path.Local.L64 != netA || b.events[i].Reason == "" || b.count(UpdateFailed) != 1 {
		t.Fatalf("events %+v, want one update failed that names the path in use", b.events)
	}
	b.forget()
	for range 30 {
		b.pass(2 * time.Second)
		b.probePaths(b.now, b.sessions[theKey], b.sessions[theKey].entry.Paths)
		b.drain()
		b.answerProbesTo(netP, peerNonce)
	}
	if n := len(b.updates()); n < 3 || n > 6 {
		t.Errorf("%d updates in a minute, want one each %v", n, updateSlowly)
	}
	b.wantSources("after two minutes", netA)
}

// Silence on the known locator during the wait: the new one is tried after a first
// round of probes without an answer.
func TestSilenceEndsTheWait(t *testing.T) {
	b := other(t, Soft)
	b.prefix(2, netB, roam.Infinite)
	b.pass(30 * time.Second)
	b.forget()
	b.see(Observation{Trigger: SeenSilence, Key: theKey})
	b.wantSources("suspected", netA)
	b.pass(suspectMin)
	b.wantSources("no answer", netB)
	if from := b.sentFrom(); len(from) == 0 || from[0] != (roam.LinkLocator{Link: 2, L64: netB}) {
		t.Errorf("updates from %v, want one from the new locator first", from)
	}
	b.pass(returnAfter)
	b.wantSources("no answer there either", netA)
}

// A stack that neither acknowledges nor answers echo requests, nor shows its nonce any
// more, is left where it is while data come.
func TestWaitWithoutEcho(t *testing.T) {
	for _, m := range []Mode{Soft, Duality} {
		b := other(t, m)
		b.prefix(2, netB, roam.Infinite)
		for range 120 {
			b.pass(time.Second)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, WithoutNonce: 1}})
			b.drain()
			b.wantSources("data come", netA)
		}
		if b.count(PeerDead) > 0 || b.count(HandoffReturned) > 0 {
			t.Errorf("%v: %d times dead, returned %d times", m, b.count(PeerDead), b.count(HandoffReturned))
		}
	}
}

// A stack that takes updates from known sources only gets one, in place of which
// nothing else gets there: out of the new link, and rarely.
func TestUpdateFromTheKnownSource(t *testing.T) {
	b := other(t, Soft)
	b.Detach(b.now, 1)
	b.drain()
	b.prefix(2, netB, roam.Infinite)
	b.pass(20 * time.Second)
	from, own, foreign := b.sentFrom(), 0, []int(nil)
	for _, l := range from {
		switch l {
		case roam.LinkLocator{Link: 2, L64: netB}:
			own++
		case roam.LinkLocator{Link: 2, L64: netA}:
			foreign = append(foreign, own)
		default:
			t.Fatalf("an update from %v", l)
		}
	}
	if !slices.Equal(foreign, []int{sourceTry, sourceTry + sourceEvery}) {
		t.Errorf("updates from the known source after %v of %d transmissions, want after 3 and 7", foreign, own)
	}
	for _, lu := range b.updates() {
		if len(lu.Locators) != 1 || lu.Locators[0].L64 != netB {
			t.Errorf("an update tells %v, want the new locator only", lu.Locators)
		}
	}
	b.acknowledgeLast()
	b.forget()
	b.Detach(b.now, 2)
	b.drain()
	b.prefix(3, netC, roam.Infinite)
	b.pass(time.Second)
	if !slices.Contains(b.sentFrom(), roam.LinkLocator{Link: 3, L64: netB}) || slices.Contains(b.sentFrom(), roam.LinkLocator{Link: 3, L64: netA}) {
		t.Errorf("updates from %v, want one from the locator that was acknowledged last", b.sentFrom())
	}

	for name, b := range map[string]*bench{"Roam": newBench(t), "the old link is up": other(t, Soft)} {
		if name == "Roam" {
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			b.Detach(b.now, 1)
			b.drain()
		}
		b.prefix(2, netB, roam.Infinite)
		b.pass(time.Minute)
		if slices.Contains(b.sentFrom(), roam.LinkLocator{Link: 2, L64: netA}) {
			t.Errorf("%s: an update from a source of another link", name)
		}
	}
}

// A stack that acknowledges the first locator of a set knows no other one: data leave from that one only, and once it
// is gone, an update bears it.
func TestOnlyTheRepeatedLocatorsAreKnown(t *testing.T) {
	b := other(t, Duality)
	b.prefix(2, netB, roam.Infinite)
	list := b.updates()[0].Locators
	ack := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Form: ilnpwire.FormLinux, Locators: list[:1]}
	b.receive(1, overNIDs(t, b.update(netP, peerNonce, ack)))
	b.wantSources("the first of two acknowledged", list[0].L64)
	first, left := roam.LinkID(1), roam.LinkID(2)
	if list[0].L64 == netB {
		first, left = left, first
	}
	b.forget()
	b.Detach(b.now, first)
	b.drain()
	b.pass(2 * time.Second)
	if want := (roam.LinkLocator{Link: left, L64: list[0].L64}); !slices.Contains(b.sentFrom(), want) {
		t.Errorf("updates from %v, want one from %v", b.sentFrom(), want)
	}
}

// Each of two sources sends updates under both checksum rules while that of the
// correspondent is not known for sure: some stacks want one rule, from one source.
func TestSourcesUnderBothRules(t *testing.T) {
	for _, known := range []icmpRule{icmpSought, icmpTakesNIDs} {
		b := other(t, Soft)
		b.sessions[theKey].icmp = known
		b.prefix(2, netB, roam.Infinite)
		b.pass(time.Second)
		seen := make(map[roam.LinkLocator]int)
		for i, over := range b.sums(ilnpwire.TypeLocatorUpdate) {
			n := 1
			if over {
				n = 2
			}
			seen[b.sentFrom()[i]] |= n
		}
		if seen[roam.LinkLocator{Link: 1, L64: netA}] != 3 || seen[roam.LinkLocator{Link: 2, L64: netB}] != 3 {
			t.Errorf("rule %d: %v in a second, want both rules (3) from both", known, seen)
		}
	}
}

// A successor waits as its predecessor did.
func TestRestoredWait(t *testing.T) {
	b := other(t, Soft)
	b.prefix(2, netB, roam.Infinite)
	after := newBench(t)
	after.now = b.now.Add(10 * time.Millisecond)
	if err := after.Restore(after.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	after.drain()
	after.wantSources("restored", netA)
	after.pass(time.Second)
	after.prefix(1, netA, roam.Infinite)
	after.prefix(2, netB, roam.Infinite)
	after.wantSources("retransmitted", netA)
	after.acknowledgeLast()
	after.wantSources("acknowledged", netB)
}

// That a correspondent runs Roam is remembered for its next session, until an update
// of one in which it did not show that fails.
func TestRoamIsRemembered(t *testing.T) {
	b := other(t, Soft)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, Asks: true}})
	b.drain()
	again := func() {
		c := b.known[peerNID]
		b.removeSession(b.now, b.sessions[theKey])
		b.known[peerNID] = c
		b.drain()
		b.forget()
		b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
		b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
		b.answerProbes()
	}
	again()
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("it ran Roam", netB)
	b.pass(returnAfter)
	b.wantSources("it does not acknowledge", netA)
	b.pass(30 * time.Second)
	again()
	if b.sessions[theKey].asks {
		t.Error("still held for Roam")
	}
}

// Sessions with Roam need not be read before this host moves.
func TestUnacquainted(t *testing.T) {
	b := other(t, Soft)
	if got := b.Unacquainted(); !slices.Equal(got, []SessionKey{theKey}) {
		t.Errorf("%v, want the session", got)
	}
	b.pass(time.Second)
	b.HandleHeard([]Activity{{Key: theKey, LastRx: b.now}, {Key: SessionKey{1, 2}}})
	b.prefix(2, netB, roam.Infinite)
	b.wantSources("just read", netA)
	b.HandleActivity(b.now, []Activity{{Key: theKey, Asks: true}})
	if got := b.Unacquainted(); len(got) > 0 {
		t.Errorf("%v, want none: it runs Roam", got)
	}
}
