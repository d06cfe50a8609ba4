// Package tcpflow measures when the receiving application gets the bytes of one TCP
// connection: a sender writes numbered messages at a steady pace, a receiver records the
// time of every read.
//
// It implements the program (Main) that runs inside a host of the lab, and the evaluation
// of its log: longest gap, bytes, and whether every message arrived once, whole and in
// order. It omits any compensation for TCP's behavior (no reconnection, no catching up). It
// is driven by lab/workload, whose agent command runs it, and by experiments that read the
// logs.
package tcpflow

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/workload/agent"
)

// noKeepAlive disables Go's default keep-alive, which closes a connection after 150 s
// without an answer: a network may be away for longer.
const noKeepAlive = -1

// end is one end of a running connection.
type end struct {
	sends    bool
	answers  bool          // the receiver answers each message with a byte
	size     int           // bytes of a message
	every    time.Duration // pause between messages
	bytes    atomic.Uint64 // written or read
	broken   atomic.Uint64 // messages out of order
	log      *bufio.Writer
	listener net.Listener
	to, cc   string
	mptcp    bool
}

// Main runs one end. Arguments:
//
//	--listen ADDRESS | --to HOST:PORT
//	--send           this end sends; the other one must not
//	--size N         bytes of a message, the same at both ends
//	--answer         the receiving end answers each message with a byte; of both ends or none
//	--every D        pause between messages
//	--cc NAME        congestion control of this end; the kernel's default if empty
//	--mptcp          this end uses the kernel's Multipath TCP
//	--out PATH       the receiving end writes PATH.rd
//
// It ends when standard input ends, on SIGTERM, or when the connection does;
// the line "stop" ends the sending in good order. Every 100 ms it prints
// "bytes broken" on one line, at the end the line "end REASON".
func Main(args []string) error {
	fs := flag.NewFlagSet("tcp-flow", flag.ContinueOnError)
	listen := fs.String("listen", "", "address to wait on")
	to := fs.String("to", "", "address to connect to")
	send := fs.Bool("send", false, "this end sends")
	answer := fs.Bool("answer", false, "each message is answered with a byte")
	size := fs.Int("size", 1000, "bytes of a message")
	every := fs.Duration("every", time.Millisecond, "pause between messages")
	cc := fs.String("cc", "", "congestion control")
	mptcp := fs.Bool("mptcp", false, "use Multipath TCP")
	out := fs.String("out", "", "path of the log, without .rd")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("parse arguments: %w", err)
	}
	if (*listen == "") == (*to == "") || *out == "" || *size < 8 || *every <= 0 {
		return errors.New("want one of --listen and --to, --out, a size of at least 8 and a positive pause")
	}
	e := &end{sends: *send, answers: *answer, size: *size, every: *every, to: *to, cc: *cc, mptcp: *mptcp}
	if *listen != "" {
		lc := net.ListenConfig{KeepAlive: noKeepAlive}
		lc.SetMultipathTCP(*mptcp)
		l, err := lc.Listen(context.Background(), "tcp6", *listen)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", *listen, err)
		}
		defer l.Close()
		e.listener = l
	}
	return e.run(*out, os.Stdin, os.Stdout)
}

// run opens the connection and moves bytes until it ends.
func (e *end) run(out string, in io.Reader, status io.Writer) error {
	f, err := os.Create(out + ".rd")
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer f.Close()
	e.log = bufio.NewWriterSize(f, 1<<16)
	stop, quit := agent.Commands(in)
	conn, err := e.connect(quit)
	if err != nil {
		return err
	}
	if err := setCongestion(conn, e.cc); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		if e.sends {
			done <- e.send(conn, stop)
		} else {
			done <- e.receive(conn)
		}
	}()
	reason := e.report(status, done, quit)
	_ = conn.Close()
	fmt.Fprintf(status, "end %s\n", reason)
	if err := e.log.Flush(); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}

// setCongestion sets the congestion control of one connection: in a network namespace the
// default can be only one of those that the machine allows to everyone.
func setCongestion(c net.Conn, name string) error {
	if name == "" {
		return nil
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	})
	if err := errors.Join(err, set); err != nil {
		return fmt.Errorf("set congestion control %s: %w", name, err)
	}
	return nil
}

func (e *end) connect(quit <-chan struct{}) (net.Conn, error) {
	if e.listener == nil {
		d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: noKeepAlive}
		d.SetMultipathTCP(e.mptcp)
		c, err := d.Dial("tcp6", e.to)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", e.to, err)
		}
		if used, err := c.(*net.TCPConn).MultipathTCP(); e.mptcp && !used {
			return nil, errors.Join(fmt.Errorf("connect to %s: no Multipath TCP, but TCP", e.to), err, c.Close())
		}
		return c, nil
	}
	// Accepting must not outlive the command to quit.
	accepted := make(chan struct{})
	defer close(accepted)
	go func() {
		select {
		case <-quit:
			_ = e.listener.Close()
		case <-accepted:
		}
	}()
	c, err := e.listener.Accept()
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return c, nil
}

// send writes a message per tick. It skips ticks that pass while a write blocks: after a
// stall the stream continues at its pace.
func (e *end) send(c net.Conn, stop <-chan struct{}) error {
	t := time.NewTicker(e.every)
	defer t.Stop()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if e.answers {
			_, _ = io.Copy(io.Discard, c) // any end of the connection ends the sending
		}
	}()
	buf := make([]byte, e.size)
	for n := uint64(0); ; n++ {
		select {
		case <-stop:
			err := c.(*net.TCPConn).CloseWrite()
			<-answered // to close with answers unread would reset the connection
			return err
		case <-t.C:
		}
		binary.BigEndian.PutUint64(buf, n)
		if _, err := c.Write(buf); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		e.bytes.Add(uint64(e.size))
	}
}

// receive writes down the time and size of every read and checks the numbers.
func (e *end) receive(c net.Conn) error {
	buf := make([]byte, 1<<16)
	check := checker{size: e.size}
	var rec [readSize]byte
	for {
		n, err := c.Read(buf)
		if n > 0 {
			binary.BigEndian.PutUint64(rec[:], uint64(time.Now().UnixNano()))
			binary.BigEndian.PutUint64(rec[8:], uint64(n))
			_, _ = e.log.Write(rec[:]) // the error stays in the writer and shows at Flush
			e.bytes.Add(uint64(n))
			had := check.next
			check.feed(buf[:n])
			e.broken.Store(check.broken)
			if err := e.answer(c, int(check.next-had)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
}

// answer acknowledges messages with a byte each, so that the other end's segments carry
// acknowledgements, as in most protocols.
func (e *end) answer(c net.Conn, messages int) error {
	if !e.answers || messages == 0 {
		return nil
	}
	if _, err := c.Write(make([]byte, messages)); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// report prints counts until the connection or the input ends, and then the reason.
func (e *end) report(w io.Writer, done <-chan error, quit <-chan struct{}) string {
	t := time.NewTicker(agent.StatusEvery)
	defer t.Stop()
	for {
		fmt.Fprintf(w, "%d %d\n", e.bytes.Load(), e.broken.Load())
		select {
		case err := <-done:
			fmt.Fprintf(w, "%d %d\n", e.bytes.Load(), e.broken.Load())
			if err != nil {
				return err.Error()
			}
			return "closed"
		case <-quit:
			return "asked to"
		case <-t.C:
		}
	}
}

// checker verifies that messages arrive once and in order, wherever the reads split the
// stream.
type checker struct {
	size   int
	off    int // within the current message
	head   [8]byte
	next   uint64
	broken uint64
}

func (c *checker) feed(b []byte) {
	for len(b) > 0 {
		n := min(c.size-c.off, len(b))
		if c.off < 8 {
			copy(c.head[c.off:], b[:n])
		}
		if c.off += n; c.off == c.size {
			if binary.BigEndian.Uint64(c.head[:]) != c.next {
				c.broken++
			}
			c.next, c.off = c.next+1, 0
		}
		b = b[n:]
	}
}
