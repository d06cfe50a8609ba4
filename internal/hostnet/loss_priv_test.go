package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
)

// What the kernel could not deliver is read anew.
func TestLostNotifications(t *testing.T) {
	host, router := hostAndRouter(t)
	router.Advertise("lan", advert(netA))
	h := openIn(t, host, testConfig(t))
	if err := h.watch.SetReceiveBufferSize(1, true); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	next(t, h, present(netA))
	// More changes than the least buffer holds, while nobody is scheduled to read.
	var script strings.Builder
	for i := range 300 {
		fmt.Fprintf(&script, "addr add 2001:db8:c:%x::1/64 dev upA nodad\n", i)
	}
	for i := range 299 {
		fmt.Fprintf(&script, "addr del 2001:db8:c:%x::1/64 dev upA\n", i)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	host.Run("ip", "-batch", file)
	last := roam.L64(0x2001_0db8_000c_0000) + 299
	testutil.Eventually(t, soon, func() bool {
		s := h.Snapshot().Locators
		return len(s) == 2 && s[0].L64 == netA && s[1].L64 == last
	}, "the two prefixes that are left")
}

// TestFailedDumpIsRepeated: what a dump should have told is not lost when the dump fails, whatever the kernel tells
// before the next attempt; nor is what a router advertises meanwhile.
func TestFailedDumpIsRepeated(t *testing.T) {
	h, host, router := hostWithLocator(t)
	fails := &unix.Timeval{Sec: -1} // a deadline in the past
	if err := h.kernel.socket.SetSendTimeout(fails); err != nil {
		t.Fatal(err)
	}
	host.Run("ip", "-6", "route", "add", "default", "via", "fe80::77", "dev", "upA", "metric", "7")
	next(t, h, func(Trouble) bool { return true })
	host.Run("ip", "-6", "neigh", "add", "fe80::78", "lladdr", "02:00:00:00:00:78", "dev", "upA")
	if err := h.kernel.socket.SetSendTimeout(&unix.Timeval{}); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netB))
	want := netip.MustParseAddr("fe80::77")
	var seen, heard bool
	for !seen || !heard {
		next(t, h, func(e Event) bool {
			switch e := e.(type) {
			case UplinkChanged:
				seen = seen || e.Uplink.NextHop == want
			case LocatorChanged:
				heard = heard || e.Present && e.L64 == netB
			}
			return seen || heard
		})
	}
}

// After a loss nothing old is left to read, and the next change is told.
func TestDrain(t *testing.T) {
	host, _ := hostAndRouter(t)
	var s *subscription
	var err error
	host.Do(func() { s, err = listen() })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err = s.SetReceiveBufferSize(16<<10, true); err != nil {
		t.Fatal(err)
	}
	// The kernel notifies of routes within the request, and of addresses some time later.
	for i := range 100 {
		host.Run("ip", "-6", "route", "add", fmt.Sprintf("2001:db8:c:%x::/64", i), "dev", "upA")
	}
	if _, _, err = s.Receive(); !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("no loss: %v", err)
	}
	if err = s.drain(); err != nil {
		t.Fatal(err)
	}
	late, old := netip.MustParseAddr("2001:db8:d::1"), netip.MustParsePrefix("2001:db8:c::/48")
	host.Run("ip", "addr", "add", late.String()+"/64", "dev", "upA", "nodad")
	if err = s.SetReceiveTimeout(&unix.Timeval{Sec: int64(soon / time.Second)}); err != nil {
		t.Fatal(err)
	}
	for {
		messages, _, err := s.Receive()
		if err != nil {
			t.Fatalf("the change after the loss is not told: %v", err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.RTM_NEWROUTE:
				if got, _ := netip.AddrFromSlice(attrs(m.Data, unix.SizeofRtMsg)[unix.RTA_DST]); old.Contains(got) {
					t.Fatalf("told after the loss: route to %s", got)
				}
			case unix.RTM_NEWADDR:
				if got, _ := netip.AddrFromSlice(attrs(m.Data, sizeIfAddr)[unix.IFA_ADDRESS]); got != late {
					t.Fatalf("told after the loss: %s, want %s", got, late)
				}
				return
			}
		}
	}
}
