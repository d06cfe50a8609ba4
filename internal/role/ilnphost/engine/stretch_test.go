package engine

import (
	"errors"
	"testing"
	"time"

	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/multipath"
)

// windowKernel is a kernel that sets windows.
type windowKernel struct {
	kernel
	set []dataplane.Window
	err error
}

func (k *windowKernel) SetWindows(all []dataplane.Window) ([]dataplane.Window, error) {
	k.set = append(k.set, all...)
	return all, k.err
}

// What the core wants of windows is done to the connections of the session in their buckets, and to no others.
func TestWindowsAreSet(t *testing.T) {
	for name, failure := range map[string]error{"set": nil, "not possible": errors.New("no struct_ops")} {
		e, _ := withSession(t, ilnp.Established)
		filling := func(port uint16) dataplane.Connection {
			c := stalledTo(e, peerNID, port)
			c.Window, c.SRTT, c.MSS, c.PeerWindow, c.Control = 50, 10*time.Millisecond, 1000, 1<<20, "cubic"
			return c
		}
		bucket := func(port uint16) int { return multipath.Bucket(uint64(ourNID), uint64(peerNID), port, 443) }
		other := uint16(4002)
		for bucket(other) == bucket(4001) {
			other++
		}
		another := filling(4001)
		another.Remote = session(e, peerNID+1, 443)
		k := &windowKernel{kernel: kernel{all: []dataplane.Connection{filling(4001), filling(other), another}}, err: failure}
		e.cfg.Plane = k
		w := ilnp.Stretch{Key: sessionKey, Stretch: multipath.Stretch{
			Buckets: 1 << bucket(4001), RTT: 10 * time.Millisecond, Gap: 30 * time.Millisecond, Gain: 1, Rate: 50e6,
		}}
		e.execute(time.Now(), w)
		if !e.assistNow(t, time.Now()) {
			t.Fatalf("%s: no list", name)
		}
		e.windowsSet(time.Now(), <-e.windows)
		if len(k.set) != 1 || k.set[0].Local.Port() != 4001 || k.set[0].Remote != session(e, peerNID, 443) ||
			k.set[0].Segments != 200 || k.set[0].Pace == 0 || k.set[0].Most < 1000 {
			t.Errorf("%s: %+v", name, k.set)
		}
		w.Phase = multipath.StretchEnds
		e.execute(time.Now(), w)
		if !e.assistNow(t, time.Now()) {
			t.Errorf("%s: no list after the windows were set", name)
		}
	}
}
