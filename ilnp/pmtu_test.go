package ilnp

import (
	"testing"

	"roam"
)

// TestNarrowPath: where a path takes 1280 bytes and no nonce besides, the entry says so, until the
// session uses another path.
func TestNarrowPath(t *testing.T) {
	for mtu, want := range map[int]bool{1280: true, 1287: true, 1288: false, 1400: false, 0: true} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		seq := b.entries[theKey].Seq
		for range 2 {
			b.HandleTooBig(b.now, theKey, mtu)
			b.drain()
		}
		if e := b.entries[theKey]; e.Narrow != want || want && e.Seq != seq+1 {
			t.Errorf("%d bytes: narrow %v, entry %d, before that %d", mtu, e.Narrow, e.Seq, seq)
		}
		b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 100))))
		if e := b.entries[theKey]; e.Narrow || len(e.Paths) != 1 || e.Paths[0].Remote != netQ {
			t.Errorf("%d bytes: of the next path %+v", mtu, e)
		}
	}
}

// TestBlackHoleIsNarrow: where nobody says Packet Too Big, the size that our own stack is told
// leaves no space for the nonce either.
func TestBlackHoleIsNarrow(t *testing.T) {
	b := newBench(t, withUDP)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	s := b.sessions[theKey]
	s.size.small, s.size.asked, s.size.path, s.asks = true, true, s.entry.Paths[0], true
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, Asks: true}})
	b.drain()
	if !b.entries[theKey].Narrow {
		t.Error("full packets have the nonce")
	}
}
