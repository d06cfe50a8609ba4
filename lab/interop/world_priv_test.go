package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
)

// bin are the programs under test, built once.
var bin node.Binaries

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // tests that need root skip by name
	}
	defer topo.CloseOnSignal()()
	if err := topo.Sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	dir, err := topo.TempDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if bin, err = node.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	return m.Run()
}

const (
	nidRoam = 0x1000_0000_0000_00a1
	nidPeer = 0x1000_0000_0000_00c1
)

var (
	netRoam = []netip.Prefix{netip.MustParsePrefix("2001:db8:a:1::/64"), netip.MustParsePrefix("2001:db8:a:2::/64")}
	netPeer = peerNetworks(24)
)

// peerNetworks returns 2001:db8:c:1::/64 and those that follow.
func peerNetworks(count int) (all []netip.Prefix) {
	for i := range count {
		all = append(all, netip.MustParsePrefix(fmt.Sprintf("2001:db8:c:%x::/64", i+1)))
	}
	return all
}

// patience bounds the wait for anything that takes milliseconds on an idle
// machine.
const patience = 20 * time.Second

// world is one host with Roam, a router, and a scripted host behind a TAP
// device:
//
//	        net1  2001:db8:a:1::/64
//	      +=========================+
//	[ mn ]  net2  2001:db8:a:2::/64  [ r ]--peer--( scripted: 2001:db8:c:1::/64 to c:18 )
//	      +=========================+
type world struct {
	*testing.T
	ctx  context.Context
	mn   *topo.Host
	roam *node.Node
	peer *Peer

	router *topo.Host
}

// newWorld starts Roam, with the peer in its hosts file under the given
// options, and a peer of that stack. mode is Roam's.
func newWorld(t *testing.T, mode, options string, s Stack) *world {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "radvd"} {
		testutil.Need(t, what)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lab, err := topo.New("interop")
	must(err)
	t.Cleanup(func() { must(lab.Close()) })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx}
	w.mn, err = lab.Host("mn")
	must(err)
	r, err := lab.Host("r")
	must(err)
	must(r.Forward())
	w.router = r
	var adverts []topo.Advert
	for i, p := range netRoam {
		ifname, lan := fmt.Sprintf("net%d", i+1), fmt.Sprintf("lan%d", i+1)
		must(lab.Veth(w.mn, ifname, r, lan))
		must(r.AddAddr(lan, netip.PrefixFrom(p.Addr().Next(), 64)))
		adverts = append(adverts, topo.Advert{Interface: lan, Prefix: p})
	}
	var locators []uint64
	w.peer, err = Start(r, "peer", nidPeer, []uint64{uint64(locator(netPeer[0]))}, s)
	must(err)
	t.Cleanup(func() { w.peer.Close() })
	for _, p := range netPeer {
		must(r.AddAddr("peer", netip.PrefixFrom(p.Addr().Next(), 64)))
		locators = append(locators, uint64(locator(p)))
	}
	_, err = r.Router(adverts...)
	must(err)
	hosts := fmt.Sprintf("nid=%s l64=%s %s peer\n", roam.NID(nidPeer), roam.L64(locators[0]), options)
	log := filepath.Join(t.TempDir(), "roamd.log")
	w.roam, err = node.New(w.mn, bin, node.Options{NID: nidRoam, Mode: mode, Hosts: hosts, Log: log})
	must(err)
	must(w.roam.Start(ctx))
	t.Cleanup(func() {
		if t.Failed() {
			b, _ := os.ReadFile(log)
			t.Logf("peer: %+v\nroamd said:\n%s", w.peer.Counts(), b)
		}
	})
	must(w.roam.WaitActive(ctx, "net2"))
	return w
}

func locator(p netip.Prefix) roam.L64 { return roam.ILVFromAddr(p.Addr()).L64 }

func sessionAddr(n roam.NID) netip.Addr {
	return roam.ILV{NID: n, L64: roam.DefaultSessionPrefix}.Addr()
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	testutil.Eventually(w, patience, ok, what)
}

// dial connects an application on Roam's host with the peer.
func (w *world) dial(network string, port uint16) (c net.Conn) {
	w.Helper()
	err := w.mn.Do(func() (err error) {
		c, err = net.DialTimeout(network, netip.AddrPortFrom(sessionAddr(nidPeer), port).String(), patience)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		w.Fatal(err)
	}
	return c
}

// listen makes a TCP echo server and a UDP one on Roam's host.
func (w *world) listen(port int) {
	w.Helper()
	var l net.Listener
	var u net.PacketConn
	err := w.mn.Do(func() (err error) {
		l, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		if err == nil {
			u, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = errors.Join(l.Close(), u.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go echoConn(c)
		}
	}()
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(b[:n], from)
		}
	}()
}

func echoConn(c net.Conn) {
	defer c.Close()
	b := make([]byte, 2048)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// counter reads one counter of Roam's.
func (w *world) counter(name string) uint64 {
	w.Helper()
	counts, err := w.roam.Counts(w.ctx)
	n, known := counts[name]
	if err != nil || !known {
		w.Fatalf("counter %s: %v", name, err)
	}
	return n
}

// ask runs roam with arguments.
func (w *world) ask(args ...string) []byte {
	w.Helper()
	out, err := w.roam.Ask(w.ctx, args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}
