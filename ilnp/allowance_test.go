package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestForgedPastDoesNotSilenceQuestions: what was forged in the name of a locator, and
// answered there, does not count against its owner when that comes.
func TestForgedPastDoesNotSilenceQuestions(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.answerProbes()
	past := pending(netQ, forged)
	past.Bytes = 100
	for range 40 {
		b.see(past)
		b.pass(pendingAgain)
	}
	b.pass(time.Minute)
	b.forget()
	packet := b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600)))
	o := at(netQ, peerNonce)
	o.Bytes = len(packet)
	b.see(o)
	b.receive(1, packet)
	b.forget() // the first question is lost
	for n := 2; n <= 4; n *= 2 {
		b.see(Observation{Trigger: SeenMore, Key: theKey, Remote: o.Remote, Bytes: n * len(packet), Packets: n})
		b.pass(probeMax)
	}
	b.answerProbesTo(netQ, peerNonce)
	if r := b.sessions[theKey].remotes.find(netQ); r == nil || !r.validated {
		t.Errorf("the correspondent is not validated where it has moved to; %d probes", len(b.probesSent()))
	}
}

// TestReturnToAnUnvalidatedLocator: a peer that visits a network twice is probed there the
// second time as well: the packets of the first visit and those of the second one add up.
// Reports of one visit do not, nor do those of more sessions than are counted.
func TestReturnToAnUnvalidatedLocator(t *testing.T) {
	var as accounts
	now, there := epoch, roam.ILV{NID: peerNID, L64: netQ}
	want := func(when string, packets int) {
		t.Helper()
		if bytes, got := as.of(now, there).came(); got != packets || bytes != 100*packets {
			t.Errorf("%s: %d bytes in %d packets, want %d", when, bytes, got, packets)
		}
	}
	for n := 1; n <= 8; n *= 2 {
		as.receivedInAll(now, theKey, there, 100*n, n)
	}
	as.receivedInAll(now, theKey, there, 100, 1)
	want("the first visit", 8)
	now = now.Add(countedFor)
	as.receivedInAll(now, theKey, there, 100, 1)
	as.receivedInAll(now, theKey, there, 200, 2)
	want("the second visit", 10)
	for i := range roam.NID(2 * maxCounted) {
		as.receivedInAll(now, SessionKey{ownNID, peerNID + 1 + i}, there, 100, 1)
	}
	want("other sessions", 10+maxCounted-1)
	now = now.Add(countedFor)
	as.receivedInAll(now, SessionKey{ownNID, peerNID + 100}, there, 100, 1)
	want("another one, later", 10+maxCounted)
}

// TestAcknowledgementsCountAsProbes: updates that list other locators draw, to these, no
// more packets in a second than probes may go there, acknowledgements included.
func TestAcknowledgementsCountAsProbes(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.answerProbes()
	b.pass(time.Minute)
	b.forget()
	for i := range 40 {
		b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ+roam.L64(i)<<16, 10, 60))))
		b.pass(20 * time.Millisecond)
	}
	n := 0
	for _, s := range b.sent {
		if b.parse(s).Dst.L64 != netP {
			n++
		}
	}
	if n > 2*probesPerSession || n == 0 {
		t.Errorf("%d packets to locators that only updates listed, at most %d a second", n, 2*probesPerSession)
	}
}

// TestUpdateOfAnotherNodeCountsOnce: of two nodes that showed one nonce the one that was
// validated has another now. A Locator Update with the first nonce, acknowledged when it
// came, is not taken once more when that one has its session.
func TestUpdateOfAnotherNodeCountsOnce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Minute)
	show := func(l roam.L64, n Nonce) {
		o := pending(l, n)
		o.Bytes = 300
		b.see(o)
	}
	show(netQ, Nonce{Len: 4, Bytes: [12]byte{7}})
	b.answerProbesTo(netQ, Nonce{Len: 4, Bytes: [12]byte{7}})
	b.pass(time.Minute)
	b.forget()
	show(netQ, secondNonce)
	show(netR, secondNonce)
	b.answerProbesTo(netQ, forged) // waits: is the session that is there alive?
	b.forget()
	b.receive(1, b.update(netR, secondNonce, updateOf(entry(netS, 10, 60), entry(netQ, 10, 60))))
	for range 3 {
		b.now = b.now.Add(20 * time.Millisecond)
		b.answerProbesTo(netP, peerNonce)
		b.pass(time.Second)
	}
	if p := b.unlisted(); p.RemoteNonce != forged {
		t.Fatalf("session %+v, want that of the validated node", p)
	}
	n := 0
	for _, s := range b.sent {
		if p := b.parse(s); p.Dst.L64 == netR && p.Type == ilnpwire.TypeLocatorUpdate {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d acknowledgements of one update", n)
	}
}

// TestNewSessionHasTheQuestionsOfTheOld: whoever loses its nonce again and again gets no
// more probes sent to the locators that it lists than one session does.
func TestNewSessionHasTheQuestionsOfTheOld(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	var last Nonce
	asked := 0
	for i := range byte(3) {
		n := Nonce{Len: 4, Bytes: [12]byte{5, i}}
		o := pending(netP, n)
		o.Bytes = 100
		b.see(o)
		b.answerProbesTo(netP, n)
		b.pass(silenceMin + time.Millisecond)
		if p, ok := b.established(); !ok || p.RemoteNonce == last || p.RemoteNonce != n {
			t.Fatalf("session %d is %+v", i, p)
		}
		last = n
		b.forget()
		var list []ilnpwire.LocatorEntry
		for j := range 6 {
			list = append(list, entry(netQ+roam.L64(10*int(i)+j), 0, 60))
		}
		b.receive(1, b.update(netP, n, updateOf(append(list, entry(netP, 10, 60))...)))
		for _, p := range b.probesSent() {
			if p.Dst.L64>>16 == netQ>>16 {
				asked++
			}
		}
	}
	// Three times silenceMin have gained two or three more.
	if most := probesPerSession + 3; asked > most {
		t.Errorf("%d probes in less than a second, want %d at most", asked, most)
	}
}

// An answer to a token counts as what came from there, and lifts no bound: the programs of a node answer whoever asks,
// and a forged packet had it asked.
func TestAnswersCountAsReceived(t *testing.T) {
	var as accounts
	now, there := epoch, roam.ILV{NID: peerNID, L64: netQ}
	spend := func(at roam.ILV) (n int) {
		for n < 100 && as.allows(now, at, 100, true) {
			n++
		}
		return n
	}
	others := []roam.ILV{{NID: peerNID, L64: netP}, {NID: peerNID + 1, L64: netQ}}
	for _, at := range append(others, there) {
		if n := spend(at); n != givenPackets+1 {
			t.Fatalf("%d packets to %v, want %d", n, at, givenPackets+1)
		}
	}
	for range 30 {
		as.answered(now, there)
	}
	if n, most := spend(there), 30*replyBytes*3/100; n == 0 || n > most {
		t.Errorf("%d packets to where 30 answers came from, want some, %d at most", n, most)
	}
	for _, at := range others {
		if n := spend(at); n > 0 {
			t.Errorf("%d more packets to %v, where no answer came from", n, at)
		}
	}
}
