package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/wire/ilnp"
)

// stormRate is how many messages a storm has in a second from each side: with both, several times what the
// daemon handles beside other work.
const stormRate = 40_000

// stormBurst is how many it sends at once: after a time without a processor it makes up for that in parts, as all of
// it would fill the links' queues.
const stormBurst = 200

// startStorm sends packets in turn from a link of one host to its other end, at stormRate, past the sender's
// own programs. end stops that, and returns how many were sent.
func startStorm(
	t *testing.T, from *topo.Host, ifname string, to *topo.Host, there string, list ...[]byte,
) (end func() int) {
	t.Helper()
	near, far := deviceOf(t, from, ifname), deviceOf(t, to, there)
	frames := make([][]byte, len(list))
	for i, p := range list {
		frames[i] = slices.Concat(far.HardwareAddr, near.HardwareAddr, []byte{0x86, 0xdd}, p)
	}
	stop, ended, sent := make(chan struct{}), make(chan error), 0
	go func() {
		ended <- from.Do(func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			began, tick := time.Now(), time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				for due := min(int(time.Since(began).Seconds()*stormRate), sent+stormBurst); sent < due; sent++ {
					to := unix.SockaddrLinklayer{Ifindex: near.Index, Protocol: 0xdd86}
					if err := unix.Sendto(fd, frames[sent%len(frames)], 0, &to); err != nil {
						return err
					}
				}
				select {
				case <-tick.C:
				case <-stop:
					return nil
				}
			}
		})
	}()
	return func() int {
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return sent
	}
}

// storm has a node inside and a node outside send Locator Updates of their own flow, every second one with
// a wrong nonce, much faster than the daemon of the border handles them. Meanwhile another inside host
// announces its locator again and again: each update leaves as soon as it has come, and no datagram of its
// flow is lost.
func storm(t *testing.T, s *site.Site) {
	internal := roam.ILVFromAddr(site.Internals[0].Addr()).L64
	inner := roam.ILV{L64: internal, NID: 0x3003_0000_ffff_0001}
	outer := roam.ILV{L64: roam.ILVFromAddr(nowhere.Addr()).L64, NID: 0x2002_0000_ffff_0001}
	here := roam.ILV{L64: roam.ILVFromAddr(site.Providers[0][0].Addr()).L64, NID: inner.NID}
	out, in, wrong := ilnp.Nonce{Len: 4, Bytes: [12]byte{1}}, ilnp.Nonce{Len: 4, Bytes: [12]byte{2}},
		ilnp.Nonce{Len: 4, Bytes: [12]byte{3}}
	echo := func(src, dst roam.ILV, n ilnp.Nonce, request bool) []byte {
		b, err := ilnp.BuildEcho(src, dst, n, request, 1, 1, make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	update := func(src, dst roam.ILV, n ilnp.Nonce) []byte {
		b, err := ilnp.BuildUpdate(src, dst, n, ilnp.LocatorUpdate{
			Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: src.L64, Lifetime: 600}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sendFrames(t, s.InsideHost, "net1", s.Router, "lan", [][]byte{echo(inner, outer, out, true)})
	sendFrames(t, s.Provider[0], "site", s.Router, "wan0", [][]byte{echo(outer, here, in, false)})
	testutil.Eventually(t, patience, func() bool {
		r, err := site.Report(t.Context(), s.Border)
		return err == nil && len(r.Flows) == 2
	}, "the border knows the flow of the storm")

	seen := captureUpdates(t, s, site.InsideNID)
	before := borderCounters(t, s)
	var stormed int
	sent, lost := between(t, s, 500, 2*time.Second, func() {
		inside := startStorm(t, s.InsideHost, "net1", s.Router, "lan", update(inner, outer, out), update(inner, outer, wrong))
		outside := startStorm(t, s.Provider[0], "site", s.Router, "wan0", update(outer, here, in), update(outer, here, wrong))
		defer func() { stormed = inside() + outside() }()
		for round := range 8 {
			seen.announce(t, s, round)
		}
	})
	came, added := seen.stop(t)
	after := borderCounters(t, s)
	excess := after["border_drop_ring_share"] - before["border_drop_ring_share"]
	t.Logf("storm of %d messages, %d beyond the shares, %d for which the ring had no space; %d of %d datagrams lost; "+
		"%d updates came, and left after %v", stormed, excess,
		after["border_drop_ring_full"]-before["border_drop_ring_full"], lost, sent, came, added)
	if lost > 0 || sent < 500 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
	if excess < uint64(stormed)/4 {
		t.Errorf("%d messages of the storm, and %d were beyond the shares", stormed, excess)
	}
	if came != len(added) || came < 8 {
		t.Errorf("%d updates came, and %d left", came, len(added))
	}
	// The sender repeats an update after 250 ms.
	if slices.Sort(added); len(added) > 0 && added[len(added)/2] > 20*time.Millisecond {
		t.Errorf("updates left %v after they had come", added)
	}
}

// updateCaptures are captures of one inside node's Locator Updates on both sides of a border.
type updateCaptures map[string]updateCapture

type updateCapture struct {
	*topo.Capture
	file string
}

func captureUpdates(t *testing.T, s *site.Site, nid roam.NID) updateCaptures {
	t.Helper()
	dir, all := t.TempDir(), updateCaptures{}
	filter := fmt.Sprintf("ip6[16:4] = %#x and ip6[20:4] = %#x and (ip6[48] == 156 or udp port 6740)",
		uint32(nid>>32), uint32(nid))
	for _, link := range []string{"lan", "wan0", "wan1"} {
		file := filepath.Join(dir, link+".pcap")
		c, err := s.Router.Capture(t.Context(), link, file, 300, filter)
		if err != nil {
			t.Fatal(err)
		}
		all[link] = updateCapture{c, file}
	}
	return all
}

// read returns the times of the updates that came from inside, and of those that left.
func (all updateCaptures) read(t *testing.T) (in, out []time.Time) {
	t.Helper()
	var list []packets.Packet
	for link, c := range all {
		l, err := packets.Read(c.file, link)
		if err != nil {
			t.Fatal(err)
		}
		list = packets.Merge(list, l)
	}
	for _, p := range list {
		c, _, ok := p.Control()
		if !ok {
			continue
		}
		if u, ok := c.Update(); !ok || u.Ack {
			continue
		}
		if p.Where == "lan" {
			in = append(in, p.At)
		} else {
			out = append(out, p.At)
		}
	}
	return in, out
}

// announce has the inside host send an update, and waits until one has left.
func (all updateCaptures) announce(t *testing.T, s *site.Site, round int) {
	t.Helper()
	was, err := os.ReadFile(s.Inside.Config)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "# preference\n"
	text, _, _ := bytes.Cut(was, []byte(mark))
	text = fmt.Appendf(slices.Clip(text), "%s[uplinks]\npreference = { net1 = %d }\n", mark, 20+round%2)
	if err := os.WriteFile(s.Inside.Config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	_, before := all.read(t)
	if _, err := s.Inside.Ask(t.Context(), "config", "reload"); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool {
		_, after := all.read(t)
		return len(after) > len(before)
	}, "the border passes an update on")
}

// stop ends the captures. came is how many updates came from inside, added after what time the next one left
// for each of them.
func (all updateCaptures) stop(t *testing.T) (came int, added []time.Duration) {
	t.Helper()
	for _, c := range all {
		if _, err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	in, out := all.read(t)
	for _, at := range in {
		next := slices.IndexFunc(out, func(o time.Time) bool { return !o.Before(at) })
		if next < 0 {
			break
		}
		added, out = append(added, out[next].Sub(at)), out[next+1:]
	}
	return len(in), added
}
