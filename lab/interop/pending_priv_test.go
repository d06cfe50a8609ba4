package interop

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"roam"
)

// TestNoEchoAnswer: a peer that answers no echo request opens a session and talks; from
// the first second on nothing is lost either way, and its Locator Updates are
// acknowledged.
func TestNoEchoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		stack Stack
		count int
	}{
		"every nonce":  {Stack{NoEchoAnswer: true, NonceAlways: true, PortUnreachable: true}, 500},
		"first nonces": {Stack{NoEchoAnswer: true, PortUnreachable: true}, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "", c.stack)
			w.listen(7001)
			w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
			const every, warm = 20 * time.Millisecond, 50
			count := c.count
			tick := time.NewTicker(every)
			defer tick.Stop()
			early := 0
			for i := range count {
				w.peer.SendUDP(nidRoam, 7002, 7001, []byte("hello"))
				<-tick.C
				switch i {
				case warm:
					early = w.peer.Datagrams(7002)
				case count / 3:
					w.peer.Advertise([]uint64{uint64(locator(netPeer[0]))}, []uint16{5})
				}
			}
			w.eventually("the last answer", func() bool { return w.peer.Datagrams(7002)-early >= count-warm-1 })
			w.eventually("the acknowledgement", func() bool { return w.peer.Counts().Acks > 0 })
			if got := w.peer.Counts(); got.WrongNonce > 0 {
				t.Errorf("the peer saw %+v: more than one nonce of ours", got)
			}
			w.echoOf(t, 700)
		})
	}
}

// echoOf has the peer connect to Roam's host and get so many bytes back.
func (w *world) echoOf(t *testing.T, size int) {
	t.Helper()
	conn, err := w.peer.Dial(nidRoam, 7001)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("a connection to Roam", conn.Opened)
	conn.Write(make([]byte, size))
	w.eventually("an echo from Roam", func() bool { return conn.Received() == size })
}

// TestNoEchoTCP: the acknowledgement of our SYN-ACK makes its session, so that a
// download is not held back.
func TestNoEchoTCP(t *testing.T) {
	w := newWorld(t, "soft", "", Stack{NoEchoAnswer: true, NonceAlways: true})
	const size = 400_000
	w.serve(t, 7003, size)
	w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
	began := time.Now()
	conn, err := w.peer.Dial(nidRoam, 7003)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("a connection to Roam", conn.Opened)
	w.eventually("all of it", func() bool { return conn.Received() == size })
	t.Logf("%d bytes in %v", size, time.Since(began).Round(time.Millisecond))
	if got := w.peer.Counts(); got.WrongNonce > 0 || w.counter("tx_nonce_left_out") > 0 {
		t.Errorf("the peer saw %+v", got)
	}
	w.eventually("a session", func() bool { n, err := w.roam.Established(w.ctx); return err == nil && n == 1 })
}

// serve makes a TCP server on Roam's host that sends so many bytes.
func (w *world) serve(t *testing.T, port, size int) {
	t.Helper()
	var l net.Listener
	if err := w.mn.Do(func() (err error) {
		l, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(make([]byte, size))
		}
	}()
}

// TestClosedPort: the Port Unreachable for a peer's first datagram has the nonce of all
// later packets. So a peer that accepts the first nonce it receives gets its Locator Update
// acknowledged.
func TestClosedPort(t *testing.T) {
	for name, s := range map[string]Stack{"answers echo": {NonceAlways: true},
		"answers none": {NonceAlways: true, NoEchoAnswer: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "", s)
			w.listen(7001)
			w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
			w.peer.SendUDP(nidRoam, 7002, 7999, []byte("nobody is there"))
			w.eventually("an answer", func() bool { return w.peer.Counts().Received > 0 })
			w.peer.Advertise([]uint64{uint64(locator(netPeer[0]))}, []uint16{5})
			w.eventually("the acknowledgement", func() bool { return w.peer.Counts().Acks > 0 })
			w.echoOf(t, 300)
			if got := w.peer.Counts(); got.WrongNonce > 0 {
				t.Errorf("the peer saw %+v: more than one nonce of ours", got)
			}
		})
	}
}

// TestRightBehindASetUp: datagrams without nonce right behind the first one, which bears
// it, come to the application from the session address.
func TestRightBehindASetUp(t *testing.T) {
	const setUps, behind = 100, 40
	w := newWorld(t, "soft", "", Stack{NonceOnce: true})
	from := w.sources(t, 7004)
	for i := range setUps {
		nid := uint64(nidPeer + 1 + i)
		w.ask("add", fmt.Sprintf("nid=%s l64=%s p%d", roam.NID(nid), roam.L64(locator(netPeer[0])), i))
		w.peer.become(nid)
		w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
		for range 1 + behind {
			w.peer.SendUDP(nidRoam, 7002, 7004, []byte("hello"))
		}
		want := sessionAddr(roam.NID(nid))
		w.eventually("all datagrams", func() bool { return from.all(roam.NID(nid)) >= 1+behind })
		if n := from.at(want); n != 1+behind {
			t.Errorf("set-up %d: %d of %d from the session address", i, n, 1+behind)
		}
	}
}

// become gives the host another identifier, and no sessions.
func (p *Peer) become(nid uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nid = nid
	p.forget()
}

// sources counts datagrams by where they come from.
type sources struct {
	mu sync.Mutex
	n  map[netip.Addr]int
}

func (s *sources) at(a netip.Addr) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[a]
}

// all counts those of an identifier.
func (s *sources) all(nid roam.NID) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, k := range s.n {
		if roam.ILVFromAddr(a).NID == nid {
			n += k
		}
	}
	return n
}

func (w *world) sources(t *testing.T, port int) *sources {
	t.Helper()
	var u net.PacketConn
	if err := w.mn.Do(func() (err error) {
		u, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	s := &sources{n: map[netip.Addr]int{}}
	go func() {
		b := make([]byte, 2048)
		for {
			_, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.n[from.(*net.UDPAddr).AddrPort().Addr()]++
			s.mu.Unlock()
		}
	}()
	return s
}

// TestNoEchoMoves: connections with a peer that answers no echo request survive moves of
// either end, whichever opened them.
func TestNoEchoMoves(t *testing.T) {
	for name, s := range map[string]Stack{
		"every nonce":  {NoEchoAnswer: true, NonceAlways: true},
		"first nonces": {NoEchoAnswer: true},
	} {
		for who, begin := range map[string]func(*world) func(string){"Roam": (*world).roamTalks, "peer": (*world).peerTalks} {
			t.Run(name+", begun by "+who, func(t *testing.T) {
				w := newWorld(t, "soft", "", s)
				talk := begin(w)
				talk("at first")
				w.peer.Move(uint64(locator(netPeer[1])))
				talk("when the peer has moved")
				w.eventually("Roam's acknowledgement", func() bool { return w.peer.Counts().Acks > 0 })
				w.ask("locator", "disable", "net2")
				talk("when Roam has moved")
				w.knows("where Roam is", 1)
				talk("at last")
			})
		}
	}
}

// roamTalks connects Roam's host to the peer; what it returns sends data there and back.
func (w *world) roamTalks() func(string) {
	c := w.dial("tcp6", EchoPort)
	return func(string) { w.echo(c, 1000) }
}

// peerTalks connects the peer to Roam's host.
func (w *world) peerTalks() func(string) {
	w.listen(7001)
	w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
	conn, err := w.peer.Dial(nidRoam, 7001)
	if err != nil {
		w.Fatal(err)
	}
	w.eventually("a connection to Roam", conn.Opened)
	sent := 0
	return func(when string) {
		sent += 500
		conn.Write(make([]byte, 500))
		w.eventually("an echo "+when, func() bool { return conn.Received() == sent })
	}
}
