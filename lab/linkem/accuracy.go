package linkem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Trial describes a measurement of the emulator itself.
type Trial struct {
	Params  Params
	Offered int64         // load, in bits per second of Ethernet frames
	Size    int           // bytes of each frame, at least 30
	Span    time.Duration // how long to send
}

// Figures are the results of a trial. A delay lasts from just before the sending device
// gets a frame until the kernel's receive time stamp on the other, so it includes the
// kernel's share.
type Figures struct {
	Sent, Received int
	Reordered      int // frames that arrived after one sent later
	// Errors are the absolute differences from Params.Delay. They mean
	// something only without Jitter, and with a Rate above the load.
	ErrMedian, ErrP99, ErrMax time.Duration
	Rate                      float64 // bits per second, at the receiver
	Counters                  Counters
}

// String gives the figures in one line.
func (f Figures) String() string {
	return fmt.Sprintf("sent %d, received %d, reordered %d, %.1f Mb/s, error of delay: median %v, p99 %v, max %v",
		f.Sent, f.Received, f.Reordered, f.Rate/1e6,
		f.ErrMedian.Round(time.Microsecond), f.ErrP99.Round(time.Microsecond), f.ErrMax.Round(time.Microsecond))
}

// Accuracy measures a link in a network namespace of its own, which it removes. Experiments
// print it beside their results: it is the precision of delays on the machine under its
// current load. It needs root.
func Accuracy(t Trial) (f Figures, err error) {
	if t.Size < ethLen+stampLen || t.Offered <= 0 || t.Span <= 0 {
		return f, fmt.Errorf("measure a link: impossible trial %+v", t)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked, so that the thread, and with it the namespace, ends.
		runtime.LockOSThread()
		f, err = t.run()
	}()
	<-done
	if err != nil {
		return f, fmt.Errorf("measure a link: %w", err)
	}
	return f, nil
}

// stampLen is the length of a frame's payload: its number and its send time.
const stampLen = 16

// probeType is an EtherType for local experiments (RFC 9542 §3).
const probeType = 0x88b5

// run does the trial in a fresh namespace.
func (t Trial) run() (f Figures, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return f, fmt.Errorf("unshare network namespace: %w", err)
	}
	var taps [2]*Tap
	for i, name := range [2]string{"em0", "em1"} {
		if taps[i], err = OpenTap(name); err != nil {
			return f, err
		}
		defer taps[i].Close()
	}
	link, err := New(taps[0], taps[1], t.Params, t.Params)
	if err != nil {
		return f, err
	}
	defer link.Close()
	var socks [2]int
	for i, tap := range taps {
		if socks[i], err = tap.listen(); err != nil {
			return f, err
		}
		defer unix.Close(socks[i])
	}
	rx := &receiver{fd: socks[1], delay: t.Params.Delay, copies: 1}
	if t.Params.Duplicate > 0 {
		rx.copies = 2
	}
	received := make(chan error, 1)
	sent := make(chan int, 1)
	go func() { received <- rx.run(sent, t.Params.Delay+t.Params.Jitter+time.Second) }()
	n, err := t.send(socks[0])
	sent <- n
	if err := errors.Join(err, <-received); err != nil {
		return f, err
	}
	f = rx.figures(t.Size)
	f.Sent, f.Counters = n, link.Counters(AB)
	return f, nil
}

// listen brings the device up, silences it, and opens a packet socket on it.
// The calling thread is in the device's namespace.
func (t *Tap) listen() (fd int, err error) {
	// Neighbour discovery and the like would be in the counters.
	path := "/proc/sys/net/ipv6/conf/" + t.name + "/disable_ipv6"
	if err := os.WriteFile(path, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return -1, fmt.Errorf("silence %s: %w", t.name, err)
	}
	proto := binary.NativeEndian.Uint16([]byte{probeType >> 8, probeType & 0xff})
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(proto))
	if err != nil {
		return -1, fmt.Errorf("open packet socket: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	ifr, err := unix.NewIfreq(t.name)
	if err != nil {
		return -1, err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return -1, fmt.Errorf("bring up %s: %w", t.name, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return -1, fmt.Errorf("find %s: %w", t.name, err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: int(ifr.Uint32())}); err != nil {
		return -1, fmt.Errorf("bind to %s: %w", t.name, err)
	}
	// Capacity for seconds of frames: a receiver that is not scheduled must not count as a
	// link that loses.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 128<<20); err != nil {
		return -1, fmt.Errorf("enlarge receive buffer: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return -1, fmt.Errorf("ask for time stamps: %w", err)
	}
	return fd, nil
}

// send sends evenly spaced frames and returns how many.
func (t Trial) send(fd int) (n int, err error) {
	frame := make([]byte, t.Size)
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, probeType >> 8, probeType & 0xff})
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // bursts otherwise, no more
	gap := time.Duration(int64(t.Size) * 8 * int64(time.Second) / t.Offered)
	begin := clock()
	for at := time.Duration(0); at < t.Span; at += gap {
		if early := at - (clock() - begin); early > 0 {
			ts := unix.NsecToTimespec(int64(early))
			_ = unix.Nanosleep(&ts, nil) // cut short: then a little early
		}
		binary.BigEndian.PutUint64(frame[ethLen:], uint64(n))
		binary.BigEndian.PutUint64(frame[ethLen+8:], uint64(time.Now().UnixNano()))
		for {
			_, err = unix.Write(fd, frame)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // the device's queue is full
			return n, fmt.Errorf("send: %w", err)
		}
		n++
	}
	return n, nil
}

// receiver collects the arriving frames.
type receiver struct {
	fd          int
	delay       time.Duration
	copies      int // of each frame, at most
	errs        []time.Duration
	next        uint64
	reordered   int
	first, last int64
}

// run receives until all copies of the frames that the sender reported have arrived, or none has arrived for patience:
// half of them may be there before the link has read the last frame.
func (r *receiver) run(sent <-chan int, patience time.Duration) error {
	buf, oob := make([]byte, 2048), make([]byte, 128)
	total := -1
	for total < 0 || len(r.errs) < r.copies*total {
		poll := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(patience.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for frames: %w", err)
		}
		select {
		case total = <-sent:
		default:
		}
		if n <= 0 {
			if err == nil && total >= 0 {
				return nil
			}
			continue
		}
		k, ko, _, _, err := unix.Recvmsg(r.fd, buf, oob, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("receive: %w", err)
		}
		if k >= ethLen+stampLen {
			r.note(buf[ethLen:], oob[:ko])
		}
	}
	return nil
}

// note takes down one frame.
func (r *receiver) note(stamp, oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) == 0 || len(msgs[0].Data) < 16 {
		return // counted as lost, since it has no time stamp
	}
	at := int64(binary.NativeEndian.Uint64(msgs[0].Data))*int64(time.Second) +
		int64(binary.NativeEndian.Uint64(msgs[0].Data[8:]))
	seq, sent := binary.BigEndian.Uint64(stamp), int64(binary.BigEndian.Uint64(stamp[8:]))
	if seq < r.next {
		r.reordered++
	}
	r.next = max(r.next, seq+1)
	r.errs = append(r.errs, (time.Duration(at-sent) - r.delay).Abs())
	if r.first == 0 {
		r.first = at
	}
	r.last = at
}

// figures sums up.
func (r *receiver) figures(size int) Figures {
	f := Figures{Received: len(r.errs), Reordered: r.reordered}
	if len(r.errs) == 0 {
		return f
	}
	slices.Sort(r.errs)
	n := len(r.errs)
	f.ErrMedian, f.ErrP99, f.ErrMax = r.errs[n/2], r.errs[n*99/100], r.errs[n-1]
	if span := time.Duration(r.last - r.first); span > 0 {
		// The first frame marks the beginning: it took no time of the span.
		f.Rate = float64(n-1) * float64(size) * 8 / span.Seconds()
	}
	return f
}
