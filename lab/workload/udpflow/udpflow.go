// Package udpflow measures a UDP path exactly: numbered datagrams at a steady rate in both
// directions, with a log of every send and arrival and its time.
//
// It implements the program (Main) that runs inside a host of the lab, and the evaluation
// of its logs: loss, misordering, longest gap and rate within any span of time. It omits
// congestion control and retransmission, which would hide a loss. It is driven by
// lab/workload, whose agent command runs it, and by experiments that read the logs; both
// ends must run on one machine, whose clock they share.
package udpflow

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// magic begins every datagram, so that stray packets do not count.
const magic = 0x524d5546

// maxSize is the greatest payload: that of an Ethernet frame of 1,514 bytes.
const maxSize = 1452

// MinSize is the least payload of a datagram: magic, number, time of sending.
const MinSize = 4 + 8 + 8

// rcvBuf is the requested receive buffer, in bytes: half a second of the greatest rate, so
// that a busy machine does not cause losses.
const rcvBuf = 8 << 20

// tick is the pause between checks for due datagrams.
const tick = 500 * time.Microsecond

// end is one end of a running flow.
type end struct {
	conn *net.UDPConn
	peer atomic.Pointer[net.UDPAddr] // nil: connected, or not yet known
	rate int                         // datagrams per second to send; 0: none
	size int
	most time.Duration // that it sends at once of what is overdue; 0: BurstMost

	sent, got, failed atomic.Uint64
	tx, rx, lost      *bufio.Writer
	dropped           uint32        // by the socket, as the last arrival said
	full              uint64        // datagrams that full buffers of the namespace had dropped before
	first             chan struct{} // closed when the first datagram has arrived
	once              sync.Once
}

// listen opens the socket of the listening end.
func listen(address string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr("udp6", address)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", address, err)
	}
	c, err := net.ListenUDP("udp6", a)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return c, prepare(c)
}

// dial opens the socket of the initiating end.
func dial(address string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr("udp6", address)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", address, err)
	}
	c, err := net.DialUDP("udp6", nil, a)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return c, prepare(c)
}

// prepare requests the kernel's time stamps, which do not depend on our scheduling, its count
// of datagrams that the socket dropped, and a large buffer.
func prepare(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		for _, option := range []int{unix.SO_TIMESTAMPNS, unix.SO_RXQ_OVFL} {
			if set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1); set != nil {
				return
			}
		}
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, rcvBuf) != nil {
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, rcvBuf)
		}
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("set socket options: %w", err)
	}
	return nil
}

// classify sets the traffic class of what a socket sends.
func classify(c *net.UDPConn, class int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, class) })
	if err := errors.Join(err, set); err != nil {
		return fmt.Errorf("set traffic class: %w", err)
	}
	return nil
}

// receive writes down every datagram until the socket is closed.
func (e *end) receive() {
	buf, oob := make([]byte, 65536), make([]byte, 128)
	var rec [gotSize]byte
	for {
		n, on, _, from, err := e.conn.ReadMsgUDP(buf, oob)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue // an ICMP error about a sent datagram; the flow continues
		}
		at := Arrival(oob[:on])
		if n < MinSize || binary.BigEndian.Uint32(buf) != magic {
			continue
		}
		if e.conn.RemoteAddr() == nil {
			e.peer.Store(from)
		}
		e.once.Do(func() { close(e.first) })
		e.noteDrop(dropped(oob[:on]))
		e.got.Add(1)
		copy(rec[:16], buf[4:20])
		binary.BigEndian.PutUint64(rec[16:], uint64(at))
		_, _ = e.rx.Write(rec[:]) // the error stays in the writer and shows at Flush
	}
}

// Arrival returns the kernel's time stamp among the control messages of a datagram
// (SO_TIMESTAMPNS), in nanoseconds of Unix time, or now if it is missing.
func Arrival(oob []byte) int64 {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err == nil {
		for _, m := range msgs {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
				return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
			}
		}
	}
	return time.Now().UnixNano()
}

// BurstMost bounds the overdue datagrams that are sent late after the program did not run.
// A longer burst would overflow queues: the probe itself would cause the loss.
const BurstMost = 20 * time.Millisecond

// send writes datagrams at the steady rate until stop is closed.
func (e *end) send(stop <-chan struct{}) {
	if e.rate <= 0 {
		return
	}
	t := time.NewTicker(tick)
	defer t.Stop()
	buf := make([]byte, e.size)
	binary.BigEndian.PutUint32(buf, magic)
	start := time.Now()
	for sent := uint64(0); ; {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		var due uint64
		for due, start = e.due(time.Now(), start, sent); sent < due; sent++ {
			e.one(buf, sent)
		}
	}
}

// due returns how many datagrams a flow has sent in all once those that are due now have left, and as when it has
// begun from now on: later by what it does not make up for.
func (e *end) due(now, start time.Time, sent uint64) (uint64, time.Time) {
	interval := time.Duration(float64(time.Second) / float64(e.rate))
	most := max(cmp.Or(e.most, BurstMost), 2*interval) // or none would ever be due at a low rate
	behind := now.Sub(start) - time.Duration(float64(sent)/float64(e.rate)*float64(time.Second))
	if behind > most {
		start = start.Add(behind - most)
	}
	return uint64(now.Sub(start).Seconds() * float64(e.rate)), start
}

// one sends one datagram and logs it with the system's error, if any. A datagram that the
// kernel refused was not sent.
func (e *end) one(buf []byte, n uint64) {
	now := time.Now().UnixNano()
	binary.BigEndian.PutUint64(buf[4:], n)
	binary.BigEndian.PutUint64(buf[12:], uint64(now))
	var err error
	if to := e.peer.Load(); to != nil {
		_, err = e.conn.WriteToUDP(buf, to)
	} else {
		_, err = e.conn.Write(buf)
	}
	var rec [sentSize]byte
	binary.BigEndian.PutUint64(rec[:], n)
	binary.BigEndian.PutUint64(rec[8:], uint64(now))
	if err != nil {
		e.failed.Add(1)
		rec[16] = 1
	} else {
		e.sent.Add(1)
	}
	_, _ = e.tx.Write(rec[:]) // the error stays in the writer and shows at Flush
}

// create opens one of the two log files of an end.
func create(path string) (*os.File, *bufio.Writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("create log: %w", err)
	}
	return f, bufio.NewWriterSize(f, 1<<16), nil
}
