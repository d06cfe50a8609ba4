package ilnphost

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// More of the smallest records than the urgent ring has room for.
const ringful = 4096

// A correspondent that sends more control messages than the ring has room for
// gets its share of it, and another one is heard in the meantime.
func TestRingIsShared(t *testing.T) {
	for name, flood := range map[string]func(t *testing.T, r *rig) []byte{
		"updates":         func(t *testing.T, _ *rig) []byte { return update(t, there, theirNonce) },
		"probe's replies": func(t *testing.T, r *rig) []byte { return echo(t, there, theirNonce, false, r.host.ProbeID) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.uplink(here)
			p, other := entryFor(there), entryFor(there)
			other.Key.Remote, other.RemoteNID, other.RemoteNonce = theirs+1, theirs+1, unlistedNonce(1)
			r.upsert(p)
			r.upsert(other)
			b := flood(t, r)
			got := r.counted(func() {
				for range ringful {
					r.ingress(b)
				}
			})
			handed := got["control_handed_over"]
			if handed < shareBurst || handed > ringful/2 || got["drop_ring_share"] != ringful-handed || got["drop_ring_full"] != 0 {
				t.Errorf("counted %v", got)
			}
			if _, ok, err := r.LastRefused("drop_ring_share"); !ok || err != nil {
				t.Errorf("nothing for the security log: %v", err)
			}
			lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement,
				Locators: []ilnpwire.LocatorEntry{{L64: there, Preference: 10, Lifetime: 600}}}
			r.ingress(mustPacket(t)(ilnpwire.BuildUpdate(at(there, theirs+1), at(here, ours), other.RemoteNonce, lu)))
			evs := r.events()
			if last := evs[len(evs)-1]; uint64(len(evs)) != handed+1 || last.Kind != Control || last.Key != other.Key {
				t.Errorf("%d events, the last one %v of %v", len(evs), last.Kind, last.Key)
			}
			r.setLive(p.Key, func(l *noted) {
				l.ToldUntil -= uint32(time.Minute >> 16)
				l.UpdatesUntil -= uint32(time.Minute >> 16)
			})
			r.ingress(b)
			r.wantKinds("a minute later", Control)
		})
	}
}

// shareBurst is SHARE_BURST.
const shareBurst = 64

// A large message takes more of a session's share than a small one.
func TestShareByBytes(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement}
	for i := range 100 {
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{L64: there + roam.L64(i), Preference: 10, Lifetime: 600})
	}
	b := mustPacket(t)(ilnpwire.BuildUpdate(at(there, theirs), at(here, ours), theirNonce, lu))
	each := 1 + len(b)/256
	got := r.counted(func() {
		for range shareBurst {
			r.ingress(b)
		}
	})
	if n := got["control_handed_over"]; n < uint64(shareBurst/each) || n > uint64(shareBurst/each)+5 {
		t.Errorf("%d messages of %d bytes each, counted %v", shareBurst, len(b), got)
	}
}

// A correspondent that is elsewhere with every packet is followed as long as its
// share lasts. What it sends is taken all the same.
func TestShareOfLocators(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	from := [2][]byte{}
	for i, l := range []roam.L64{else1, else2} {
		from[i] = echo(t, l, theirNonce, true, 1)
	}
	got := r.counted(func() {
		for i := range ringful {
			r.ingress(from[i%2])
		}
	})
	told := uint64(len(r.events()))
	if told < shareBurst || told > ringful/2 || got["rx_echo_reflected"] != ringful || got["drop_ring_full"] != 0 || got["drop_ring_share"] == 0 {
		t.Errorf("%d events, counted %v", told, got)
	}
}

// A session of eight paths whose two ends move every 300 ms, with every message
// sent twice, never meets the bound.
func TestShareOfWhoMoves(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	lu, reply := update(t, there, theirNonce), echo(t, there, theirNonce, false, r.host.ProbeID)
	got := r.counted(func() {
		for range 30 {
			for range 2 * 4 { // two updates, and acknowledgements of two of ours
				r.ingress(lu)
			}
			for range 2 * 8 {
				r.ingress(reply)
			}
			r.setLive(p.Key, func(l *noted) {
				l.ToldUntil -= uint32(300 * time.Millisecond >> 16)
				l.UpdatesUntil -= uint32(300 * time.Millisecond >> 16)
			})
		}
	})
	r.events()
	if got["drop_ring_share"] != 0 {
		t.Errorf("counted %v", got)
	}
}
