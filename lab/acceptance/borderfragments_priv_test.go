package acceptance

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// sendFrames sends packets from a link of one host to its other end, past the sender's own programs.
func sendFrames(t *testing.T, from *topo.Host, ifname string, to *topo.Host, there string, packets [][]byte) {
	t.Helper()
	near, far := deviceOf(t, from, ifname), deviceOf(t, to, there)
	err := from.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, p := range packets {
			frame := slices.Concat(far.HardwareAddr, near.HardwareAddr, []byte{0x86, 0xdd}, p)
			to := unix.SockaddrLinklayer{Ifindex: near.Index, Protocol: 0xdd86}
			if err := unix.Sendto(fd, frame, 0, &to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func deviceOf(t *testing.T, h *topo.Host, ifname string) (dev *net.Interface) {
	t.Helper()
	if err := h.Do(func() (err error) { dev, err = net.InterfaceByName(ifname); return err }); err != nil {
		t.Fatal(err)
	}
	return dev
}

// TestBorderFragments has an inside host send a Locator Update of 200 locators in fragments: it
// leaves with the site's locators, and no packet outside has an internal one. Without its last
// fragment it does not leave, and counts.
func TestBorderFragments(t *testing.T) {
	s := newSite(t, site.Policy(0, "none", 50, 50), "")
	seen := filepath.Join(t.TempDir(), "seen.pcap")
	capture, err := s.Provider[0].Capture(t.Context(), "site", seen, 4000, "ip6")
	if err != nil {
		t.Fatal(err)
	}
	inside := roam.ILVFromAddr(site.Internals[0].Addr()).L64
	src := roam.ILV{L64: inside, NID: 0x3003_0000_0000_0001} // of no flow: its nonce is known to nobody
	dst := roam.ILV{L64: roam.ILVFromAddr(site.External.Addr()).L64, NID: site.OutsideNID}
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement}
	for i := range 200 {
		u.Locators = append(u.Locators, ilnp.LocatorEntry{L64: inside + roam.L64(i)<<16, Lifetime: 600})
	}
	whole, err := ilnp.BuildUpdate(src, dst, ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}, u)
	if err != nil {
		t.Fatal(err)
	}
	for id, last := range []int{0, 1} { // fragments that are missing at the end
		parts, err := ip6.Split(whole, 1280, uint32(id))
		if err != nil || len(parts) < 2 {
			t.Fatalf("%d fragments, %v", len(parts), err)
		}
		sendFrames(t, s.InsideHost, "net1", s.Router, "lan", parts[:len(parts)-last])
	}
	var r site.BorderReport
	testutil.Eventually(t, patience, func() bool {
		r, err = site.Report(t.Context(), s.Border)
		return err == nil && len(r.Refused) == 1 && r.Refused[0].Messages == 1
	}, "the message that is not complete is refused")
	if last := r.Refused[0].Last; last.Source != src.Addr() || last.Link != "lan" {
		t.Errorf("the border shows %+v of it", last)
	}
	ping(t, s, "-c", "3", "-i", "0.1") // which leaves after them
	if _, err := capture.Stop(); err != nil {
		t.Error(err)
	}
	packets, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	internal := site.Internals[0].Addr().As16()
	if bytes.Contains(packets, internal[:6]) {
		t.Errorf("an internal locator is in what left")
	}
	var updates int
	for _, provider := range site.Providers[0] {
		l := roam.ILVFromAddr(provider.Addr()).L64
		from := roam.ILV{L64: l, NID: src.NID}.Addr().As16()
		updates += bytes.Count(packets, from[:])
	}
	if updates != 1 {
		t.Errorf("%d updates left, want the one that was complete", updates)
	}
}
