package ilnp

import (
	"runtime"
	"testing"
	"time"

	"roam"
)

// read has the core read what it watches, once a second, and one more session. It returns how many
// sessions it watched at most.
func (b *bench) read(during time.Duration, also ...Activity) (most int) {
	for end := b.now.Add(during); b.now.Before(end); {
		watched := b.Watched()
		most = max(most, len(watched))
		as := also
		for _, k := range watched {
			as = append(as[:len(as):len(as)], Activity{Key: k, WithNonce: 1, WithoutNonce: 1, Asks: true})
		}
		b.HandleActivity(b.now, as)
		b.drain()
		b.pass(time.Second)
	}
	return most
}

// TestReadingsFollowWhatGoesOn: a reading looks at sessions that something goes on in, however many
// there are.
func TestReadingsFollowWhatGoesOn(t *testing.T) {
	const all = 500
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	keys := b.many(all, 0)
	if n := b.read(time.Second); n != all {
		t.Errorf("%d of %d new sessions are watched", n, all)
	}
	b.read(time.Minute)
	if n := b.read(time.Minute); n != 0 {
		t.Errorf("%d idle sessions are watched", n)
	}
	busy := Activity{Key: keys[3], LastTx: b.now, LastRx: b.now, WithNonce: 1, WithoutNonce: 1, Asks: true}
	if n := b.read(time.Minute, busy); n != 1 {
		t.Errorf("%d sessions are watched while one is in use", n)
	}
	b.RemovePeer(b.now, keys[3].Remote)
	b.drain()
	if n := len(b.Watched()); n != 0 {
		t.Errorf("%d sessions are watched that have ended", n)
	}
}

// TestWatchedUntilSettled: time alone changes something in these sessions, so they are read
// without packets.
func TestWatchedUntilSettled(t *testing.T) {
	for name, change := range map[string]func(*bench, *session){
		"idle for long":           func(_ *bench, s *session) { s.expiring = true },
		"followed elsewhere":      func(b *bench, s *session) { s.stray(b.now, netR) },
		"dead":                    func(_ *bench, s *session) { s.dead = true },
		"first nonces not over":   func(_ *bench, s *session) { s.late = false },
		"paths of unequal length": func(_ *bench, s *session) { s.entry.Long = s.entry.Paths },
		"connections by path":     func(b *bench, s *session) { s.perFlow = s.perFlow.Again(b.now) },
		"wanted by path":          func(b *bench, s *session) { s.multipath.HandleWish(b.now, true) },
		"just used":               func(b *bench, s *session) { s.lastTx = b.now },
		"just announced":          func(b *bench, s *session) { s.update.first = b.now },
		"in UDP": func(b *bench, s *session) {
			s.lastTx = b.now.Add(-encapMax)
			s.passages = map[Path]passage{s.entry.Paths[0]: {encap: true, every: encapMax}}
		},
		"not known to run Roam": func(b *bench, s *session) { s.lastTx, s.asks = b.now.Add(-encapMax), false },
		"plain until asked again": func(b *bench, s *session) {
			s.state, s.fallback, s.used = Plain, withoutILNP, b.now
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *Config) { c.UDPPort = 5000 })
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			b.read(2 * time.Minute)
			s := b.sessions[theKey]
			if goesOn(b.Core, b.now, s) {
				t.Fatal("watched before")
			}
			if change(b, s); !goesOn(b.Core, b.now, s) {
				t.Error("not watched")
			}
		})
	}
}

// TestPeersAreAddedWithoutAWalk: what is allocated to add a peer does not grow with the sessions.
func TestPeersAreAddedWithoutAWalk(t *testing.T) {
	const all, most = 2000, 16 << 10
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	keys := b.many(all, 0)
	spent := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	p := Peer{NID: keys[0].Remote, Locators: []RemoteLocator{{L64: netQ, Preference: 10, Lifetime: roam.Infinite}}}
	if n := spent(func() { b.AddPeer(b.now, p) }); n > most {
		t.Errorf("%d bytes to add a peer among %d sessions", n, all)
	}
	if n := spent(func() { b.RemovePeer(b.now, p.NID) }); n > most {
		t.Errorf("%d bytes to remove a peer among %d sessions", n, all)
	}
}
