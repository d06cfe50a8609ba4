package acceptance

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

// The algorithms of the associations: those that all kernels with ESP have. A test needs no
// secret keys.
const (
	espCipher = "0x00112233445566778899aabbccddeeff"
	espDigest = "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// TestESP: between session addresses, the kernel's IPsec protects all data of a session in
// transport mode, and one pair of associations lives through soft handoffs without loss.
// Policies at both ends demand ESP in both directions, so what arrives was protected.
func TestESP(t *testing.T) {
	w := newWorld(t, "esp", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	err := errors.Join(w.protect("mn", "cn"), w.protect("cn", "mn"))
	t.Logf("associations and policies: %v", err)
	testutil.NeedKernel(t, "ESP", err == nil)
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1")
	began := time.Now()
	c := w.tcp(t, "mn", "cn", "cn", 7101, true)
	u := w.udp(t, "mn", "cn", "cn", 7100, 100)
	mn.reaches("cn", "established")
	for _, next := range []string{"net2", "net1"} {
		was := mn.active()[0]
		w.cable("mn", next, true)
		mn.becomes(next)
		mn.sendsFrom("cn", next)
		quiet(t, w, "mn", was)
		w.cable("mn", was, false)
		mn.loses(was)
		flows(t, u, 50)
		flows(t, c, 50)
	}
	up, down := w.lossless(t, u, began)
	if _, err := c.Stop(w.within(patience)); err != nil {
		t.Error(err)
	}
	sent := uint64(up.Count(began, time.Now()).Written + down.Count(began, time.Now()).Written)
	for _, h := range []*host{mn, cn} {
		if n := w.associated(h.name); n < sent {
			t.Errorf("the associations of %s have carried %d packets of more than %d", h.name, n, sent)
		}
	}
	noLeak(t, mn, cn)
}

// protect gives a host associations with a peer, and policies that demand them, between
// their session addresses.
func (w *world) protect(name, peer string) error {
	own, other := w.session(name).String(), w.session(peer).String()
	for _, d := range []struct{ dir, src, dst string }{{"out", own, other}, {"in", other, own}} {
		ends := []string{"src", d.src, "dst", d.dst}
		state := slices.Concat([]string{"ip", "xfrm", "state", "add"}, ends, []string{
			"proto", "esp", "spi", fmt.Sprintf("0x%x", 0x100+w.index[w.from(d.src)]), "mode", "transport",
			"enc", "cbc(aes)", espCipher, "auth-trunc", "hmac(sha256)", espDigest, "128", "replay-window", "32",
		})
		policy := slices.Concat([]string{"ip", "xfrm", "policy", "add"}, ends, []string{
			"dir", d.dir, "tmpl", "proto", "esp", "mode", "transport", "level", "required",
		})
		for _, argv := range [][]string{state, policy} {
			if out, err := w.run(name, argv...); err != nil {
				return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
			}
		}
	}
	return nil
}

// from is the host with a session address.
func (w *world) from(address string) string {
	at := slices.IndexFunc(w.places, func(p place) bool { return w.session(p.name).String() == address })
	return w.places[at].name
}

var packetsOf = regexp.MustCompile(`(?s)lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)`)

// associated counts the packets that the associations of a host have carried.
func (w *world) associated(name string) (sum uint64) {
	for _, m := range packetsOf.FindAllStringSubmatch(w.must(name, "ip", "-s", "xfrm", "state"), -1) {
		n, _ := strconv.ParseUint(m[1], 10, 64)
		sum += n
	}
	return sum
}
