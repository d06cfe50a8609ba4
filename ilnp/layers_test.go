package ilnp

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
)

// layers is all that stands below a core, without one: a host on two networks and an
// established session with a correspondent that was validated at netP.
type layers struct {
	liveness
	s   *session
	now time.Time
}

func newLayers(mode Mode) *layers {
	b := &layers{now: epoch}
	b.init(Config{
		NIDs: []roam.NID{ownNID}, Mode: mode, Rand: seeded{rand.New(rand.NewPCG(1, 2))}, NonceLength: 4,
		SessionPrefix: roam.DefaultSessionPrefix, UDPPort: 4242,
	})
	b.s = &session{
		key: theKey, localNID: ownNID, remoteNID: peerNID, state: Established, confirmed: true, started: b.now,
		localNonce: Nonce{Len: 4}, remoteNonce: peerNonce, bad: make(map[Path]bool), lastRx: b.now,
	}
	b.s.schedule.Machine = b.s
	b.s.asks, b.s.rtt = true, 20*ms
	b.s.remotes.put(netP, 0, time.Time{}).validate()
	b.index(b.s)
	return b
}

// attach has the host come to a network.
func (b *layers) attach(link roam.LinkID, l roam.L64) {
	b.host.present(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: link, L64: l}, Present: true, Preferred: roam.Infinite})
	b.host.reselect(b.now)
}

// took returns what the layers want done: the packets' number and the last entry, and which
// of them came first.
func (b *layers) took() (packets int, entry *Entry, packetFirst bool) {
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		switch o := o.(type) {
		case Transmit:
			packets++
			packetFirst = packetFirst || entry == nil
		case Upsert:
			entry = &o.Entry
		}
	}
	return packets, entry, packetFirst
}

// Paths follow the mode, and leave out those that are obstructed, or found dead while
// there are others.
func TestPathChoice(t *testing.T) {
	for name, test := range map[string]struct {
		mode       Mode
		bad        []Path
		obstructed []Path
		state      SessionState
		want       []Path
	}{
		"soft":                {mode: Soft, state: Established, want: []Path{viaB}},
		"duality":             {mode: Duality, state: Established, want: []Path{viaB, viaA}},
		"the best is dead":    {mode: Soft, bad: []Path{viaB}, state: Established, want: []Path{viaA}},
		"all are dead":        {mode: Soft, bad: []Path{viaA, viaB}, state: Established, want: []Path{viaB}},
		"the best obstructed": {mode: Duality, obstructed: []Path{viaB}, state: Established, want: []Path{viaA}},
		"all obstructed":      {mode: Soft, obstructed: []Path{viaA, viaB}, state: Established},
		"plain":               {mode: Duality, state: Plain, want: []Path{viaB}},
	} {
		b := newLayers(test.mode)
		b.attach(1, netA)
		b.attach(2, netB)
		b.s.state = test.state
		for _, p := range test.bad {
			b.s.bad[p] = true
		}
		for _, p := range test.obstructed {
			if b.obstructed[peerNID] == nil {
				b.obstructed[peerNID] = make(map[Path]bool)
			}
			b.obstructed[peerNID][p] = true
		}
		if got := b.pathChoice.pathsFor(b.now, b.s); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A sender asks in the form that gets through, and as often as the locator allows.
func TestSender(t *testing.T) {
	b := newLayers(Soft)
	b.attach(1, netA)
	b.sender.probePaths(b.now, b.s, []Path{viaA})
	if n, _, _ := b.took(); n != 1 || len(b.probes) != 1 || len(b.s.sent) != 1 {
		t.Errorf("%d packets, %d probes", n, len(b.probes))
	}
	b.s.setPassage(viaA, passage{encap: true})
	if got := b.formsOf(b.now, b.s, viaA); !slices.Equal(got, []ProbeForm{FormUDP}) {
		t.Errorf("asks in %v where options are dropped", got)
	}
	b.s.noUDP = true
	if got := b.formsOf(b.now, b.s, viaA); !slices.Equal(got, []ProbeForm{FormOption}) {
		t.Errorf("asks in %v a correspondent without that port", got)
	}
	b.s.remotes.put(netQ, 0, time.Time{}) // that it only claims
	for range 20 {
		b.sender.probePaths(b.now, b.s, []Path{{Local: viaA.Local, Remote: netQ}})
	}
	if n, _, _ := b.took(); n == 0 || n > allowedPackets {
		t.Errorf("%d packets to a locator that was not validated", n)
	}
}

// The update that tells of a locator leaves before the entry by which data leave from it,
// and is retransmitted until it is acknowledged.
func TestSteeringTellsFirst(t *testing.T) {
	b := newLayers(Soft)
	b.attach(1, netA)
	b.steering.refresh(b.now, b.s)
	n, entry, first := b.took()
	if n != 1 || entry == nil || !first || !slices.Equal(entry.Paths, []Path{viaA}) {
		t.Fatalf("%d packets, first %v, entry %+v", n, first, entry)
	}
	b.steering.refresh(b.now, b.s)
	if n, entry, _ = b.took(); n != 0 || entry != nil {
		t.Errorf("no change: %d packets, entry %+v", n, entry)
	}
	m, k, due := b.deadlines.Due(b.now.Add(updateGuess))
	if !due || m != b.s || k != timerUpdate {
		t.Fatalf("timer %v of %v is due", k, m)
	}
	b.steering.retransmitUpdate(b.now, b.s)
	if n, _, _ = b.took(); n == 0 || b.s.update.tries != 2 {
		t.Errorf("%d packets, %d tries", n, b.s.update.tries)
	}
	b.host.lose(b.now, 1)
	b.host.reselect(b.now)
	b.steering.refresh(b.now, b.s)
	if n, entry, _ = b.took(); n != 0 || entry == nil || len(entry.Paths) != 0 || b.s.update.state != suspended {
		t.Errorf("without a locator: %d packets, entry %+v, exchange %v", n, entry, b.s.update.state)
	}
}

// A correspondent that is silent is asked, held for dead, and alive when it is heard.
func TestLivenessOfSilence(t *testing.T) {
	b := newLayers(Soft)
	b.attach(1, netA)
	b.refresh(b.now, b.s)
	b.s.update.state = acknowledged
	b.disarm(&b.s.schedule, timerUpdate)
	b.took()
	b.liveness.handleSilence(b.now, b.s)
	if n, _, _ := b.took(); n == 0 || b.s.watch.state != suspect {
		t.Fatalf("%d probes, watch %v", n, b.s.watch.state)
	}
	for range suspectTries {
		at, ok := b.s.Deadline(timerProbe)
		if !ok || b.s.dead {
			t.Fatalf("no further round, dead %v", b.s.dead)
		}
		b.now = at
		b.liveness.probeTimeout(b.now, b.s)
	}
	if _, entry, _ := b.took(); !b.s.dead || entry == nil || !entry.Dead {
		t.Errorf("not dead after %d rounds", suspectTries)
	}
	b.liveness.heard(b.now, b.s)
	if _, entry, _ := b.took(); b.s.dead || entry == nil || entry.Dead {
		t.Error("not alive though it was heard")
	}
}
