package ilnp_test

import (
	"crypto/rand"
	"fmt"
	"time"

	"roam"
	"roam/ilnp"
)

// A core is fed with what happens and asked what to do about it: here its host
// gets a locator, and an application sends to a correspondent that is known.
func Example() {
	const own, peer roam.NID = 0x0200_0000_0000_0001, 0x0200_0000_0000_0002
	now := time.Now()
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{own}, Rand: rand.Reader})
	if err != nil {
		fmt.Println(err)
		return
	}
	core.HandleLocator(now, roam.PrefixEvent{
		LinkLocator: roam.LinkLocator{Link: 2, L64: 0x2001_0db8_000a_0000}, Present: true, Preferred: time.Hour,
	})
	core.AddPeer(now, ilnp.Peer{NID: peer, Locators: []ilnp.RemoteLocator{{L64: 0x2001_0db8_0005_0000, Lifetime: roam.Infinite}}})
	core.HandleObservation(now, ilnp.Observation{Trigger: ilnp.SeenMiss, Key: ilnp.SessionKey{Local: own, Remote: peer}})
	for {
		o, ok := core.Poll()
		if !ok {
			break
		}
		switch o := o.(type) {
		case ilnp.Notify:
			fmt.Println("tell:", o.Event.Kind)
		case ilnp.Upsert:
			fmt.Println("write entry:", o.Entry.State, o.Entry.Paths)
		case ilnp.Transmit:
			fmt.Println("send", len(o.Packet), "bytes from link", o.Link)
		case ilnp.Release:
			fmt.Println("let the first packets go")
		}
	}
	// Output:
	// tell: locator added
	// tell: handoff started
	// tell: handoff done
	// tell: session started
	// write entry: initiated [{2001:0db8:000a:0000 on link 2 2001:0db8:0005:0000}]
	// let the first packets go
	// send 72 bytes from link 2
}
