package bench

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
)

// beforeEnv names a directory with roam and roamd of an older build.
const beforeEnv = "ROAM_BINARIES_BEFORE"

const (
	slicePackets = 2_000
	sliceBytes   = 4 << 20
	roundsLeast  = 60
	roundsMost   = 1_200
)

// contender is one of the hosts' pairs that are compared: sockets of one thread, the
// sender's at MN and the receiver's at CN, between which a slice of work is timed.
type contender struct {
	name  string
	slice func() error
	times []float64 // of each round, in ns
}

// BenchmarkBuilds compares plain IPv6, the build before (ROAM_BINARIES_BEFORE), this one,
// twice, and this one with an observer on the uplink of MN. Each has hosts of its own,
// which stand side by side. One thread on one core sends a slice of datagrams or of a TCP
// connection and receives it, then does the same on the next hosts, in another order
// each round. A figure is the median over the rounds of the quotient within a round, with
// the half-width of its 95 % interval: so what else the machine does meets all of them
// alike, and outliers none.
//
// The thread does all the work of both hosts and of the router between them, so a
// slice's time is the processor time of both ends, but for interrupts.
func BenchmarkBuilds(b *testing.B) {
	testutil.NeedKernel(b, "two cores", runtime.NumCPU() > 1)
	for kind, slice := range map[string]func(*testing.B, *world, netip.Addr) func() error{"udp": udpSlice, "tcp": tcpSlice} {
		b.Run(kind, func(b *testing.B) { compareBuilds(b, slice) })
	}
}

func compareBuilds(b *testing.B, slice func(*testing.B, *world, netip.Addr) func() error) {
	build(b)
	builds := map[string]*node.Binaries{"plain": nil, "now": &bin, "again": &bin, "observed": &bin}
	if dir := os.Getenv(beforeEnv); dir != "" {
		before := node.In(dir)
		builds["before"] = &before
	}
	var all []*contender
	for name, programs := range builds {
		w := newNamedWorld(b, name, 1, linkem.Params{})
		target := w.cnPlain
		if programs != nil {
			w.bin = *programs
			if name == "observed" {
				w.more = "[role]\nrun = [\"host\", \"observer\"]\n[observer]\nlinks = [\"net1\"]\n"
			}
			w.startRoam(b, "soft", "net1")
			w.ping(b, "cn", 3)
			if name == "observed" {
				isObserved(b, w)
			}
			target = roam.ILV{NID: nidCN, L64: roam.DefaultSessionPrefix}.Addr()
		}
		all = append(all, &contender{name: name, slice: slice(b, w, target)})
	}
	runtime.LockOSThread() // never unlocked: the thread keeps its core
	var set unix.CPUSet
	set.Set(sendCore)
	must(b, unix.SchedSetaffinity(0, &set))
	for b.Loop() {
		for n := range roundsMost {
			round(b, all, n)
			if n+1 >= roundsLeast && n%20 == 0 && narrow(all) {
				break
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	plain, now := contenderOf(all, "plain"), contenderOf(all, "now")
	b.ReportMetric(float64(len(now.times)), "rounds")
	for _, c := range all {
		b.ReportMetric(median(c.times), "ns-"+c.name)
		if c != plain {
			reportRatio(b, "plain/"+c.name, plain, c)
		}
		if c != plain && c != now {
			reportRatio(b, c.name+"/now", c, now)
		}
	}
}

// isObserved fails the benchmark where the observer has not counted the echo requests.
func isObserved(b *testing.B, w *world) {
	b.Helper()
	var counts []struct {
		Protocol, Direction string
		Packets             uint64
	}
	testutil.Eventually(b, within, func() bool {
		must(b, w.mnNode.AskFor(b.Context(), &counts, "observer", "show"))
		for _, c := range counts {
			if c.Protocol == "icmpv6" && c.Direction == "out" && c.Packets >= 3 {
				return true
			}
		}
		return false
	}, "the observer to count")
}

// round has each contender do one slice, in an order that changes from round to round.
func round(b *testing.B, all []*contender, n int) {
	b.Helper()
	for i := range all {
		c := all[(i+n)%len(all)]
		if n%2 == 1 {
			c = all[(len(all)-1-i+n)%len(all)]
		}
		began := time.Now()
		if err := c.slice(); err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
		c.times = append(c.times, float64(time.Since(began).Nanoseconds()))
	}
}

// narrow reports whether all quotients are known well enough.
func narrow(all []*contender) bool {
	now := contenderOf(all, "now")
	for _, c := range all {
		if _, half := medianRatio(c.times, now.times); c != now && half > halfWidth/2 {
			return false
		}
	}
	return true
}

func reportRatio(b *testing.B, name string, faster, slower *contender) {
	mid, half := medianRatio(faster.times, slower.times)
	b.ReportMetric(mid, name)
	b.ReportMetric(half, name+"±")
}

func contenderOf(all []*contender, name string) *contender {
	return all[slices.IndexFunc(all, func(c *contender) bool { return c.name == name })]
}

// median returns the median of a sample.
func median(sample []float64) float64 {
	s := slices.Sorted(slices.Values(sample))
	return s[len(s)/2]
}

// medianRatio returns the median of the quotients of two samples, pair by pair, and the
// half-width of its 95 % interval, by the ranks between which the median lies.
func medianRatio(over, under []float64) (mid, half float64) {
	ratios := make([]float64, len(over))
	for i := range over {
		ratios[i] = over[i] / under[i]
	}
	slices.Sort(ratios)
	n := float64(len(ratios))
	off := int(math.Ceil(0.98 * math.Sqrt(n)))
	low, high := max(len(ratios)/2-off, 0), min(len(ratios)/2+off, len(ratios)-1)
	return ratios[len(ratios)/2], (ratios[high] - ratios[low]) / 2
}

// TestMedianRatio: the interval of a median holds the true one, and outliers move neither.
func TestMedianRatio(t *testing.T) {
	over, under := make([]float64, 100), make([]float64, 100)
	for i := range over {
		over[i], under[i] = 90+float64(i%5), 100
	}
	over[3], over[70] = 9_000, 1
	if mid, half := medianRatio(over, under); mid != 0.92 || half < 0.005 || half > 0.011 {
		t.Errorf("median %v +- %v, want 0.92 +- 0.01", mid, half)
	}
}

// sockets opens a socket at CN that is bound, and one at MN.
func sockets(b *testing.B, w *world, kind int, at netip.AddrPort) (mn, cn int) {
	b.Helper()
	open := func() (fd int, err error) { return unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC, 0) }
	must(b, w.cn.Do(func() (err error) {
		if cn, err = open(); err == nil {
			err = unix.Bind(cn, &unix.SockaddrInet6{Port: int(at.Port())})
		}
		return err
	}))
	must(b, w.mn.Do(func() (err error) { mn, err = open(); return err }))
	b.Cleanup(func() { unix.Close(mn); unix.Close(cn) })
	return mn, cn
}

// buffer is enough for a slice that nobody reads meanwhile.
const buffer = 16 << 20

func udpSlice(b *testing.B, w *world, target netip.Addr) func() error {
	b.Helper()
	at := netip.AddrPortFrom(target, 5710)
	mn, cn := sockets(b, w, unix.SOCK_DGRAM, at)
	must(b, unix.SetsockoptInt(cn, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer))
	must(b, unix.Connect(mn, &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}))
	out, in := make([]byte, blastSize), make([]byte, 2048)
	return func() error {
		for range slicePackets {
			if _, err := unix.Write(mn, out); err != nil {
				return fmt.Errorf("send: %w", err)
			}
		}
		for n := range slicePackets {
			if err := receive(cn, in); err != nil {
				return fmt.Errorf("receive datagram %d of %d: %w", n, slicePackets, err)
			}
		}
		return nil
	}
}

// receive reads once, and waits for what another processor still handles.
func receive(fd int, b []byte) error {
	_, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	if !errors.Is(err, unix.EAGAIN) {
		return err
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000); err != nil || n == 0 {
		return fmt.Errorf("nothing comes: %w", err)
	}
	_, _, err = unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	return err
}

// dialEvery is after how many slices a connection gives way to a new one: what its window
// and its acknowledgements have come to makes several per cent.
const dialEvery = 20

func tcpSlice(b *testing.B, w *world, target netip.Addr) func() error {
	b.Helper()
	at := netip.AddrPortFrom(target, 5711)
	mn, listener := sockets(b, w, unix.SOCK_STREAM, at)
	unix.Close(mn)
	must(b, unix.Listen(listener, 1))
	c, slices := connection{}, 0
	b.Cleanup(func() { c.close() })
	return func() (err error) {
		if slices++; slices%dialEvery == 1 {
			c.close()
			if c, err = dial(w, listener, at); err != nil {
				return err
			}
		}
		return c.slice()
	}
}

// connection is both ends of a connection of TCP.
type connection struct {
	mn, cn  int
	out, in []byte
}

func dial(w *world, listener int, at netip.AddrPort) (c connection, err error) {
	c.out, c.in = make([]byte, 64<<10), make([]byte, 256<<10)
	err = w.mn.Do(func() (err error) {
		if c.mn, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Connect(c.mn, &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())})
	})
	if err == nil {
		c.cn, _, err = unix.Accept(listener)
	}
	if err == nil {
		err = unix.SetNonblock(c.mn, true)
	}
	if err != nil {
		return c, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

func (c *connection) close() {
	if c.out != nil {
		unix.Close(c.mn)
		unix.Close(c.cn)
	}
}

// slice sends and receives until all has come.
func (c *connection) slice() error {
	began := time.Now()
	for sent, taken := 0, 0; taken < sliceBytes; {
		if sent < sliceBytes {
			n, err := unix.Write(c.mn, c.out[:min(len(c.out), sliceBytes-sent)])
			if err != nil && !errors.Is(err, unix.EAGAIN) {
				return fmt.Errorf("send: %w", err)
			}
			sent += max(n, 0)
		}
		n, _, err := unix.Recvfrom(c.cn, c.in, unix.MSG_DONTWAIT)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("receive: %w", err)
		}
		if n == 0 && err == nil || time.Since(began) > within {
			return fmt.Errorf("the connection stands still, or has ended, behind %d bytes", taken)
		}
		taken += max(n, 0)
	}
	return nil
}
