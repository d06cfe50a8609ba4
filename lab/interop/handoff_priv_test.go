package interop

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// stream sends a numbered datagram or a few bytes of a connection each 20 ms, has
// them echoed, and notes when the echoes come.
type stream struct {
	network string
	conn    net.Conn
	done    chan struct{}
	mu      sync.Mutex
	sent    int
	last    time.Time
	came    int
	longest time.Duration
}

// echoed starts a stream to the peer's echo service.
func (w *world) echoed(network string) *stream {
	w.Helper()
	s := &stream{network: network, conn: w.dial(network, EchoPort), done: make(chan struct{}), last: time.Now()}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { close(s.done) })
	go s.write()
	go s.read()
	w.eventually("the first echo over "+network, func() bool { _, n := s.gap(); return n > 10 })
	s.mu.Lock()
	s.longest = 0
	s.mu.Unlock()
	return s
}

func (s *stream) write() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			if _, err := s.conn.Write([]byte("ten bytes")); err != nil {
				return
			}
		}
	}
}

func (s *stream) read() {
	b := make([]byte, 10)
	for {
		if _, err := io.ReadFull(s.conn, b); err != nil {
			return
		}
		s.mu.Lock()
		now := time.Now()
		s.longest = max(s.longest, now.Sub(s.last))
		s.last = now
		s.came++
		s.mu.Unlock()
	}
}

// gap returns the longest time without an echo, the present one included, and how
// many have come.
func (s *stream) gap() (time.Duration, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.longest, time.Since(s.last)), s.came
}

// onNet1 is a world whose second link comes later.
func onNet1(t *testing.T, mode string, s Stack) *world {
	t.Helper()
	w := newWorld(t, mode, "", s)
	if err := w.mn.SetDown("net2"); err != nil {
		t.Fatal(err)
	}
	w.eventually("Roam is on the first link only", func() bool {
		list, err := w.roam.Locators(w.ctx)
		return err == nil && len(list) == 1 && list[0].Link == "net1" && list[0].State == "active"
	})
	return w
}

// moveTo takes the second link up, with the first or without, and waits until it is used.
func (w *world) moveTo(hard bool, active ...string) {
	w.Helper()
	if hard {
		if err := w.mn.SetDown("net1"); err != nil {
			w.Fatal(err)
		}
	}
	if err := w.mn.SetUp("net2"); err != nil {
		w.Fatal(err)
	}
	if err := w.roam.WaitActive(w.ctx, active...); err != nil {
		w.Fatal(err)
	}
}

// A stack that acknowledges no update, and takes nothing from a locator that it does not
// know, keeps its session through a move as long as the old link is up.
func TestNeverAcknowledged(t *testing.T) {
	for mode, active := range map[string][]string{"soft": {"net2"}, "hard": {"net2"}, "duality": {"net1", "net2"}} {
		t.Run(mode, func(t *testing.T) {
			w := onNet1(t, mode, Stack{NeverAcks: true, UnknownSourceDropped: true})
			flows := []*stream{w.echoed("tcp6"), w.echoed("udp6")}
			w.moveTo(false, active...)
			w.eventually("several updates were in vain", func() bool { return w.peer.Counts().Unacked >= 4 })
			for _, s := range flows {
				_, before := s.gap()
				w.eventually("a hundred more echoes over "+s.network, func() bool { _, n := s.gap(); return n > before+100 })
				bound := time.Second // an immediate handoff does not wait, and returns
				if mode != "hard" {
					bound = 500 * time.Millisecond // data never leave
				}
				gap, _ := s.gap()
				t.Logf("%s: longest gap %v", s.network, gap)
				if gap > bound {
					t.Errorf("%s: nothing came for %v, want at most %v", s.network, gap, bound)
				}
			}
		})
	}
}

// A stack that takes updates from known sources only is reached after an immediate
// handoff too.
func TestKnownSourceAfterAHardMove(t *testing.T) {
	strict := Stack{KnownSource: true, UnknownSourceDropped: true, AckToNewest: true, NonceSent: true}
	linux := strict
	linux.NIDChecksums, linux.ControlOverNIDs, linux.Code0Entries16LE, linux.OneLocator = true, true, true, true
	for name, s := range map[string]Stack{"ordinary checksums": strict, "over NIDs": linux} {
		t.Run(name, func(t *testing.T) {
			w := onNet1(t, "soft", s)
			flows := []*stream{w.echoed("tcp6"), w.echoed("udp6")}
			w.moveTo(true, "net2")
			w.knows("the locator after the move", 2)
			for _, s := range flows {
				_, before := s.gap()
				w.eventually("echoes over "+s.network, func() bool { _, n := s.gap(); return n > before+50 })
			}
			if n := w.peer.Counts().StrangeUpdate; n == 0 {
				t.Error("the peer took the first update, so nothing was tested")
			}
			w.eventually("the acknowledgement came", w.settled)
		})
	}
}

// Of 22 locators of a peer the last one is accepted as a source, with its nonce and
// without, and what Roam sends goes where the peer prefers.
func TestManyLocators(t *testing.T) {
	w := newWorld(t, "soft", "", Stack{NonceSent: true})
	w.listen(7001)
	w.echo(w.dial("tcp6", EchoPort), 100)
	var all []uint64
	for _, p := range netPeer[:22] {
		all = append(all, uint64(locator(p)))
	}
	w.peer.Move(all...)
	w.eventually("the acknowledgement of Roam", func() bool { return w.peer.Counts().Acks > 0 })
	for i, l := range all {
		for _, nonce := range []bool{false, true} {
			before := w.peer.Datagrams(7002)
			w.eventually(fmt.Sprintf("locator %d, nonce %v", i+1, nonce), func() bool {
				w.peer.SendUDPFrom(nidRoam, l, nonce, 7002, 7001, []byte("hello"))
				return w.peer.Datagrams(7002) > before
			})
		}
	}
	list, err := w.roam.Sessions(w.ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d sessions, %v", len(list), err)
	}
	for _, l := range list[0].Locators {
		if inUse := l.State == "active"; inUse != (l.L64 == locator(netPeer[0])) {
			t.Errorf("%s is %s, want only the peer's best one in use", l.L64, l.State)
		}
	}
	if n := w.counter("drop_unknown_locator"); n > 0 {
		t.Errorf("%d packets were dropped as from an unknown locator", n)
	}
}
