package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/peergen"
	"roam/lab/topo"
)

const (
	peersPort   = 5720
	peersTable  = "100"
	judgedPeers = 20_000 // the number of sessions that has a bound
)

// manySessions compares MN with n sessions to MN with as many correspondents by plain IPv6,
// of which each slice takes the next ones of a random order: a datagram to each, and back.
//
// The correspondents live in one host, CN, which has all their addresses and no Roam; the
// peer generator at R only answers their control messages. So a slice has Roam's work at one
// end, out and in, where UDPPackets/settled has it at both.
func manySessions(b *testing.B, n int) {
	build(b)
	names, programs := builds()
	var hosts []*ends
	for _, name := range names {
		w := newNamedWorld(b, name, 1, linkem.Params{})
		w.gatherPeers(b)
		to, from := peer, w.at(b)
		own := from
		if programs[name] != nil {
			w.bin = *programs[name]
			w.openSessions(b, n)
			to = func(i int) netip.Addr {
				return roam.ILV{NID: peergen.NID(i), L64: roam.DefaultSessionPrefix}.Addr()
			}
			own = roam.ILV{NID: w.nidMN, L64: roam.DefaultSessionPrefix}.Addr()
			from = roam.ILV{NID: w.nidMN, L64: roam.ILVFromAddr(netMN[0].Addr()).L64}.Addr()
		}
		hosts = append(hosts, w.newEnds(b, n, own, from, to))
	}
	threads := newCrew(b, threadsFor(b, n, len(names)))
	var all []*contender
	openAll(b, threads, hosts)
	for i, e := range hosts {
		for t := range threads {
			threads.do(b, t, func() error { return e.warm(t) })
		}
		all = append(all, &contender{name: names[i], slice: e.slices()})
	}
	var asked []question
	for part, units := range map[string]int{"out": slicePackets / 2, "in": slicePackets / 2, whole: slicePackets} {
		f := testutil.Figure{
			Name: fmt.Sprintf("UDPPackets/sessions=%d", n),
			Says: fmt.Sprintf("64-byte datagrams to and from %d correspondents, Roam at one end / plain IPv6", n),
		}
		if part != whole {
			f.Name += "/" + part
		} else if n == judgedPeers { // the parts only show which way costs it
			f.Op, f.Bound = ">=", 0.93
		}
		asked = append(asked, asks(f, part, units, "datagram")...)
	}
	compareBy(b, threads, all, asked)
	if n == judgedPeers {
		shares(b, threads, all, slicePackets)
	}
}

// peer is the own address of the i-th correspondent.
func peer(i int) netip.Addr { return roam.ILV{NID: peergen.NID(i), L64: peergen.Locator(i, 0)}.Addr() }

// at is MN's own address.
func (w *world) at(b *testing.B) netip.Addr {
	b.Helper()
	at, err := w.mn.WaitAddr(b.Context(), "net1", netMN[0])
	must(b, err)
	return at
}

// gatherPeers gives CN the addresses of all correspondents, for the port of the benchmark.
func (w *world) gatherPeers(b *testing.B) {
	b.Helper()
	for _, c := range []struct {
		on   *topo.Host
		args string
	}{
		{w.r, fmt.Sprintf("rule add pref 100 ipproto udp dport %d lookup %s", peersPort, peersTable)},
		{w.r, fmt.Sprintf("route add %s via %s dev cn table %s", peergen.Prefix, w.cnPlain, peersTable)},
		{w.cn, fmt.Sprintf("route add local %s dev lo", peergen.Prefix)},
	} {
		argv := append([]string{"ip", "-6"}, strings.Fields(c.args)...)
		if out, err := c.on.Command(b.Context(), argv...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
}

// openSessions starts Roam on MN, and a session with each correspondent.
func (w *world) openSessions(b *testing.B, n int) {
	b.Helper()
	w.more = fmt.Sprintf("[ilnp]\nmax_sessions = %d\n[metrics]\nlisten = %q\n", max(n, 256), crowdMetrics)
	w.mnNode = w.startOn(b, w.mn, w.nidMN, "soft", w.more, "net1")
	w.listen(b, crowdPort)
	c, err := peergen.Start(w.r, "peers", peergen.Options{
		Locators: 1, Port: crowdPort, Target: roam.ILV{L64: roam.ILVFromAddr(netMN[0].Addr()).L64, NID: w.nidMN},
	})
	must(b, err)
	b.Cleanup(func() { c.Close() })
	took := w.gather(b, c, n)
	b.Logf("%d sessions in %v, with %v of the daemon's processor time", n, took.Round(time.Millisecond), w.daemonCPU(b))
}

// ends are the sockets of all conversations: one of MN for each, connected, and one of CN that
// sends from the address of each correspondent. Each thread of a crew has a part of MN's, as
// many as any other.
type ends struct {
	w      *world
	own    netip.Addr           // MN's address as its applications see it
	mn     [][]int              // by thread
	cn     int                  // in the table of each thread
	at     []unix.SockaddrInet6 // MN's sockets, as CN sees them
	peers  []unix.SockaddrInet6 // the correspondents, as MN sees them, in random order
	theirs [][16]byte           // and as they are
	in     []byte
}

// Ports of MN's sockets: each of these once or twice, as many sockets on one port are looked
// up one by one by some kernels.
const (
	firstPort = 10_000
	portsOfMN = 50_000
)

// newEnds opens the socket of CN; own and to are the addresses of MN and a correspondent as
// MN's applications see them, mnAt is MN's as CN sees it.
func (w *world) newEnds(b *testing.B, n int, own, mnAt netip.Addr, to func(int) netip.Addr) *ends {
	b.Helper()
	e := &ends{w: w, own: own, in: make([]byte, 2*packetSize)}
	for i, p := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		e.peers = append(e.peers, unix.SockaddrInet6{Addr: to(p).As16(), Port: peersPort})
		e.theirs = append(e.theirs, peer(p).As16())
		e.at = append(e.at, unix.SockaddrInet6{Addr: mnAt.As16(), Port: firstPort + i%portsOfMN})
	}
	must(b, w.cn.Do(func() (err error) { e.cn, err = bound(netip.IPv6Unspecified(), peersPort); return err }))
	b.Cleanup(func() { unix.Close(e.cn) })
	must(b, unix.SetsockoptInt(e.cn, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1))
	return e
}

// openedAtOnce is how many sockets of a host are opened before those of the next one.
const openedAtOnce = 50

// openAll opens the sockets of MN, by turns: the kernel may keep those of all hosts in one
// table, in which it finds those sooner that were opened later. They end with their threads.
func openAll(b *testing.B, threads crew, hosts []*ends) {
	b.Helper()
	part := len(hosts[0].peers) / len(threads)
	for _, e := range hosts {
		e.mn = make([][]int, len(threads))
	}
	for t := range threads {
		for k, n := 0, 0; k < part; k, n = k+openedAtOnce, n+1 {
			for i := range hosts {
				hosts[turn(i, n, len(hosts))].open(b, threads, t, t*part+k, min(openedAtOnce, part-k))
			}
		}
	}
}

// open opens the sockets of n conversations. They are bound, or plain IPv6 would choose among
// more sources.
func (e *ends) open(b *testing.B, threads crew, t, first, n int) {
	b.Helper()
	threads.inside(b, t, e.w.mn, func() error {
		for i := first; i < first+n; i++ {
			fd, err := bound(e.own, e.at[i].Port)
			if err == nil {
				err = unix.Connect(fd, &e.peers[i])
			}
			if err != nil {
				return fmt.Errorf("socket %d: %w", i, err)
			}
			e.mn[t] = append(e.mn[t], fd)
		}
		return nil
	})
}

// otherFiles is how many files a thread may need besides the sockets of conversations.
const otherFiles = 1_000

// threadsFor is how many threads it takes for each contender to have n sockets at MN.
func threadsFor(b *testing.B, n, contenders int) int {
	b.Helper()
	var may unix.Rlimit
	must(b, unix.Getrlimit(unix.RLIMIT_NOFILE, &may))
	for threads := 1; threads < n; threads++ {
		if n%threads == 0 && uint64(n/threads*contenders+otherFiles) <= may.Cur {
			return threads
		}
	}
	return 1
}

func bound(at netip.Addr, port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet6{Addr: at.As16(), Port: port})
	}
	return fd, err
}

// out has MN send a datagram to a correspondent, back a correspondent to MN.
func (e *ends) out(i int) error {
	if _, err := unix.Write(e.atMN(i), e.in[:packetSize]); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (e *ends) back(i int) error {
	oob := unix.PktInfo6(&unix.Inet6Pktinfo{Addr: e.theirs[i]})
	if _, err := unix.SendmsgN(e.cn, e.in[:packetSize], oob, &e.at[i], 0); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// warm has every conversation of a thread go both ways. All of them retry side by side: CN
// refuses nonces, and a peer whose first datagram was retransmitted with its nonce gets them
// on every packet, until the daemon on MN notices, within a second or so, that it sends others
// without.
func (e *ends) warm(t int) error {
	part := len(e.mn[t])
	legs := []*leg{{name: "in", send: e.back, to: e.atMN}, {name: "out", send: e.out, to: e.atCN}}
	both := func() bool {
		done := true
		for _, l := range legs {
			done = l.try(e, t*part, part) && done
		}
		return done
	}
	if !testutil.Wait(within+time.Duration(part)*patiencePerPeer, both) {
		return fmt.Errorf("not all conversations work: %v, %v", legs[0], legs[1])
	}
	for _, fd := range append([]int{e.cn}, e.mn[t]...) {
		for arrives(fd, e.in) { // what came late
		}
	}
	return nil
}

// atMN and atCN return the sockets at which a conversation arrives.
func (e *ends) atMN(i int) int { return e.mn[i/len(e.mn[0])][i%len(e.mn[0])] }
func (e *ends) atCN(int) int   { return e.cn }

// leg is one direction of a thread's conversations while they warm up.
type leg struct {
	name string
	send func(i int) error
	to   func(i int) int // the socket that receives
	came map[int]bool    // the conversations of which a datagram has arrived
	err  error           // of the last datagram that could not be sent
	left int             // the last conversation of which none has
}

// try sends a datagram in each of n conversations of which none has arrived, and reports
// whether there is none left.
func (l *leg) try(e *ends, first, n int) bool {
	if l.came == nil {
		l.came = map[int]bool{}
	}
	for i := first; i < first+n; i++ {
		if l.came[i] {
			continue
		}
		l.left = i
		binary.BigEndian.PutUint32(e.in, uint32(i))
		if err := l.send(i); err != nil {
			l.err = err
		}
		for arrives(l.to(i), e.in) {
			if was := int(binary.BigEndian.Uint32(e.in)); was >= first && was < first+n {
				l.came[was] = true
			}
		}
	}
	return len(l.came) == n
}

func (l *leg) String() string {
	return fmt.Sprintf("%s: %d have, the last that has not is %d, error %v", l.name, len(l.came), l.left, l.err)
}

// arrives reads a datagram if there is one.
func arrives(fd int, in []byte) bool {
	_, _, err := unix.Recvfrom(fd, in, unix.MSG_DONTWAIT)
	return err == nil
}

// lag is by how many conversations of all threads the way back is behind the way out, so that
// it meets caches that know nothing of them, and the data plane no silence.
const lag = 4_000

// slices has conversations go out, and earlier ones back.
func (e *ends) slices() func(*stopwatch) error {
	next, part := make([]int, len(e.mn)), len(e.mn[0])
	return func(s *stopwatch) error {
		first := next[s.thread]
		next[s.thread] = (first + slicePackets/2) % part
		if err := e.exchange(e.out, e.atCN, s.thread, first); err != nil {
			return fmt.Errorf("out: %w", err)
		}
		s.lap("out")
		if err := e.exchange(e.back, e.atMN, s.thread, first+part-min(lag/len(e.mn), part/2)); err != nil {
			return fmt.Errorf("in: %w", err)
		}
		s.lap("in")
		return nil
	}
}

// exchange sends half a slice of datagrams of a thread's conversations, and receives each.
func (e *ends) exchange(send func(i int) error, to func(i int) int, t, first int) error {
	part := len(e.mn[t])
	for k := range slicePackets / 2 {
		i := t*part + (first+k)%part
		err := send(i)
		if err == nil {
			err = receive(to(i), e.in)
		}
		if err != nil {
			return fmt.Errorf("conversation %d: %w", i, err)
		}
	}
	return nil
}
