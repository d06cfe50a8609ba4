// Package udpblast sends datagrams as fast as one core can, and counts the arrivals at the
// other end and the CPU time of each core.
//
// It implements both ends, one thread each, bound to a core. It omits pacing, order and
// loss (lab/workload/udpflow). It is driven by lab/workload, whose agent command runs it,
// and by benchmarks.
package udpblast

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Result is the JSON output of the receiving end.
type Result struct {
	Packets int     `json:"packets"` // received in the window
	Seconds float64 `json:"seconds"` // length of the window
	Dropped int     `json:"dropped"` // refused by the receive buffer, in all
	// Busy is the share of each core's time that was not idle, by its number.
	Busy []float64 `json:"busy"`
	// Soft is the share of interrupts and soft interrupts.
	Soft []float64 `json:"soft"`
}

const (
	settle  = 200 * time.Millisecond // from the first datagram to the window
	silence = 300 * time.Millisecond // after which the receiving end gives up
	patient = 20 * time.Second       // for the first datagram
)

// Main runs one end: --to ADDRESS:PORT or --listen ADDRESS:PORT, --cpu N, --for
// DURATION (of sending, of the window), --size BYTES.
func Main(args []string) error {
	f := flag.NewFlagSet("udp-blast", flag.ContinueOnError)
	to := f.String("to", "", "where to send")
	listen := f.String("listen", "", "where to receive")
	cpu := f.Int("cpu", 0, "core to run on")
	span := f.Duration("for", time.Second, "how long")
	size := f.Int("size", 64, "bytes of payload")
	if err := f.Parse(args); err != nil {
		return err
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(*cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("tie to core %d: %w", *cpu, err)
	}
	if *to != "" {
		return send(*to, *size, *span)
	}
	return receive(*listen, *span)
}

func socketAt(addr string) (int, *unix.SockaddrInet6, error) {
	// Names are looked up here, once.
	a, err := net.ResolveUDPAddr("udp6", addr)
	if err != nil {
		return -1, nil, fmt.Errorf("look up %s: %w", addr, err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("open socket: %w", err)
	}
	ip, _ := netip.AddrFromSlice(a.IP.To16())
	return fd, &unix.SockaddrInet6{Addr: ip.As16(), Port: a.Port}, nil
}

func send(addr string, size int, span time.Duration) error {
	fd, to, err := socketAt(addr)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, to); err != nil {
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	b := make([]byte, size)
	for end := time.Now().Add(span); time.Now().Before(end); {
		for range 256 {
			if _, err := unix.Write(fd, b); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) &&
				!errors.Is(err, unix.ECONNREFUSED) {
				return fmt.Errorf("send to %s: %w", addr, err)
			}
		}
	}
	return nil
}

func receive(addr string, span time.Duration) error {
	fd, at, err := socketAt(addr)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, at); err != nil {
		return fmt.Errorf("bind to %s: %w", addr, err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	fmt.Println("ready")
	if err := wait(fd, patient); err != nil {
		return err
	}
	count(fd, settle)
	before, err := cores()
	if err != nil {
		return err
	}
	r := Result{}
	began := time.Now()
	r.Packets = count(fd, span)
	r.Seconds = time.Since(began).Seconds()
	after, err := cores()
	if err != nil {
		return err
	}
	for i := range before {
		busy, soft := after[i].since(before[i])
		r.Busy, r.Soft = append(r.Busy, busy), append(r.Soft, soft)
	}
	for wait(fd, silence) == nil {
		count(fd, silence)
	}
	r.Dropped, _ = drops()
	return json.NewEncoder(os.Stdout).Encode(r)
}

// wait waits until the socket is readable.
func wait(fd int, limit time.Duration) error {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit/time.Millisecond))
	if err == nil && n == 0 {
		err = unix.ETIMEDOUT
	}
	return err
}

// count reads for a while and returns the number of datagrams.
func count(fd int, span time.Duration) (n int) {
	var b [2048]byte
	for end := time.Now().Add(span); time.Now().Before(end); {
		if wait(fd, 10*time.Millisecond) != nil {
			continue
		}
		for range 256 {
			if _, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT); err != nil {
				break
			}
			n++
		}
	}
	return n
}

// usage is the time that a core has spent, in ticks.
type usage struct{ all, idle, soft float64 }

func (u usage) since(v usage) (busy, soft float64) {
	all := u.all - v.all
	if all <= 0 {
		return 0, 0
	}
	return 1 - (u.idle-v.idle)/all, (u.soft - v.soft) / all
}

// cores reads the time of each core: user, nice, system, idle, iowait, irq, softirq, steal.
func cores() ([]usage, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("read use of cores: %w", err)
	}
	var all []usage
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") || f[0] == "cpu" {
			continue
		}
		var u usage
		for i, s := range f[1:9] {
			v, _ := strconv.ParseFloat(s, 64)
			u.all += v
			switch i {
			case 3, 4:
				u.idle += v
			case 5, 6:
				u.soft += v
			}
		}
		all = append(all, u)
	}
	return all, nil
}

// drops reads how many datagrams full buffers refused in this namespace.
func drops() (int, error) {
	b, err := os.ReadFile("/proc/net/snmp6")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if f := strings.Fields(string(line)); len(f) == 2 && f[0] == "Udp6RcvbufErrors" {
			return strconv.Atoi(f[1])
		}
	}
	return 0, nil
}
