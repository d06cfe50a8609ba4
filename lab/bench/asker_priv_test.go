package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/topo"
)

// asker times echoes of a host from one thread. A ping of its own for each sample would begin with cold caches, and
// take more time to begin than to measure.
type asker struct {
	fd      int
	message [64]byte
	number  uint16
	lost    int
}

// newAsker opens a socket in a host, as ping does.
func newAsker(b *testing.B, h *topo.Host, to netip.Addr) *asker {
	b.Helper()
	a := &asker{fd: -1}
	must(b, h.Do(func() (err error) {
		a.fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		return err
	}))
	b.Cleanup(func() { unix.Close(a.fd) })
	limit := unix.NsecToTimeval(echoesWait.Nanoseconds())
	var only unix.ICMPv6Filter // of what comes, echo replies
	for i := range only.Data {
		only.Data[i] = ^uint32(0)
	}
	only.Data[echoReply/32] &^= 1 << (echoReply % 32)
	must(b, errors.Join(unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptICMPv6Filter(a.fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &only),
		unix.Connect(a.fd, &unix.SockaddrInet6{Addr: to.As16()})))
	a.message[0] = echoRequest
	binary.BigEndian.PutUint16(a.message[4:], uint16(a.fd))
	return a
}

const (
	echoRequest = 128
	echoReply   = 129
)

// echoesWait is how long an answer may take; after that the echo is lost.
const echoesWait = 50 * time.Millisecond

// times sends echo requests, one each echoesEvery, until n have been answered, and returns the times in ms.
func (a *asker) times(n int) (all []float64, err error) {
	ended := <-onCore(sendCore, func() error {
		began, sent := time.Now(), 0
		for ; len(all) < n; sent++ {
			due := time.Until(began.Add(time.Duration(sent) * echoesEvery))
			_ = unix.Nanosleep(&unix.Timespec{Nsec: max(due, 0).Nanoseconds()}, nil) // a signal makes it early
			took, err := a.ask()
			if errors.Is(err, unix.EAGAIN) && sent < 2*n {
				a.lost++
				continue
			}
			if err != nil {
				return err
			}
			all = append(all, float64(took.Nanoseconds())/1e6)
		}
		return nil
	})
	return all, ended.err
}

// ask sends one request, and waits for its answer.
func (a *asker) ask() (time.Duration, error) {
	a.number++
	binary.BigEndian.PutUint16(a.message[6:], a.number)
	sent := time.Now()
	if _, err := unix.Write(a.fd, a.message[:]); err != nil {
		return 0, fmt.Errorf("send an echo request: %w", err)
	}
	var answer [128]byte
	for {
		n, err := unix.Read(a.fd, answer[:])
		if err != nil {
			return 0, fmt.Errorf("wait for the answer to an echo: %w", err)
		}
		if n == len(a.message) && [4]byte(answer[4:]) == [4]byte(a.message[4:]) {
			return time.Since(sent), nil
		}
	}
}
