package acceptance

import (
	"testing"
	"time"

	"roam/lab/linkem"
)

// TestFirstContactBesideADeadLink: the link that a host prefers passes nothing, as it has since
// before the host talked to anybody, while carrier, route and prefix stay. The first datagrams of
// a new session are answered within 1 s and a round trip, by the other link.
func TestFirstContactBesideADeadLink(t *testing.T) {
	const delay = 5 * time.Millisecond // of an access link, each way; only one host has one
	for _, mode := range []string{"soft", "duality"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, "first", delay, place{"mn", 2, true}, place{"cn", 1, false})
			mn, cn := w.newHost("mn", settings{mode: mode}).start(), w.newHost("cn", settings{mode: mode}).start()
			mn.roam("locator", "disable", "net2")
			mn.roam("locator", "enable", "net2") // now the newest, which soft uses
			if mode == "soft" {
				mn.becomes("net2")
			}
			if err := w.links["mn/net2"].SetBoth(linkem.Params{Delay: delay, Cut: true}); err != nil {
				t.Fatal(err)
			}
			u := w.udp(t, "mn", "cn", "cn", 7001, 100)
			up, down, err := u.Stop(w.within(patience), drain)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Unix(0, up.Sent[0].At)
			there, _ := up.FirstAfter(began, began)
			back, ok := down.FirstAfter(began, began)
			t.Logf("first datagram arrived after %v, first of the other host after %v", there.Sub(began), back.Sub(began))
			if !ok || back.Sub(began) > time.Second+2*delay {
				t.Errorf("want both within 1 s and a round trip of %v", 2*delay)
			}
			noLeak(t, mn, cn)
		})
	}
}
