package udpflow

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/workload/agent"
)

// Main runs one end of a flow and returns when standard input ends or on
// SIGTERM. Arguments:
//
//	--listen ADDRESS   wait there, answer the first that sends; or
//	--to HOST:PORT     begin
//	--rate N           datagrams per second to send (the waiting end begins
//	                   when the first datagram came); 0 sends a few to open the flow
//	--size N           bytes of payload
//	--class N          traffic class of what it sends, 0 to 255
//	--burst D          what it sends at once of what is overdue, at most; 20ms
//	--out PATH         writes PATH.tx, PATH.rx and PATH.drops
//
// The line "stop" on standard input ends the sending but not the receiving.
// Every 100 ms it prints "sent received failed" counts on one line. At the end
// it prints "rcvbuf_errors N", how many datagrams its socket dropped.
func Main(args []string) error {
	fs := flag.NewFlagSet("udp-flow", flag.ContinueOnError)
	from := fs.String("listen", "", "address to wait on")
	to := fs.String("to", "", "address to send to")
	rate := fs.Int("rate", 0, "datagrams per second to send")
	size := fs.Int("size", 64, "bytes of payload")
	class := fs.Uint("class", 0, "traffic class of what it sends")
	burst := fs.Duration("burst", BurstMost, "what it sends at once of what is overdue, at most")
	out := fs.String("out", "", "path of the logs, without .tx and .rx")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("parse arguments: %w", err)
	}
	fits := *size >= MinSize && *size <= maxSize && *rate >= 0 && *class <= 255 && *burst > 0
	if (*from == "") == (*to == "") || *out == "" || !fits {
		return fmt.Errorf("want one of --listen and --to, --out, a size of %d to %d, a rate, a class of 8 bits, a burst",
			MinSize, maxSize)
	}
	e := &end{rate: *rate, size: *size, most: *burst, first: make(chan struct{}), full: RcvbufErrors()}
	var err error
	if *from != "" {
		e.conn, err = listen(*from)
	} else {
		e.conn, err = dial(*to)
	}
	if err == nil {
		err = classify(e.conn, int(*class))
	}
	if err != nil {
		return err
	}
	return e.run(*out, *to != "", os.Stdin, os.Stdout)
}

// run runs the end until its input ends.
func (e *end) run(out string, begins bool, in io.Reader, status io.Writer) error {
	tf, tx, err := create(out + ".tx")
	if err != nil {
		return err
	}
	defer tf.Close()
	rf, rx, err := create(out + ".rx")
	if err != nil {
		return err
	}
	defer rf.Close()
	df, lost, err := create(out + ".drops")
	if err != nil {
		return err
	}
	defer df.Close()
	e.tx, e.rx, e.lost = tx, rx, lost
	stop, quit := agent.Commands(in)
	var wg sync.WaitGroup
	wg.Go(e.receive)
	wg.Go(func() {
		switch {
		case begins && e.rate == 0:
			e.open(stop)
		case begins:
			e.send(stop)
		default:
			select {
			case <-e.first:
				e.send(stop)
			case <-stop:
			}
		}
	})
	agent.Status(status, quit, func() string {
		return fmt.Sprintf("%d %d %d", e.sent.Load(), e.got.Load(), e.failed.Load())
	})
	ReadOut(e.conn)
	dropped := bufferDrops(e.drops(), RcvbufErrors()-e.full)
	_ = e.conn.Close()
	wg.Wait()
	e.writeDrop(dropsEnd, dropped)
	fmt.Fprintf(status, "rcvbuf_errors %d\n", dropped)
	return errors.Join(e.tx.Flush(), e.rx.Flush(), e.lost.Flush())
}

// open sends a datagram every agent.StatusEvery until the other end answers, so that the
// sending end learns the address of an end that only receives.
func (e *end) open(stop <-chan struct{}) {
	t := time.NewTicker(agent.StatusEvery)
	defer t.Stop()
	buf := make([]byte, e.size)
	copy(buf, []byte{magic >> 24, magic >> 16 & 0xff, magic >> 8 & 0xff, magic & 0xff})
	for n := uint64(0); ; n++ {
		e.one(buf, n)
		select {
		case <-stop:
			return
		case <-e.first:
			return
		case <-t.C:
		}
	}
}

// bufferDrops are the drops of a socket that are its buffer's. The socket also counts datagrams
// with a wrong checksum, which may be the fault of what is under test; the namespace counts
// full buffers alone, but of every socket.
func bufferDrops(socket, namespace uint64) uint64 { return min(socket, namespace) }

// RcvbufErrors returns how many datagrams the receive buffers of this network
// namespace have refused (Udp6RcvbufErrors).
func RcvbufErrors() (n uint64) {
	b, err := os.ReadFile("/proc/self/net/snmp6")
	if err != nil {
		return 0
	}
	return snmp6(string(b), "Udp6RcvbufErrors")
}

// drops returns how many datagrams the end's own socket has dropped, by the kernel's table of
// sockets.
func (e *end) drops() (n uint64) {
	raw, err := e.conn.SyscallConn()
	if err != nil {
		return 0
	}
	var st unix.Stat_t
	if raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }) != nil || err != nil {
		return 0
	}
	b, err := os.ReadFile("/proc/self/net/udp6")
	if err != nil {
		return 0
	}
	return socketDrops(string(b), st.Ino)
}

// ReadOut waits until whoever reads the socket has read all that it holds, 10 s at most. On a busy machine
// a reader can be seconds late, and what is unread when the socket is closed would count as lost.
func ReadOut(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	for by := time.Now().Add(readOutWithin); time.Now().Before(by); time.Sleep(time.Millisecond) {
		held := 0
		if raw.Control(func(fd uintptr) { held, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }) != nil || err != nil ||
			held == 0 {
			return
		}
	}
}

// readOutWithin is the longest that ReadOut waits.
const readOutWithin = 10 * time.Second

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
