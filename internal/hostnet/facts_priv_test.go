package hostnet

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam/internal/hostnet/nettest"
)

// An address on the loopback is an own one as soon as it is there, and no longer once it is gone.
func TestOwnOnLoopback(t *testing.T) {
	host := nettest.New(t)
	done := make(chan struct{})
	defer close(done)
	var facts <-chan Facts
	var err error
	host.Do(func() { facts, err = FollowFacts(done) })
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("2001:db8:a::1")
	for _, verb := range []string{"add", "del"} {
		host.Run("ip", "addr", verb, own.String()+"/128", "dev", "lo")
		deadline := time.After(soon)
		for is := verb != "add"; is != (verb == "add"); {
			select {
			case f := <-facts:
				is = slices.Contains(f.Own, own)
			case <-deadline:
				t.Fatalf("%s: own is %t", verb, is)
			}
		}
	}
}
