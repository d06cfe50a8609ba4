package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
)

const (
	slicePackets = 2_000
	packetSize   = 64
	udpPort      = 5710
)

// BenchmarkUDPPackets compares datagrams of 64 bytes between session addresses with those
// between the hosts' own addresses, through one router: the rate of one core that does all
// the work of both ends.
func BenchmarkUDPPackets(b *testing.B) {
	for _, c := range []struct {
		name, says string
		bound      float64
		setting
	}{
		{"settled", "64-byte UDP datagrams, Roam / plain IPv6", settledBound(), setting{}},
		{"from-address", "64-byte UDP datagrams, identifiers from addresses, Roam / plain IPv6", 0.93,
			setting{fromAddress: true}},
		{"nonce-always", "64-byte UDP datagrams, a nonce in every packet, Roam / plain IPv6", 0,
			setting{options: "nonce=always"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := testutil.Figure{Name: "UDPPackets/" + c.name, Says: c.says}
			if c.bound > 0 {
				f.Op, f.Bound = ">=", c.bound
			}
			all, asked := start(b, c.setting, udpSlice), asks(f, whole, slicePackets, "datagram")
			if c.name == "settled" { // what two like set-ups differ by says how well this tells others apart
				w := newNamedWorld(b, "itself", 1, linkem.Params{})
				all = append(all, &contender{name: "itself", slice: udpSlice(b, w, roam.ILVFromAddr(w.cnPlain))})
				itself := testutil.Figure{Name: f.Name + " (itself)", Says: "plain IPv6 / plain IPv6 on other hosts"}
				asked = append(asked, question{itself, "plain", "itself", whole, slicePackets, "datagram", 0})
			}
			compare(b, all, asked)
			if c.name == "settled" {
				shares(b, nil, all, slicePackets)
			}
		})
	}
	for _, n := range []int{1, 100, 16_000, 20_000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) { manySessions(b, n) })
	}
}

// settledBound is what a datagram of a settled session may cost: programs of kernels from
// 6.2 on can see how far a packet's checksum has come.
func settledBound() float64 {
	var major, minor int
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	}
	if major < 6 || major == 6 && minor < 2 {
		return 0.91
	}
	return 0.94
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

// udpSlice sends datagrams from MN and receives them at CN.
func udpSlice(b *testing.B, w *world, target roam.ILV) func(*stopwatch) error {
	b.Helper()
	mn, cn := sockets(b, w, unix.SOCK_DGRAM, netip.AddrPortFrom(target.Addr(), udpPort))
	must(b, unix.SetsockoptInt(cn, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer))
	must(b, unix.Connect(mn, &unix.SockaddrInet6{Addr: target.Addr().As16(), Port: udpPort}))
	out, in := make([]byte, packetSize), make([]byte, 2048)
	return func(*stopwatch) error {
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
		return fmt.Errorf("nothing comes: %w", errors.Join(err, unix.ETIMEDOUT))
	}
	_, _, err = unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	return err
}
