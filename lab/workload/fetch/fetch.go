// Package fetch measures how long short transfers over TCP take: an application opens a connection,
// asks for a number of bytes and reads them to the end, again and again.
//
// It implements the program (Main) that runs inside a host of the lab, and the reading of its
// output. It omits names, encryption and connections that stay open. It is driven by
// lab/workload, whose agent command runs it.
package fetch

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/workload/agent"
)

const (
	warmBytes = 20_000                 // of a transfer that is not counted
	warmPause = 100 * time.Millisecond // between two of them
	within    = 30 * time.Second       // of each transfer
	mostBytes = 1 << 30
)

// Main runs one end. Arguments:
//
//	--listen ADDRESS   answer transfers until standard input ends or on SIGTERM
//	--cc NAME          with it: congestion control; the kernel's default if empty
//	--to HOST:PORT     fetch, then end:
//	--sizes N,N        bytes of the transfers, in turn
//	--times N          transfers of each size
//	--warm D           before that, fetch 20 kB each tenth of a second for so long, uncounted
//	--pause D          between two transfers
//
// The fetching end prints the line "BYTES NANOSECONDS" for each transfer, from the call to connect to
// the end of the data.
func Main(args []string) error {
	fs := flag.NewFlagSet("fetch", flag.ContinueOnError)
	listen := fs.String("listen", "", "address to wait on")
	cc := fs.String("cc", "", "congestion control")
	to := fs.String("to", "", "address to fetch from")
	sizes := fs.String("sizes", "100000", "bytes of the transfers")
	times := fs.Int("times", 1, "transfers of each size")
	warm := fs.Duration("warm", 0, "transfers before that are not counted")
	pause := fs.Duration("pause", 0, "pause between transfers")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("parse arguments: %w", err)
	}
	list, err := parseSizes(*sizes)
	if err != nil {
		return err
	}
	if (*listen == "") == (*to == "") {
		return errors.New("want one of --listen and --to")
	}
	if *to != "" {
		return client{dial, *to, list, *times, *warm, *pause}.run(os.Stdout)
	}
	l, err := listener(*cc).Listen(context.Background(), "tcp6", *listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", *listen, err)
	}
	_, quit := agent.Commands(os.Stdin)
	go func() {
		<-quit
		_ = l.Close()
	}()
	return serve(l)
}

func parseSizes(s string) (list []int, err error) {
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 || n > mostBytes {
			return nil, fmt.Errorf("read sizes: %q is no size of a transfer", f)
		}
		list = append(list, n)
	}
	return list, nil
}

// listener sets the congestion control of the listening socket, which accepted ones inherit.
func listener(cc string) *net.ListenConfig {
	return &net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		if cc == "" {
			return nil
		}
		err := c.Control(func(fd uintptr) {
			set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, cc)
		})
		if err := errors.Join(err, set); err != nil {
			return fmt.Errorf("set congestion control %s: %w", cc, err)
		}
		return nil
	}}
}

// serve answers each connection with as many bytes as it asks for, until the listener is closed.
func serve(l net.Listener) error {
	data := make([]byte, 1<<16)
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(within))
			var ask [8]byte
			if _, err := io.ReadFull(c, ask[:]); err != nil {
				return
			}
			for left := min(binary.BigEndian.Uint64(ask[:]), mostBytes); left > 0; {
				n, err := c.Write(data[:min(left, uint64(len(data)))])
				if err != nil {
					return // the other end sees that bytes are missing
				}
				left -= uint64(n)
			}
		}()
	}
}

func dial(to string) (net.Conn, error) { return net.DialTimeout("tcp6", to, within) }

// client fetches.
type client struct {
	connect     func(to string) (net.Conn, error)
	to          string
	sizes       []int
	times       int
	warm, pause time.Duration
}

func (c client) run(out io.Writer) error {
	for begin := time.Now(); time.Since(begin) < c.warm; <-time.After(warmPause) {
		if _, err := c.fetch(warmBytes); err != nil {
			return err
		}
	}
	pause := time.NewTicker(max(c.pause, 1))
	defer pause.Stop()
	for range c.times {
		for _, n := range c.sizes {
			took, err := c.fetch(n)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, n, took.Nanoseconds())
			pause.Reset(max(c.pause, 1))
			<-pause.C
		}
	}
	return nil
}

// fetch returns how long one transfer takes.
func (c client) fetch(bytes int) (time.Duration, error) {
	begin := time.Now()
	conn, err := c.connect(c.to)
	if err != nil {
		return 0, fmt.Errorf("connect to %s: %w", c.to, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(begin.Add(within))
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, uint64(bytes))); err != nil {
		return 0, fmt.Errorf("ask for %d bytes: %w", bytes, err)
	}
	n, err := io.Copy(io.Discard, conn)
	if err == nil && n != int64(bytes) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, fmt.Errorf("fetch %d bytes: after %d: %w", bytes, n, err)
	}
	return time.Since(begin), nil
}

// Parse reads a line of the output of the fetching end.
func Parse(line string) (bytes int, took time.Duration, err error) {
	var ns int64
	if n, err := fmt.Sscan(line, &bytes, &ns); n != 2 || err != nil || bytes < 1 || ns < 0 {
		return 0, 0, fmt.Errorf("read line of fetch: %q", line)
	}
	return bytes, time.Duration(ns), nil
}

// Read reads the output of the fetching end: how long each transfer took, by size. A transfer that it
// does not report is an error.
func Read(output string, sizes []int, times int) (map[int][]time.Duration, error) {
	took := make(map[int][]time.Duration)
	for line := range strings.Lines(output) {
		bytes, d, err := Parse(line)
		if err != nil {
			return nil, err
		}
		took[bytes] = append(took[bytes], d)
	}
	for _, n := range sizes {
		if len(took[n]) < times {
			return nil, fmt.Errorf("of %d transfers of %d bytes %d are reported", times, n, len(took[n]))
		}
	}
	return took, nil
}
