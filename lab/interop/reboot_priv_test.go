package interop

import (
	"os"
	"path/filepath"
	"testing"
)

// A host that reboots, or whose data plane was removed and made again, answers a
// correspondent that goes on meanwhile with the nonces that it holds: most stacks
// drop another one for as long as they remember the session.
func TestRecordOutlivesAReboot(t *testing.T) {
	for name, speaks := range map[string]bool{"the other goes on": true, "both pause": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "", Stack{NonceAlways: true})
			w.listen(7001)
			w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
			w.answered("UDP to Roam and back")
			w.recorded()
			for range 2 {
				if err := w.roam.Stop(w.ctx); err != nil {
					t.Fatal(err)
				}
				if err := w.roam.Reboot(); err != nil {
					t.Fatal(err)
				}
				if speaks {
					w.peer.SendUDP(nidRoam, 7002, 7001, []byte("is anybody there"))
				}
				if err := w.roam.Start(w.ctx); err != nil {
					t.Fatal(err)
				}
				if err := w.roam.WaitActive(w.ctx, "net2"); err != nil {
					t.Fatal(err)
				}
				before := w.peer.Counts().WrongNonce
				w.answered("UDP to the host that is back")
				if n := w.peer.Counts().WrongNonce - before; n > 0 {
					t.Errorf("%d packets with another nonce than the peer holds", n)
				}
			}
		})
	}
}

// answered has the peer send until it gets an answer.
func (w *world) answered(what string) {
	w.Helper()
	before := w.peer.Datagrams(7002)
	w.eventually(what, func() bool {
		w.peer.SendUDP(nidRoam, 7002, 7001, []byte("hello"))
		return w.peer.Datagrams(7002) > before
	})
}

// recorded waits until the record of the session is on the disk, readable for its
// owner only.
func (w *world) recorded() {
	w.Helper()
	file := filepath.Join(w.mn.Dir(), "state", "sessions")
	w.eventually("the record", func() bool {
		info, err := os.Stat(file)
		if err == nil && info.Mode().Perm() != 0o600 {
			w.Fatalf("%s has mode %v", file, info.Mode())
		}
		return err == nil
	})
}
