package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// injectMain sends the IPv6 packets that it reads, one a line in hexadecimal,
// as they are: a raw socket that takes whole headers, routed by the kernel of
// the host that it runs on.
func injectMain(in io.Reader) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("open raw socket: %w", err)
	}
	defer unix.Close(fd)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		b, err := hex.DecodeString(lines.Text())
		if err != nil || len(b) < 40 {
			return fmt.Errorf("packet of %d bytes: %w", len(b), errors.Join(err, io.ErrUnexpectedEOF))
		}
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet6{Addr: [16]byte(b[24:40])}); err != nil {
			return fmt.Errorf("send packet: %w", err)
		}
	}
	return lines.Err()
}

// talkMain is a TCP or UDP client that says nothing of its own: it connects,
// prints the two addresses of the connection and how long that took, then
// copies standard input there and what comes back to standard output.
func talkMain(args []string) error {
	if len(args) != 2 {
		return errors.New("want tcp6 or udp6, and an address")
	}
	began := time.Now()
	c, err := net.DialTimeout(args[0], args[1], 10*time.Second)
	if err != nil {
		fmt.Printf("failed after %d ms: %v\n", time.Since(began).Milliseconds(), err)
		return nil
	}
	defer c.Close()
	fmt.Printf("connected %v %v %d ms\n", c.LocalAddr(), c.RemoteAddr(), time.Since(began).Milliseconds())
	wrote := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, os.Stdin)
		if t, ok := c.(*net.TCPConn); ok && err == nil {
			_ = t.CloseWrite()
		}
		wrote <- err
	}()
	if _, err = io.Copy(os.Stdout, c); err != nil {
		return err
	}
	// A socket tells its error once: where writing met it, reading sees an end.
	select {
	case err = <-wrote:
	case <-time.After(200 * time.Millisecond):
	}
	return err
}

// echoMain answers every TCP connection and every datagram to a port with what
// came in.
func echoMain(args []string) error { return echoTo(io.Discard, args) }

// ledgerMain does so too, and prints all that came in.
func ledgerMain(args []string) error { return echoTo(os.Stdout, args) }

func echoTo(ledger io.Writer, args []string) error {
	if len(args) != 1 {
		return errors.New("want a port")
	}
	l, err := net.Listen("tcp6", "[::]:"+args[0])
	if err != nil {
		return err
	}
	u, err := net.ListenPacket("udp6", "[::]:"+args[0])
	if err != nil {
		return err
	}
	go func() {
		for b := make([]byte, 1<<16); ; {
			if n, from, err := u.ReadFrom(b); err == nil {
				_, _ = ledger.Write(b[:n])
				_, _ = u.WriteTo(b[:n], from)
			}
		}
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, io.TeeReader(c, ledger))
		}()
	}
}

// slowMain answers every datagram to a port with what came in, after a while.
func slowMain(args []string) error {
	if len(args) != 2 {
		return errors.New("want a port and a time")
	}
	slowness, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	u, err := net.ListenPacket("udp6", "[::]:"+args[0])
	if err != nil {
		return err
	}
	for b := make([]byte, 1<<16); ; {
		n, from, err := u.ReadFrom(b)
		if err != nil {
			return err
		}
		answer := bytes.Clone(b[:n])
		time.AfterFunc(slowness, func() { _, _ = u.WriteTo(answer, from) })
	}
}

// sprayMain sends datagrams of 1,000 bytes to random addresses of a /64, at a
// rate, for as long as it lives: what any local program may do.
func sprayMain(args []string) error {
	if len(args) != 2 {
		return errors.New("want an address of the /64, and a rate")
	}
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	rate, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp6", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	random, data := rand.New(rand.NewPCG(6740, 0)), make([]byte, 1000)
	_, err = paced(context.Background(), rate, 0, func(int) error {
		a := to.As16()
		binary.BigEndian.PutUint64(a[8:], random.Uint64()&^(0xff<<56)|0x10<<56)
		_, _ = c.WriteToUDPAddrPort(data, netip.AddrPortFrom(netip.AddrFrom16(a), 9)) // a full buffer is no fault
		return nil
	})
	return err
}
