package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
)

const (
	connectPort  = 5900
	connectTimes = 15
	farAway      = 10 * time.Millisecond // each way
)

// serve accepts connections on a host, and closes them.
func serve(b *testing.B, h *topo.Host, port int) {
	b.Helper()
	var l net.Listener
	must(b, h.Do(func() (err error) {
		l, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		return err
	}))
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
}

// connect measures one connect(2) from a host to an address, and waits until the connection
// is over: the last packets of a closed connection would keep CPUs awake for the next one.
func connect(b *testing.B, h *topo.Host, to netip.Addr) time.Duration {
	b.Helper()
	var took time.Duration
	must(b, h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		began := time.Now()
		err = unix.Connect(fd, &unix.SockaddrInet6{Addr: to.As16(), Port: connectPort})
		took = time.Since(began)
		if err != nil {
			return err
		}
		return closed(b.Context(), fd)
	}))
	return took
}

// closed shuts a connection down and waits until the other end has as well.
func closed(ctx context.Context, fd int) error {
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
		return fmt.Errorf("shut connection down: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return topo.Wait(ctx, "the connection to be closed", func() bool {
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		return err == nil && info.State == unix.BPF_TCP_CLOSE
	})
}

// end takes a host its daemon, and all that it remembers.
func end(b *testing.B, n *node.Node) {
	b.Helper()
	must(b, n.Stop(b.Context()))
	must(b, n.Forget())
}

func begin(b *testing.B, n *node.Node, link string) {
	b.Helper()
	must(b, n.Start(b.Context()))
	must(b, n.WaitActive(b.Context(), link))
}

var sessionCN = roam.ILV{L64: roam.DefaultSessionPrefix, NID: nidCN}.Addr()

// report gives what connections over sessions take longer than those over plain IPv6, in
// pairs.
func report(b *testing.B, f testutil.Figure, over, plain []time.Duration) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	e := apart(over, plain)
	f.Unit, f.Op, f.Value, f.Half, f.Rounds = "ms", "<=", e.Mid, e.Half, len(over)
	f.Within, f.Raw = connectKnown, map[string][]float64{"ms session": millis(over), "ms plain": millis(plain)}
	f.Details = map[string]float64{
		"ms session": milli(quantile(over, 0.5)), "ms session, longest": milli(quantile(over, 1)),
		"ms plain": milli(quantile(plain, 0.5)), "ms plain, longest": milli(quantile(plain, 1)),
	}
	testutil.Report(b, f)
}

// connectKnown is how well a time of connections must be known, in ms.
const connectKnown = 0.5

// BenchmarkFirstConnect measures the first TCP connection to a correspondent
// that neither end remembers, against one over plain IPv6 on the same path. It
// stands in the hosts file, so its session is expected.
func BenchmarkFirstConnect(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{Delay: farAway})
	w.startRoam(b, "soft", "net1")
	serve(b, w.cn, connectPort)
	connect(b, w.mn, w.cnPlain) // neighbours resolved
	var over, plain []time.Duration
	for b.Loop() {
		for len(over) < connectTimes {
			plain = append(plain, connect(b, w.mn, w.cnPlain))
			over = append(over, connect(b, w.mn, sessionCN))
			// Both end before one begins, or that would get a session with what the
			// other one still remembers.
			end(b, w.mnNode)
			end(b, w.cnNode)
			begin(b, w.cnNode, "net")
			begin(b, w.mnNode, "net1")
			connect(b, w.mn, w.cnPlain) // neighbours resolved
		}
	}
	report(b, testutil.Figure{
		Name: "FirstConnect", Bound: 1,
		Says: "first TCP connection to a correspondent that neither end remembers, beyond plain IPv6",
	}, over, plain)
}

// BenchmarkConnectWithoutILNP measures connections to a known host that has no
// ILNP: it answers with Parameter Problem, or the path drops the option in
// silence; the first time, and once that is remembered.
func BenchmarkConnectWithoutILNP(b *testing.B) {
	for _, c := range []struct {
		name, says string
		bound      float64 // ms
		drops      bool
		again      bool
		times      int
	}{
		{"problem", "connection to a host that answers with Parameter Problem, beyond plain IPv6", milli(2*farAway) + 1, false, false,
			connectTimes},
		{"silence", "connection to a host without ILNP where the path drops the option, beyond plain IPv6", 1000,
			true, false, connectTimes / 3},
		{"remembered", "connection to a host that is remembered to have no ILNP, beyond plain IPv6", 1, false, true,
			connectTimes / 3},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, 1, linkem.Params{Delay: farAway})
			const idle = 10 * time.Second
			w.more = fmt.Sprintf("[ilnp]\nidle_timeout = %q\n", idle)
			must(b, w.cn.AddAddr("net", netip.PrefixFrom(roam.ILV{L64: roam.ILVFromAddr(netCN.Addr()).L64, NID: nidCN}.Addr(),
				64)))
			w.mnNode = w.startOn(b, w.mn, nidMN, "soft", w.more, "net1")
			serve(b, w.cn, connectPort)
			if c.drops {
				w.dropOptions(b)
			}
			connect(b, w.mn, w.cnPlain)
			var over, plain []time.Duration
			for b.Loop() {
				for len(over) < c.times {
					if c.again {
						connect(b, w.mn, sessionCN)
						w.forgotten(b, 2*idle)
					}
					// Both after the same time without packets.
					plain = append(plain, connect(b, w.mn, w.cnPlain))
					over = append(over, connect(b, w.mn, sessionCN))
					end(b, w.mnNode)
					begin(b, w.mnNode, "net1")
					connect(b, w.mn, w.cnPlain)
				}
			}
			report(b, testutil.Figure{Name: "ConnectWithoutILNP/" + c.name, Says: c.says, Bound: c.bound}, over, plain)
		})
	}
}

// dropOptions has the router drop whatever has a Destination Options header.
func (w *world) dropOptions(b *testing.B) {
	b.Helper()
	for _, rule := range []string{
		"add table ip6 bench",
		"add chain ip6 bench forward { type filter hook forward priority 0 ; }",
		"add rule ip6 bench forward exthdr dst exists drop",
	} {
		if out, err := w.r.Command(b.Context(), "nft", rule).CombinedOutput(); err != nil {
			b.Fatalf("nft %s: %v: %s", rule, err, out)
		}
	}
}

// forgotten waits until MN has no session any more.
func (w *world) forgotten(b *testing.B, within time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	must(b, topo.Wait(ctx, "the idle session to end", func() bool {
		list, err := w.mnNode.Sessions(ctx)
		return err == nil && !slices.ContainsFunc(list, func(s node.Session) bool { return s.State == "plain" })
	}))
}

// BenchmarkReady measures from the start of the daemon on a host that has
// nothing of Roam to the first connection over a session.
func BenchmarkReady(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{})
	w.startRoam(b, "soft", "net1")
	serve(b, w.cn, connectPort)
	var all []time.Duration
	for b.Loop() {
		for len(all) < connectTimes {
			must(b, w.mnNode.Stop(b.Context()))
			must(b, w.mnNode.Forget())
			ready := make(chan time.Duration, 1)
			began := time.Now()
			go func() { ready <- w.firstConnection(began) }()
			must(b, w.mnNode.Start(b.Context()))
			d := <-ready
			if d == 0 {
				b.Fatal("no connection over a session")
			}
			all = append(all, d)
		}
	}
	b.ReportMetric(0, "ns/op")
	testutil.Report(b, testutil.Figure{
		Name: "Ready", Says: "start of roamd on a clean host to the first connection over a session, longest",
		Unit: "ms", Op: "<=", Bound: 1000, Value: milli(quantile(all, 1)), Rounds: len(all),
		Raw:     map[string][]float64{"ms": millis(all)},
		Details: map[string]float64{"ms median": milli(quantile(all, 0.5))},
	})
}

// firstConnection tries to connect to CN over a session, every few milliseconds
// anew, until that succeeds; 0 if it never does. A SYN from before the daemon was
// ready is lost on its way to nowhere; waiting for longer than a few round trips
// would measure our own patience.
func (w *world) firstConnection(began time.Time) (took time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < within {
		_ = w.mn.Do(func() error {
			d := net.Dialer{Timeout: 40 * time.Millisecond}
			c, err := d.Dial("tcp6", netip.AddrPortFrom(sessionCN, connectPort).String())
			if err == nil {
				took = time.Since(began)
				c.Close()
			}
			return err
		})
		if took != 0 {
			return took
		}
		<-tick.C
	}
	return 0
}

// BenchmarkUpgrade replaces the daemon by another build under load, as an
// upgrade of the package does (it ends by SIGTERM, the new one starts), and
// counts what was lost of 10,000 datagrams per second each way.
func BenchmarkUpgrade(b *testing.B) {
	w := newWorld(b, 1, linkem.Params{})
	w.startRoam(b, "soft", "net1")
	w.ping(b, "cn", 1)
	newer := node.Binaries{Roam: bin.Roam, Roamd: filepath.Join(filepath.Dir(bin.Roamd), "newer")}
	cmd := exec.Command("go", "build", "-ldflags", "-X main.version=newer", "-o", newer.Roamd, "../../cmd/roamd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	u, err := workload.StartUDP(b.Context(), w.cn, w.mn, b.TempDir(), workload.UDPOptions{
		Name: "upgrade", Target: "cn", Port: 5410, Up: restartRate, Down: restartRate, Size: 64,
	})
	must(b, err)
	flowing(b, u)
	underLoad(b, func(n int) {
		must(b, w.mnNode.Signal(b.Context(), syscall.SIGTERM))
		w.mnNode, err = node.New(w.mn, []node.Binaries{newer, bin}[n%2], w.mnOptions)
		must(b, err)
		must(b, w.mnNode.Start(b.Context()))
		must(b, w.mnNode.WaitActive(b.Context(), "net1"))
		flowing(b, u)
	})
	reportLoss(b, u, "Upgrade", "20 times another build takes over in 60 s, 10,000 datagrams a second each way: lost")
}
