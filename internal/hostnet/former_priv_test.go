package hostnet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// TestFormerIdentifier: a host that comes back under another Node Identifier keeps the addresses of its
// former one, in the network that it finds and in the next one. The session address goes as soon
// as no session needs it, the others when nobody asks for the host under it any more.
func TestFormerIdentifier(t *testing.T) {
	const nextNID roam.NID = 0x0211_22ff_fe33_7777
	host, router := hostAndRouter(t)
	cfg := testConfig(t)
	first := openIn(t, host, cfg)
	setupIn(t, first)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netA))
	next(t, first, present(netA))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	cfg.NID, cfg.Former = nextNID, testNID
	h := openIn(t, host, cfg)
	d := setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	sound := func(l roam.L64) func(Event) bool {
		return func(ev Event) bool {
			if bad, is := ev.(Trouble); is {
				t.Errorf("trouble: %v", bad)
			}
			at, is := ev.(LocatorChanged)
			return is && present(l)(at)
		}
	}
	next(t, h, sound(netA))
	router.Advertise("lan", advert(netB))
	next(t, h, sound(netB))
	stand := func(device string, l roam.L64, nids ...roam.NID) {
		t.Helper()
		testutil.Eventually(t, 30*time.Second, func() bool {
			all := host.Run("ip", "-6", "-o", "addr", "show", "dev", device)
			for _, nid := range []roam.NID{testNID, nextNID} {
				addr := " " + roam.ILV{NID: nid, L64: l}.Addr().String() + "/128"
				if strings.Contains(all, addr) != slices.Contains(nids, nid) {
					return false
				}
			}
			return true
		}, fmt.Sprintf("%s has %v of %v", device, nids, l))
	}
	stand("upA", netA, testNID, nextNID)
	stand("upA", netB, testNID, nextNID)
	stand(d.Name, roam.DefaultSessionPrefix, testNID, nextNID)
	h.KeepFormer(true, false)
	stand(d.Name, roam.DefaultSessionPrefix, nextNID)
	stand("upA", netA, testNID, nextNID)
	h.KeepFormer(false, false)
	stand("upA", netA, nextNID)
	stand("upA", netB, nextNID)
}
