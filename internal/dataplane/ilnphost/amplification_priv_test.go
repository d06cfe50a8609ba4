package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// spread sends n packets of one size and returns how many went to each locator;
// those that went nowhere are counted under 0.
func (r *rig) spread(n, size int) map[roam.L64]int {
	r.t.Helper()
	to := make(map[roam.L64]int)
	for range n {
		v, out := r.egress(toPeer(ip6.UDP, udp(size)))
		if v == consumed {
			to[0]++
			continue
		}
		p, err := ilnpwire.ParsePacket(out)
		r.must(err)
		to[p.Dst.L64]++
	}
	return to
}

// unvalidated is a session with the given locators, of which the last is not validated
// reachable.
func unvalidated(seq uint32, remotes ...roam.L64) ilnp.Entry {
	p := entryFor(remotes...)
	p.Seq, p.Unvalidated = seq, remotes[len(remotes)-1:]
	p.Given = p.Unvalidated
	return p
}

// namedByPeer makes the locator one that only the correspondent named.
func namedByPeer(p ilnp.Entry) ilnp.Entry {
	p.Given = nil
	return p
}

// To a locator that only the correspondent named nothing goes before something has
// come from there; then twice as many bytes, and packets.
func TestAllowanceOfWhatOnlyThePeerNamed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(namedByPeer(unvalidated(1, there, else1)))
	if got := r.spread(100, 1000); got[else1] != 0 || got[there] != 100 {
		t.Errorf("spread %v", got)
	}
	for range 5 {
		r.ingress(fromPeer(else1, none, ip6.UDP, udp(1000)))
	}
	if got := r.spread(100, 1000); got[else1] != 10 || got[there] != 90 {
		t.Errorf("spread %v after five packets from there", got)
	}
	r.ingress(fromPeer(else1, none, ip6.UDP, udp(1000)))
	if got := r.spread(100, 10); got[else1] != 2 {
		t.Errorf("spread %v of small packets after another one from there", got)
	}
	r.wantKinds("what came", More, More, More)
	// Nor at the rate before, as long as nothing has come.
	p := namedByPeer(unvalidated(2, else2))
	p.Grace = time.Hour
	r.upsert(p)
	r.setLive(p.Key, func(l *noted) {
		l.RateLast, l.LastTx = 20*1048,
			ticks(time.Duration(dataplane.Monotonic(time.Now())))
	})
	if got := r.spread(30, 1000); got[else2] != 0 {
		t.Errorf("spread %v at the rate before, to where nothing came from", got)
	}
}

// An unvalidated locator of a record gets its share up to ten packets, then up to twice
// what came from there; a validated one carries the rest, and nothing is lost.
func TestAllowanceBesidesAValidatedLocator(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(unvalidated(1, there, else1))
	if got := r.spread(100, 1000); got[else1] != 10 || got[there] != 90 {
		t.Errorf("spread %v", got)
	}
	// 8 packets of 1048 bytes: 16,768 may have gone there, 10,480 have.
	for range 8 {
		r.ingress(fromPeer(else1, none, ip6.UDP, udp(1000)))
	}
	if got := r.spread(100, 1000); got[else1] != 6 || got[there] != 94 {
		t.Errorf("spread %v after packets from there", got)
	}
	p := unvalidated(2, there, else1)
	p.Unvalidated = nil
	r.upsert(p)
	if got := r.spread(100, 1000); got[else1] != 50 {
		t.Errorf("spread %v once it is proven", got)
	}
	r.wantKinds("trial", More, More, More, More)
}

// What an unvalidated locator may not get goes to a validated one that is listed,
// though less preferred, and nothing else does.
func TestAllowanceWithAReserve(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := unvalidated(1, else1)
	p.Reserve = entryFor(there).Paths
	r.upsert(p)
	counted := r.counted(func() {
		if got := r.spread(100, 1000); got[else1] != 10 || got[there] != 90 {
			t.Errorf("spread %v", got)
		}
	})
	if counted["drop_unvalidated"] != 0 {
		t.Errorf("counted %v", counted)
	}
	p.Seq, p.Unvalidated = 2, nil
	r.upsert(p)
	if got := r.spread(100, 1000); got[else1] != 100 {
		t.Errorf("spread %v once it is proven", got)
	}
}

// A GSO packet is as many packets as a device makes of it.
func TestAllowanceOfSuperPackets(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(unvalidated(1, there, else1))
	sent := 0
	for range 20 {
		p := r.send(ip6.UDP, udp(3000), gso)
		if p.Dst.L64 == else1 {
			sent++
		}
	}
	if sent > 5 {
		t.Errorf("%d GSO packets of three packets each went to an unvalidated locator", sent)
	}
}

// With no validated locator at all, an unvalidated one gets ten packets and then at
// most the rate before, for a while, then nothing. TCP and people hear of it.
func TestAllowanceWithoutAValidatedLocator(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(unvalidated(1, else1))
	var got map[roam.L64]int
	counted := r.counted(func() { got = r.spread(30, 1000) })
	if got[else1] != 10 || got[0] != 20 || counted["drop_unvalidated"] != 20 {
		t.Errorf("spread %v, counted %v", got, counted)
	}
	// What was sent in the window before, 20 packets, is the rate.
	p := unvalidated(2, else2)
	p.Grace = time.Hour
	r.upsert(p)
	r.setLive(p.Key, func(l *noted) {
		l.RateLast, l.LastTx, l.Tx = 20*1048, ticks(time.Duration(dataplane.Monotonic(time.Now()))), 0
	})
	if got := r.spread(30, 1000); got[else2] < 20 || got[0] == 0 {
		t.Errorf("spread %v at the rate before", got)
	}
}

// A session that sends little, so that no rate of it is noted, goes on after a move.
func TestAllowanceOfASlowSession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := unvalidated(1, else1)
	p.Grace = time.Hour
	r.upsert(p)
	if got := r.spread(30, 20); got[else1] < 14 || got[else1] > 20 || got[0] == 0 {
		t.Errorf("spread %v of 68 bytes each, want as many as are %d bytes, and some more", got, slow)
	}
}

// The hint is a locator that nothing proves but the nonce.
func TestAllowanceOfTheHint(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.ingress(fromPeer(else1, theirNonce, ip6.UDP, udp(1000)))
	if got := r.spread(50, 1000); got[else1] != 2 || got[there] != 48 {
		t.Errorf("spread %v", got)
	}
}

// Locators that were looked up are not not validated while a session is being
// set up.
func TestAllowanceNotAtSetUp(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := unvalidated(1, there)
	p.State, p.RemoteNonce = ilnp.Initiated, none
	r.upsert(p)
	if got := r.spread(30, 1000); got[there] != 30 {
		t.Errorf("spread %v", got)
	}
}

// A pending peer's place is not validated at all: twice what it sent, and ten packets where
// a record has it. What exceeds that waits with the daemon until it is validated.
func TestAllowanceOfPending(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	answered := func(n int) (sent int) {
		for range n {
			if v, _ := r.egress(packet(session(ours), session(from.NID), ip6.UDP, udp(1000))); v == redirect {
				sent++
			}
		}
		return sent
	}
	first := packet(from, at(here, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, udp(1000)))
	r.ingress(first)
	if n := answered(30); n != 2 {
		t.Errorf("%d answers to one packet", n)
	}
	for range 4 {
		r.ingress(first)
	}
	if n := answered(30); n != 8 {
		t.Errorf("%d more after four more packets", n)
	}
	if evs := r.events(); evs[len(evs)-1].Kind != PendingPeer || evs[0].Kind != Miss {
		t.Errorf("events %v, want those that wait", evs)
	} else if miss := evs[0]; miss.Remote != from || miss.Local != at(here, ours) || miss.Nonce != theirNonce ||
		miss.OwnNonce != evs[len(evs)-1].OwnNonce || miss.Link != loopback {
		t.Errorf("event %+v, want whom it is for", miss)
	}
	listed := unlistedPeer(2)
	r.must(r.SetRecord(Record{NID: listed.NID, Locators: []roam.L64{listed.L64}}))
	from = listed
	r.ingress(packet(from, at(here, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, udp(20))))
	if n := answered(30); n != 10 {
		t.Errorf("%d answers to a record's locator", n)
	}
}
