package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
)

// TestNewLinkReachesThePreferred: nothing arrives at the locator that the correspondent prefers, so data go to its
// other one, from one or two links. A new link comes from which the preferred one works, and data take that path within 20 s.
func TestNewLinkReachesThePreferred(t *testing.T) {
	for links := 1; links <= 2; links++ {
		n := New(1)
		n.Acquainted = true
		cfg := func(nid roam.NID, mode ilnp.Mode) ilnp.Config {
			return ilnp.Config{
				NIDs: []roam.NID{nid}, Mode: mode, Silence: multipath.Normal.Timing().Silence,
				Liveness: func(string) multipath.Level { return multipath.Normal },
			}
		}
		mobile := n.AddNode("mobile", cfg(mobileNID, ilnp.Duality))
		w := &world{Network: n, mobile: mobile, server: n.AddNode("server", cfg(serverNID, ilnp.Soft))}
		for i := range links {
			w.mobile.Up(roam.LinkID(i+1), mobileLink(i), near, roam.Infinite)
		}
		w.server.Up(1, netS, near, roam.Infinite)
		w.mobile.Know(w.server, netS)
		w.server.Know(w.mobile)
		w.startEvery(t, 5*time.Millisecond, false)
		w.server.Flow(w.mobile, 5*time.Millisecond, false)
		w.server.Up(2, netT, near, roam.Infinite)
		w.Run(5 * time.Second)
		fresh := mobileLink(links)
		for _, p := range w.mobile.peer(w.server).Paths {
			if p.Remote != netT {
				t.Fatalf("%d links: data go to %v, and %v is preferred", links, p, netT)
			}
		}
		w.Tap = func(p Packet) *Packet {
			if (p.Src.L64 == netT || p.Dst.L64 == netT) && p.Src.L64 != fresh && p.Dst.L64 != fresh {
				return nil
			}
			return &p
		}
		w.Run(10 * time.Second)
		w.mobile.Up(roam.LinkID(links+1), fresh, near, roam.Infinite)
		w.Run(20 * time.Second)
		paths := w.mobile.peer(w.server).Paths
		if len(paths) != 1 || paths[0].Local.L64 != fresh || paths[0].Remote != netT {
			t.Errorf("%d links: data take %v, not that from the new link to the preferred locator", links, paths)
		}
	}
}
