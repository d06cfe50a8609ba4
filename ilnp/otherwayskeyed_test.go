package ilnp

import (
	"testing"
	"time"

	ilnpwire "roam/wire/ilnp"
)

// TestKeyedSetIsNotAcknowledged: a host in the hard mode announces a locator alone at which nothing arrives any more,
// and sends no data, so it misses none. Transmissions of its set from the other locator are acknowledged at the one
// that the set lists, so from the third one on it asks from the other one by an update that lists that, too.
func TestKeyedSetIsNotAcknowledged(t *testing.T) {
	p := established(t)
	p.a.SetMode(p.a.now, Hard)
	p.a.prefix(2, netB, time.Hour)
	for range 50 {
		p.both(100 * time.Millisecond)
	}
	s := p.session(p.a)
	if s.update.state != acknowledged || s.update.lists(netA) || !s.update.lists(netB) {
		t.Fatalf("the set is %+v", s.update)
	}
	p.session(p.b).remotes.find(netB).validate()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Dst.L64 == netB }
	before := len(p.wire)
	p.a.repeatUpdate(p.a.now, s)
	p.a.drain()
	for range 100 {
		p.both(100 * time.Millisecond)
	}
	asked := 0
	for _, b := range p.wire[before:] {
		q, err := ilnpwire.ParsePacket(b)
		if err != nil || q.Src.NID != ownNID || q.Src.L64 != netA || q.Proof != nil {
			continue
		}
		if lu, err := ilnpwire.ParseLocatorUpdate(q.Payload); err == nil && len(lu.Locators) == 2 {
			asked++
		}
	}
	if asked == 0 {
		t.Errorf("no question within %d transmissions", s.update.tries)
	}
}
