package ilnphost

import (
	"testing"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// The report of a move may have gone to nobody: a successor reads the hint, and its session follows
// until the next entry. A hint that a MAC gave is dropped, as the peer retransmits its update.
func TestHintsOfEarlierProcess(t *testing.T) {
	for name, c := range map[string]struct {
		entry  ilnp.Entry
		moved  []byte
		hints  int
		target roam.L64 // of the same entry, which the successor writes
	}{
		"by nonce": {entryFor(there), fromPeer(else1, theirNonce, ip6.UDP, udp(9)), 1, else1},
		"by MAC":   {keyedFor(), moveTo(else1, 101).packet(t), 0, there},
		"none":     {entryFor(there), fromPeer(there, theirNonce, ip6.UDP, udp(9)), 0, there},
	} {
		r := newRig(t)
		r.uplink(here)
		r.upsert(numbered(1))
		r.upsert(c.entry)
		r.ingress(c.moved)
		if got := r.send(ip6.UDP, udp(9)); name != "none" && got.Dst.L64 != else1 {
			t.Fatalf("%s: sends to %v before the restart", name, got.Dst.L64)
		}
		r.restart()
		r.uplink(here)
		hints, err := r.Hints()
		r.must(err)
		want := at(else1, theirs)
		if len(hints) != c.hints || c.hints > 0 && (hints[0].Kind != LocatorSeen || hints[0].Key != c.entry.Key || hints[0].Remote != want) {
			t.Errorf("%s: %+v", name, hints)
		}
		r.must(r.Sync([]ilnp.Entry{numbered(1), c.entry}))
		if got := r.send(ip6.UDP, udp(9)); got.Dst.L64 != c.target {
			t.Errorf("%s: sends to %v", name, got.Dst.L64)
		}
		bare := r.counted(func() { r.ingress(fromPeer(else1, none, ip6.UDP, udp(9))) })["rx_packets"]
		if bare != uint64(c.hints) {
			t.Errorf("%s: %d packets without nonce received from there", name, bare)
		}
		c.entry.Seq = r.known[c.entry.Key].Seq + 1
		r.upsert(c.entry)
		if hints, err = r.Hints(); err != nil || len(hints) > 0 {
			t.Errorf("%s: %+v of an entry that is replaced, %v", name, hints, err)
		}
	}
}
