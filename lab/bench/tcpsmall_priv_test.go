package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
)

const (
	tcpPort      = 5711
	sliceBytes   = 4 << 20
	bulkWrite    = 1 << 20 // small ones leave a remainder of the segment size, which Nagle's algorithm may hold
	transactions = 200
	smallWrites  = 1_000
	smallSize    = 64
	// dialEvery is after how many slices a connection gives way to a new one: what its
	// window and its acknowledgements have come to makes several per cent.
	dialEvery = 20
)

// BenchmarkTCPPackets compares a connection between session addresses with one between the
// hosts' own, as one core does all the work of both ends: a byte each way by turns, small
// writes, and bulk data in segments of one size.
func BenchmarkTCPPackets(b *testing.B) {
	for _, c := range []struct {
		name, says, unit string
		units            int
		bound            float64
		slice            func(*connection) error
		setting
	}{
		{"request-response", "TCP transactions of one byte each way, Roam / plain IPv6", "transaction",
			transactions, 0.93, (*connection).transact, setting{}},
		{"small-writes", "TCP writes of 64 bytes without delay, Roam / plain IPv6", "write", smallWrites, 0,
			(*connection).write, setting{}},
		{"bulk", "4 MiB by TCP at the same MTU, Roam / plain IPv6", "MiB",
			sliceBytes >> 20, 0.98, (*connection).bulk, setting{}},
		{"bulk-nonce-always", "4 MiB by TCP at the same MTU, a nonce in every segment, Roam / plain IPv6", "MiB",
			sliceBytes >> 20, 0.60, (*connection).bulk, setting{options: "nonce=always"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := testutil.Figure{Name: "TCPPackets/" + c.name, Says: c.says}
			if c.bound > 0 {
				f.Op, f.Bound = ">=", c.bound
			}
			var plain *world
			var mtu string
			all := start(b, c.setting, func(b *testing.B, w *world, target roam.ILV) func(*stopwatch) error {
				if w.mnNode == nil {
					plain = w
				} else {
					mtu = w.sessionMTU(b)
				}
				return tcpSlice(b, w, target, c.slice)
			})
			plain.shrink(b, mtu)
			asked := asks(f, whole, c.units, c.unit)
			if c.name == "bulk" {
				w := newNamedWorld(b, "itself", 1, linkem.Params{})
				w.shrink(b, mtu)
				all = append(all, &contender{name: "itself", slice: tcpSlice(b, w, roam.ILVFromAddr(w.cnPlain), c.slice)})
				itself := testutil.Figure{Name: f.Name + " (itself)", Says: "plain IPv6 / plain IPv6 on other hosts"}
				asked = append(asked, question{itself, "plain", "itself", whole, c.units, c.unit, testutil.HalfWidth})
			}
			compare(b, all, asked)
			if c.bound > 0 {
				shares(b, nil, all, c.units)
			}
		})
	}
}

var mtuWord = regexp.MustCompile(`\bmtu (\d+)\b`)

// sessionMTU is the MTU of MN's session device.
func (w *world) sessionMTU(b *testing.B) string {
	b.Helper()
	out, err := w.mn.Command(b.Context(), "ip", "link", "show", "roam0").Output()
	must(b, err)
	m := mtuWord.FindSubmatch(out)
	if m == nil {
		b.Fatalf("no MTU in %s", out)
	}
	return string(m[1])
}

// shrink gives hosts without Roam the MTU that a session device has, so that segments are
// as long.
func (w *world) shrink(b *testing.B, mtu string) {
	b.Helper()
	must(b, w.mn.Sysctl("net.ipv6.conf.net1.mtu", mtu))
	must(b, w.cn.Sysctl("net.ipv6.conf.net.mtu", mtu))
}

// tcpSlice connects MN with CN and does slices of work on the connection.
func tcpSlice(b *testing.B, w *world, target roam.ILV, slice func(*connection) error) func(*stopwatch) error {
	b.Helper()
	at := netip.AddrPortFrom(target.Addr(), tcpPort)
	mn, listener := sockets(b, w, unix.SOCK_STREAM, at)
	unix.Close(mn)
	must(b, unix.Listen(listener, 1))
	c, slices := connection{mn: -1, cn: -1}, 0
	b.Cleanup(func() { c.close() })
	return func(s *stopwatch) (err error) {
		if slices++; slices%dialEvery == 1 {
			c.close()
			if c, err = dial(w, listener, at); err != nil {
				return err
			}
		}
		s.restart()
		if err := slice(&c); err != nil {
			return err
		}
		s.lap("connected")
		return nil
	}
}

// connection is both ends of a connection of TCP.
type connection struct {
	mn, cn  int
	out, in []byte
}

func dial(w *world, listener int, at netip.AddrPort) (c connection, err error) {
	c = connection{mn: -1, cn: -1, out: make([]byte, bulkWrite), in: make([]byte, 256<<10)}
	err = w.mn.Do(func() (err error) {
		if c.mn, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptString(c.mn, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic"); err != nil {
			return err
		}
		return unix.Connect(c.mn, &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())})
	})
	if err == nil {
		c.cn, _, err = unix.Accept(listener)
	}
	for _, fd := range []int{c.mn, c.cn} {
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		}
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

// transact sends a byte, and one back, many times.
func (c *connection) transact() error {
	for range transactions {
		for _, way := range [][2]int{{c.mn, c.cn}, {c.cn, c.mn}} {
			if _, err := unix.Write(way[0], c.out[:1]); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			if err := receive(way[1], c.in[:1]); err != nil {
				return fmt.Errorf("receive: %w", err)
			}
		}
	}
	return nil
}

// write sends many small segments, and reads each.
func (c *connection) write() error {
	for range smallWrites {
		if _, err := unix.Write(c.mn, c.out[:smallSize]); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if err := receive(c.cn, c.in[:smallSize]); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
	return nil
}

// bulk sends and receives until all has come.
func (c *connection) bulk() error {
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
