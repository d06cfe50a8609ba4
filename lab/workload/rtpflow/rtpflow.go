// Package rtpflow records a stream of RTP (RFC 3550), without decoding the media, and
// compares the received packets with the sent ones.
//
// It implements the recorder (each datagram whole, with the kernel's time of arrival),
// identification of packets across a wrap of the sequence number, loss, disorder and gaps,
// and the reordering buffer of a player. It omits RTCP, which it discards, and the media
// itself (lab/video). It is driven by lab/workload, whose agent command runs it, and by
// lab/exp/video, which reads the recordings.
package rtpflow

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"roam/lab/workload/agent"
	"roam/lab/workload/udpflow"
)

// rcvBuf is the requested receive buffer, in bytes: a second of the fastest stream, and
// capacity for the bursts in which pictures are sent.
const rcvBuf = 32 << 20

// headSize is the length of a datagram's header in a recording: time of arrival
// (nanoseconds of Unix time) and length.
const headSize = 8 + 4

// Main records until standard input ends or SIGTERM. Arguments:
//
//	--listen ADDRESS   the port for RTP; RTCP uses the next one
//	--out PATH         the recording
//
// Every 100 ms it prints the number of datagrams and bytes. At the end it prints
// "rcvbuf_errors N", the number of datagrams that the host's receive buffers dropped.
func Main(args []string) error {
	fs := flag.NewFlagSet("rtp-record", flag.ContinueOnError)
	from := fs.String("listen", "", "address to wait on")
	out := fs.String("out", "", "path of the recording")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("parse arguments: %w", err)
	}
	if *from == "" || *out == "" {
		return errors.New("want --listen and --out")
	}
	r, err := open(*from, *out)
	if err != nil {
		return err
	}
	return r.run(os.Stdin, os.Stdout)
}

// recorder is a recording in progress.
type recorder struct {
	media, control *net.UDPConn
	file           *os.File
	out            *bufio.Writer
	count, nbytes  atomic.Uint64
}

// open binds both ports and makes the file.
func open(address, path string) (*recorder, error) {
	a, err := net.ResolveUDPAddr("udp6", address)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", address, err)
	}
	r := &recorder{}
	if r.media, err = listen(a); err != nil {
		return nil, err
	}
	if r.control, err = listen(&net.UDPAddr{IP: a.IP, Port: a.Port + 1}); err != nil {
		_ = r.media.Close()
		return nil, err
	}
	if r.file, err = os.Create(path); err != nil {
		_, _ = r.media.Close(), r.control.Close()
		return nil, fmt.Errorf("create recording: %w", err)
	}
	r.out = bufio.NewWriterSize(r.file, 1<<20)
	return r, nil
}

// listen binds a port with a large buffer and the kernel's times of arrival.
func listen(a *net.UDPAddr) (*net.UDPConn, error) {
	c, err := net.ListenUDP("udp6", a)
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", a, err)
	}
	raw, err := c.SyscallConn()
	if err == nil {
		var set error
		err = raw.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, rcvBuf) != nil {
				set = errors.Join(set, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, rcvBuf))
			}
		})
		err = errors.Join(err, set)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("set socket options: %w", err)
	}
	return c, nil
}

// run records until its input ends.
func (r *recorder) run(in io.Reader, status io.Writer) error {
	before := udpflow.RcvbufErrors()
	var wg sync.WaitGroup
	wg.Go(r.record)
	wg.Go(func() { discard(r.control) })
	_, quit := agent.Commands(in)
	agent.Status(status, quit, func() string { return fmt.Sprintf("%d %d", r.count.Load(), r.nbytes.Load()) })
	udpflow.ReadOut(r.media)
	_, _ = r.media.Close(), r.control.Close()
	wg.Wait()
	fmt.Fprintf(status, "rcvbuf_errors %d\n", udpflow.RcvbufErrors()-before)
	return errors.Join(r.out.Flush(), r.file.Close())
}

// record writes every datagram until the socket is closed.
func (r *recorder) record() {
	buf, oob := make([]byte, 65536), make([]byte, 256)
	var head [headSize]byte
	for {
		n, on, _, _, err := r.media.ReadMsgUDP(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		binary.BigEndian.PutUint64(head[:], uint64(udpflow.Arrival(oob[:on])))
		binary.BigEndian.PutUint32(head[8:], uint32(n))
		_, _ = r.out.Write(head[:]) // the error stays in the writer and shows at Flush
		_, _ = r.out.Write(buf[:n])
		r.count.Add(1)
		r.nbytes.Add(uint64(n))
	}
}

// discard reads and drops datagrams until the socket is closed: a closed port would answer
// the sender's reports with errors.
func discard(c *net.UDPConn) {
	buf := make([]byte, 2048)
	for {
		if _, err := c.Read(buf); errors.Is(err, net.ErrClosed) {
			return
		}
	}
}
