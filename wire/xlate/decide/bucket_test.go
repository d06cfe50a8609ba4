package decide

import (
	"math/rand/v2"
	"testing"

	"roam"
	"roam/multipath"
)

// The daemon finds the bucket of a flow as the programs do, and so does the other end.
func TestBucket(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := &Session{LocalNID: roam.NID(g.Uint64()), RemoteNID: roam.NID(g.Uint64())}
		near, far := uint16(g.Uint32()), uint16(g.Uint32())
		want := int(p.bucket(portsOf(near, far)))
		got := multipath.Bucket(uint64(p.LocalNID), uint64(p.RemoteNID), near, far)
		back := multipath.Bucket(uint64(p.RemoteNID), uint64(p.LocalNID), far, near)
		if got != want || back != want {
			t.Fatalf("bucket of ports %d and %d is %d, %d at the other end, want %d", near, far, got, back, want)
		}
	}
}
