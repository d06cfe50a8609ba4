package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
)

// stream opens connections of TCP from MN to CN, one after the other.
type stream struct {
	w        *world
	listener int
	at       netip.AddrPort
	softirqs []string // the files with the processor time of the kernel's threads for them
}

func openStream(b *testing.B, w *world, target roam.ILV, port uint16) *stream {
	b.Helper()
	s := &stream{w: w, at: netip.AddrPortFrom(target.Addr(), port)}
	_, listener := sockets(b, w, unix.SOCK_STREAM, s.at)
	must(b, unix.Listen(listener, 1))
	s.listener = listener
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	must(b, err)
	for _, file := range names {
		if name, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(name), "ksoftirqd/") {
			s.softirqs = append(s.softirqs, filepath.Join(filepath.Dir(file), "schedstat"))
		}
	}
	return s
}

// transfer sends so many bytes by a new connection. It returns Mb/s at the receiver, without the first
// quarter, in which windows grow, and the processor seconds of all per gigabyte: of both ends' threads, and of
// the kernel's for what arrives. What an idle core does in an interrupt is not counted.
func (s *stream) transfer(size int) (mbps, cpu float64, err error) {
	c, err := dial(s.w, s.listener, s.at)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	limit := unix.NsecToTimeval(within.Nanoseconds())
	for _, fd := range []int{c.mn, c.cn} {
		if err := unix.SetNonblock(fd, false); err != nil {
			return 0, 0, fmt.Errorf("wait in calls: %w", err)
		}
		for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
				return 0, 0, fmt.Errorf("limit calls: %w", err)
			}
		}
	}
	before := s.softirqTime()
	sent := onCore(sendCore, func() error {
		for left := size; left > 0; {
			n, err := unix.Write(c.mn, c.out[:min(len(c.out), left)])
			if err != nil && !errors.Is(err, unix.EINTR) { // a call with a limit is not restarted
				return fmt.Errorf("send: %w", err)
			}
			left -= max(n, 0)
		}
		return nil
	})
	var from, to time.Time
	grown := 0 // bytes that had come at from
	taken := onCore(backlogCore, func() error {
		in := make([]byte, bulkWrite)
		for got := 0; got < size; {
			n, err := unix.Read(c.cn, in)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n == 0 {
				return fmt.Errorf("receive: %d of %d bytes: %w", got, size, err)
			}
			if got += n; grown == 0 && got >= size/4 {
				from, grown = time.Now(), got
			}
		}
		to = time.Now()
		return nil
	})
	out, in := <-sent, <-taken
	if err := errors.Join(out.err, in.err); err != nil {
		return 0, 0, err
	}
	used := out.cpu + in.cpu + s.softirqTime() - before
	mbps = 8 * float64(size-grown) / 1e6 / to.Sub(from).Seconds()
	return mbps, used.Seconds() / (float64(size) / 1e9), nil
}

// finished is a thread's end, and the processor time that it took.
type finished struct {
	cpu time.Duration
	err error
}

// onCore runs f on a new thread on a core.
func onCore(core int, f func() error) <-chan finished {
	done := make(chan finished, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(core)
		err := unix.SchedSetaffinity(0, &set)
		began := threadTime()
		if err == nil {
			err = f()
		}
		done <- finished{threadTime() - began, err}
	}()
	return done
}

// softirqTime is the processor time of the kernel's threads for soft interrupts.
func (s *stream) softirqTime() (sum time.Duration) {
	for _, file := range s.softirqs {
		var ran time.Duration
		if text, err := os.ReadFile(file); err == nil {
			_, _ = fmt.Sscan(string(text), &ran) // without it the sum lacks it in every arm
		}
		sum += ran
	}
	return sum
}
