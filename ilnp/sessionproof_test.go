package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// answered has the correspondent acknowledge the last update from a locator, and returns
// the updates that follow.
func (b *bench) answered(from roam.L64, lu ilnpwire.LocatorUpdate) []ilnpwire.LocatorUpdate {
	b.t.Helper()
	b.now = b.now.Add(20 * time.Millisecond)
	b.forget()
	b.receive(1, b.ackOf(from, peerNonce, lu))
	return b.updates()
}

// confirmedByUpdates is a host with a session whose correspondent answers no probe.
func confirmedByUpdates(t *testing.T) *bench {
	t.Helper()
	b, lu := noProbeAnswered(t, peerNonce)
	for range 3 {
		list := b.answered(netP, lu)
		if len(list) == 0 {
			t.Fatal("no update behind an acknowledgement")
		}
		lu = list[len(list)-1]
	}
	if b.entries[theKey].Unconfirmed {
		t.Fatal("not confirmed by three updates")
	}
	b.receive(1, b.ackOf(netP, peerNonce, lu))
	b.pass(time.Second)
	b.forget()
	return b
}

// sentTo returns the packets to a locator.
func (b *bench) sentTo(l roam.L64) (list []ilnpwire.Packet) {
	for _, s := range b.sent {
		if p := b.parse(s); p.Dst.L64 == l {
			list = append(list, p)
		}
	}
	return list
}

// updateIn reads an update.
func (b *bench) updateIn(p ilnpwire.Packet) ilnpwire.LocatorUpdate {
	b.t.Helper()
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	return lu
}

// TestUpdateValidatesLaterLocators: where a correspondent has come that answers no probe, it is
// validated by updates, which take the place of probes; then it is told the whole lifetimes.
func TestUpdateValidatesLaterLocators(t *testing.T) {
	for name, come := range map[string]func(*bench){
		"by an update from before": func(b *bench) {
			b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 10, 600), entry(netP, 20, 600))))
		},
		"by an update from there": func(b *bench) {
			b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
		},
		"by data": func(b *bench) {
			b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Local: roam.LinkLocator{Link: 1, L64: netA}, LocalNID: ownNID, Nonce: peerNonce, Bytes: 60})
		},
		"when hardly a probe may go": func(b *bench) {
			for range probesPerSession - 1 {
				b.sessions[theKey].probeBucket.take(b.now, probesPerSession, time.Second/probesPerSession)
			}
			b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
		},
		"while its silence is asked about": func(b *bench) {
			b.prefix(2, netB, roam.Infinite)
			b.acknowledgeLast()
			b.see(Observation{Trigger: SeenSilence, Key: theKey})
			b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 10, 600), entry(netP, 20, 600))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := confirmedByUpdates(t)
			come(b)
			acks := 0
			for ; slices.Contains(b.entries[theKey].Unvalidated, netQ); acks++ {
				list := slices.DeleteFunc(b.sentTo(netQ), func(p ilnpwire.Packet) bool {
					return p.Type != ilnpwire.TypeLocatorUpdate || b.updateIn(p).Operation != ilnpwire.Advertisement
				})
				if len(list) != 1 {
					t.Fatalf("%d updates to the new locator behind %d acknowledgements, want one", len(list), acks)
				}
				b.answered(netQ, b.updateIn(list[0]))
			}
			if p := b.entries[theKey]; len(p.Unvalidated) > 0 || p.Unconfirmed || acks < 2 {
				t.Errorf("entry %+v behind %d acknowledgements", p, acks)
			}
			b.wantTargets(netQ)
			list := b.updates()
			if len(list) != 1 || list[0].Locators[0].Lifetime != largestRFC {
				t.Errorf("told %+v behind the proof, want the whole lifetimes", list)
			}
		})
	}
}

// TestUpdatesValidateNoVictim: whoever names a victim's locator and acknowledges
// updates that went there guesses. It draws no more than its own packets have earned.
func TestUpdatesValidateNoVictim(t *testing.T) {
	b := confirmedByUpdates(t)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 10, 600), entry(netP, 20, 600))))
	lu := b.updateIn(b.sentTo(netQ)[0])
	bytes := 0
	for i := range 300 {
		guess := lu.Ack()
		guess.Locators = slices.Clone(lu.Locators)
		guess.Locators[0].Lifetime = largestRFC - uint32(i)
		if guess.Locators[0] != lu.Locators[0] {
			b.receive(1, b.ackOf(netP, peerNonce, guess))
			b.receive(1, b.ackOf(netQ, peerNonce, guess))
		}
		b.pass(10 * time.Millisecond)
	}
	b.receive(1, b.ackOf(netP, peerNonce, lu)) // the right one, behind wrong ones
	b.pass(time.Minute)
	for _, s := range b.sent {
		if p := b.parse(s); p.Dst.L64 == netQ {
			bytes += len(s.Packet)
		}
	}
	if r := b.sessions[theKey].remotes.find(netQ); r == nil || r.validated {
		t.Errorf("the victim's locator is %+v", r)
	}
	if bytes > allowedBytes {
		t.Errorf("%d bytes went to the victim, want %d at most", bytes, allowedBytes)
	}
}

// TestProbesComeFirst: a correspondent that has answered probes is asked by them at its new
// locator, and by an update when two stayed without an answer.
func TestProbesComeFirst(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.openOther(netP)
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
	b.see(Observation{Trigger: SeenMore, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Bytes: 10_000, Packets: 100})
	b.pass(3 * time.Second)
	var kinds []uint8
	for _, p := range b.sentTo(netQ) {
		if p.Type == ilnpwire.TypeEchoRequest || b.updateIn(p).Operation == ilnpwire.Advertisement {
			kinds = append(kinds, p.Type)
		}
	}
	if want := []uint8{ilnpwire.TypeEchoRequest, ilnpwire.TypeEchoRequest, ilnpwire.TypeLocatorUpdate}; len(kinds) < 3 || !slices.Equal(kinds[:3], want) {
		t.Errorf("asked by ICMPv6 types %v, want %v first", kinds, want)
	}
}

// TestUpdateConfirmsByTurns: as long as the rule of its control messages is not known, every
// second update that is to confirm a nonce is summed over NIDs.
func TestUpdateConfirmsByTurns(t *testing.T) {
	b, lu := noProbeAnswered(t, peerNonce)
	b.pass(updateAgain)
	if got := b.sums(ilnpwire.TypeLocatorUpdate); len(got) != 1 || !got[0] {
		t.Fatalf("the second update over NIDs: %v", got)
	}
	lu = b.updates()[0]
	b.forget()
	b.receive(1, overNIDs(t, b.ackOf(netP, peerNonce, lu)))
	if got := b.sums(ilnpwire.TypeLocatorUpdate); len(got) != 1 || !got[0] {
		t.Errorf("the one behind its acknowledgement over NIDs: %v", got)
	}
}

// TestOnlyPlaceIsNotLeft: a correspondent that cannot be validated where it says to be, and
// nowhere else, is sent to there as long as it sends.
func TestOnlyPlaceIsNotLeft(t *testing.T) {
	for name, sends := range map[string]bool{"sends": true, "is silent": false} {
		b := newBench(t)
		b.prefix(1, netA, 2*time.Minute)
		b.openOther(netP)
		b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
		for range 5 {
			b.pass(time.Second)
			if sends {
				b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
				b.drain()
			}
		}
		if left := !slices.Equal(b.targets(), []roam.L64{netQ}); left == sends {
			t.Errorf("it %s: sends to %v", name, b.targets())
		}
	}
}

// TestNoProbeAnsweredLives: a correspondent that answers no probe is not held for dead because
// probes stay unanswered, be it that nothing was sent to it for long or that data go one
// way only. When it does not acknowledge our set either, it is.
func TestNoProbeAnsweredLives(t *testing.T) {
	for name, c := range map[string]struct {
		silent, acks, dead bool
	}{
		"nothing is sent": {false, false, false},
		"data one way":    {true, true, false},
		"silence":         {true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := confirmedByUpdates(t)
			b.prefix(2, netB, roam.Infinite) // another link to take
			b.acknowledgeLast()
			sent := Activity{Key: theKey, LastRx: b.now, LastTx: b.now.Add(time.Millisecond)}
			b.HandleActivity(b.now, []Activity{sent})
			b.drain()
			b.forget()
			for i := range 300 {
				if c.silent && i%100 == 0 {
					silence(b)
				}
				b.pass(50 * time.Millisecond)
				if c.acks && len(b.updates()) > 0 {
					b.acknowledgeLast()
					b.forget()
				}
			}
			if p := b.entries[theKey]; p.Dead != c.dead {
				t.Errorf("held for dead: %t, want %t", p.Dead, c.dead)
			}
		})
	}
}
