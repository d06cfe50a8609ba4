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
