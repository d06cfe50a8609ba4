package bench

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

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
	openFiles   = 1 << 20
	firstPort   = 1024
	freePorts   = 60_000
)

// manySessions compares MN with n sessions to MN with as many correspondents by plain IPv6:
// a socket for each at both ends, of which each slice takes the next ones of a random order.
// The datagrams go out to all correspondents of the slice, and back.
//
// The correspondents live in one host, CN, which has all their addresses and no Roam; the
// peer generator at R only answers their control messages. So a slice has Roam's work at one
// end, out and in, where UDPPackets/settled has it at both.
func manySessions(b *testing.B, n int) {
	build(b)
	must(b, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: openFiles, Max: openFiles}))
	names, programs := builds()
	var all []*contender
	for _, name := range names {
		w := newNamedWorld(b, name, 1, linkem.Params{})
		w.gatherPeers(b)
		session, from := peer, w.at(b)
		if programs[name] != nil {
			w.bin = *programs[name]
			w.openSessions(b, n)
			session = func(i int) netip.Addr {
				return roam.ILV{NID: peergen.NID(i), L64: roam.DefaultSessionPrefix}.Addr()
			}
			from = roam.ILV{NID: w.nidMN, L64: roam.ILVFromAddr(netMN[0].Addr()).L64}.Addr()
		}
		talks := w.conversations(b, n, from, session)
		warm(b, talks)
		all = append(all, &contender{name: name, slice: manySlice(talks)})
	}
	f := testutil.Figure{Says: fmt.Sprintf("64-byte datagrams to and from %d correspondents, Roam at one end / plain IPv6", n)}
	if n == judgedPeers {
		f.Op, f.Bound = ">=", 0.93
	}
	var asked []question
	for part, units := range map[string]int{"out": slicePackets, "in": slicePackets, whole: 2 * slicePackets} {
		f.Name = fmt.Sprintf("UDPPackets/sessions=%d", n)
		if part != whole {
			f.Name += "/" + part
		}
		asked = append(asked, asks(f, part, units, "datagram")...)
	}
	compare(b, all, asked)
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
	w.gather(b, c, n)
}

// conversation is a socket at MN and that of its correspondent at CN.
type conversation struct{ mn, cn int }

// conversations opens the sockets, in random order; from is MN's address as CN sees it.
func (w *world) conversations(b *testing.B, n int, from netip.Addr, to func(int) netip.Addr) []conversation {
	b.Helper()
	talks := make([]conversation, n)
	b.Cleanup(func() {
		for _, t := range talks {
			unix.Close(t.mn)
			unix.Close(t.cn)
		}
	})
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	port := func(i int) int { return firstPort + i%freePorts }
	must(b, w.mn.Do(func() (err error) {
		for k, i := range order {
			local := unix.SockaddrInet6{Port: port(i)}
			if talks[k].mn, err = connected(local, netip.AddrPortFrom(to(i), peersPort)); err != nil {
				return fmt.Errorf("socket %d: %w", i, err)
			}
		}
		return nil
	}))
	must(b, w.cn.Do(func() (err error) {
		for k, i := range order {
			local := unix.SockaddrInet6{Addr: peer(i).As16(), Port: peersPort}
			if talks[k].cn, err = connected(local, netip.AddrPortFrom(from, uint16(port(i)))); err != nil {
				return fmt.Errorf("socket of correspondent %d: %w", i, err)
			}
		}
		return nil
	}))
	return talks
}

func connected(local unix.SockaddrInet6, to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, &local)
	}
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// warm has every conversation go both ways once: the first packets of a session bear a
// nonce, which CN refuses, so they are retransmitted until they arrive.
func warm(b *testing.B, talks []conversation) {
	b.Helper()
	data := make([]byte, packetSize)
	for i, t := range talks {
		both := func() bool { return pass(t.cn, t.mn, data) == nil && pass(t.mn, t.cn, data) == nil }
		if !testutil.Wait(within, both) {
			b.Fatalf("conversation %d: nothing arrives", i)
		}
	}
}

// pass sends a datagram from one socket to the other.
func pass(from, to int, data []byte) error {
	if _, err := unix.Write(from, data); err != nil {
		return err
	}
	in := make([]byte, 2*packetSize)
	_, _, err := unix.Recvfrom(to, in, unix.MSG_DONTWAIT)
	return err
}

// lag is by how many conversations the way back is behind the way out, so that it meets
// caches that know nothing of them, and the data plane no silence.
const lag = 10_000

// manySlice has conversations go out, and earlier ones back.
func manySlice(talks []conversation) func(*stopwatch) error {
	data, in, next := make([]byte, packetSize), make([]byte, 2*packetSize), 0
	n := len(talks)
	return func(s *stopwatch) error {
		first := next
		next = (next + slicePackets) % n
		for i := range slicePackets {
			if err := carry(talks[(first+i)%n].mn, talks[(first+i)%n].cn, data, in); err != nil {
				return fmt.Errorf("out, conversation %d: %w", (first+i)%n, err)
			}
		}
		s.lap("out")
		first += n - min(lag, n/2)
		for i := range slicePackets {
			if err := carry(talks[(first+i)%n].cn, talks[(first+i)%n].mn, data, in); err != nil {
				return fmt.Errorf("in, conversation %d: %w", (first+i)%n, err)
			}
		}
		s.lap("in")
		return nil
	}
}

// carry sends a datagram and receives it.
func carry(from, to int, data, in []byte) error {
	if _, err := unix.Write(from, data); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return receive(to, in)
}
