package acceptance

import (
	"strings"
	"testing"
	"time"

	"roam/lab/linkem"
)

// TestVariants moves a host under load with every form that the RFCs leave
// open, each in the configuration of both ends.
func TestVariants(t *testing.T) {
	needs(t, "curl")
	w := newWorld(t, "variants", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	mn, cn := w.newHost("mn", settings{}), w.newHost("cn", settings{})
	for i, lines := range []string{
		`nonce_length = 12`,
		`lu_format = "draft"`,
		`checksum = "rfc6741"`,
		`nonce_length = 12; lu_format = "draft"; checksum = "rfc6741"`,
	} {
		w.sub(lines, func(t *testing.T) {
			w.cable("mn", "net2", false)
			for _, n := range []*host{mn, cn} {
				n.write(settings{more: "[ilnp]\n" + strings.ReplaceAll(lines, "; ", "\n") + "\n"})
				n.start()
			}
			mn.becomes("net1")
			variant(t, w, mn, 7000+10*i)
			noLeak(t, mn, cn)
			for _, n := range []*host{mn, cn} {
				n.down()
				// Each variant begins anew: a record has the peer where it was.
				if err := n.Forget(); err != nil {
					t.Fatal(err)
				}
			}
			w.cable("mn", "net1", true)
		})
	}
}

// variant is one soft handoff with datagrams, a download and large pings.
func variant(t *testing.T, w *world, mn *host, port int) {
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", port, 500)
	curl := w.download(t, "mn", "cn", "cn", port+1, 1_000_000, 0)
	mn.reaches("cn", "established")
	w.must("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-s", "3000", "-W", "3", "cn")
	w.cable("mn", "net2", true)
	mn.becomes("net2")
	mn.sendsFrom("cn", "net2")
	quiet(t, w, "mn", "net1")
	w.cable("mn", "net1", false)
	flows(t, u, 200)
	if err := curl.Wait(w.within(patience)); err != nil {
		t.Error(err)
	}
	w.must("cn", "ping", "-6", "-c", "2", "-i", "0.2", "-s", "3000", "-W", "3", "mn")
	w.lossless(t, u, began)
}

// TestSilentNetwork lets one of several networks fall silent while its link
// seems to be up: traffic leaves it for the others, and takes it up again.
func TestSilentNetwork(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t, "silent", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.roam("locator", "disable", "net1")
	mn.roam("locator", "enable", "net1")
	mn.becomes("net1")
	tcp := w.tcp(t, "mn", "cn", "cn", 7001, true)
	u := w.udp(t, "mn", "cn", "cn", 7000, 500)
	mn.reaches("cn", "established")
	cut := func(silent bool) {
		t.Helper()
		if err := w.links["mn/net1"].SetBoth(linkem.Params{Delay: 5 * time.Millisecond, Cut: silent}); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []string{"soft", "duality"} {
		w.sub(mode, func(t *testing.T) {
			mn.roam("mode", mode)
			cut(true)
			began := time.Now()
			mn.sendsFrom("cn", "net2")
			t.Logf("left after %v", time.Since(began).Round(time.Millisecond))
			flows(t, u, 1000)
			flows(t, tcp, 20_000)
			t.Logf("all flows after %v", time.Since(began).Round(time.Millisecond))
			cut(false)
			if mode == "duality" {
				mn.sendsFrom("cn", "net1", "net2")
				t.Logf("both in use again after %v", time.Since(began).Round(time.Millisecond))
			}
			flows(t, u, 500)
		})
	}
	if _, err := tcp.Stop(w.within(patience)); err != nil {
		t.Error(err)
	}
	noLeak(t, mn, cn)
}
