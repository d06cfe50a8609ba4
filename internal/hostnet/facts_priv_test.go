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

// A default route that a process removes counts on for routeHold, and no longer: no other message of the kernel has to
// come.
func TestFactsWithoutRoute(t *testing.T) {
	host := nettest.New(t)
	host.Run("ip", "link", "add", "wan0", "type", "veth", "peer", "name", "isp0")
	for _, link := range []string{"wan0", "isp0"} {
		// Without addresses nothing else is told.
		host.Run("ip", "link", "set", link, "addrgenmode", "none", "up")
	}
	host.Run("ip", "-6", "route", "add", "default", "dev", "wan0")
	done := make(chan struct{})
	defer close(done)
	var facts <-chan Facts
	var err error
	host.Do(func() { facts, err = FollowFacts(done) })
	if err != nil {
		t.Fatal(err)
	}
	for _, routed := range []bool{true, false} {
		deadline := time.After(soon)
		for is := !routed; is != routed; {
			select {
			case f := <-facts:
				i := slices.IndexFunc(f.Links, func(u Uplink) bool { return u.Name == "wan0" })
				is = i >= 0 && f.Links[i].Routed
			case <-deadline:
				t.Fatalf("routed is %t", is)
			}
		}
		if routed {
			host.Run("ip", "-6", "route", "del", "default", "dev", "wan0")
		}
	}
}
