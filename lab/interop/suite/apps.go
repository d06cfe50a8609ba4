package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"time"
)

// Ports of the servers on Roam's host.
const (
	echoServer  = 7001 // TCP and UDP
	fetchServer = 7003 // TCP: sends fetchSize bytes and closes
)

// Sizes of transfers, in bytes.
const (
	echoSize  = 20_000
	fetchSize = 60_000
	turnSize  = 200
)

// pattern is the data of a transfer.
func pattern(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// connect opens a TCP connection from Roam's host to the target.
func (w *world) connect(ctx context.Context, span time.Duration) (c net.Conn, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	began := time.Now()
	err = w.mn.Do(func() (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, "tcp6", netip.AddrPortFrom(sessionAddr(w.target.nid()), w.target.port()).String())
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("connect to the target: no connection within %v", span)
	}
	return c, time.Since(began), nil
}

// echo sends data and expects it back.
func echo(c net.Conn, data []byte, span time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(span)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		sent <- err
	}()
	got := make([]byte, len(data))
	n, err := io.ReadFull(c, got)
	if err != nil {
		return fmt.Errorf("%d of %d bytes came back within %v", n, len(data), span)
	}
	if !bytes.Equal(got, data) {
		return errors.New("what came back differs from what was sent")
	}
	return <-sent
}

// callTCP starts turns from Roam's host.
func (w *world) callTCP(ctx context.Context) (*turns, error) {
	c, _, err := w.connect(ctx, handshakes)
	if err != nil {
		return nil, err
	}
	w.servers = append(w.servers, c.Close)
	data := pattern(turnSize)
	return startTurns(ctx, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
		defer stop()
		return echo(c, data, patience)
	}), nil
}

// callUDP starts a flow of datagrams from Roam's host.
func (w *world) callUDP(ctx context.Context) (*datagrams, error) {
	var c net.Conn
	err := w.mn.Do(func() (err error) {
		c, err = net.Dial("udp6", netip.AddrPortFrom(sessionAddr(w.target.nid()), w.target.port()).String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a UDP socket: %w", err)
	}
	w.servers = append(w.servers, c.Close)
	f := startDatagrams(ctx, func(b []byte) error { _, err := c.Write(b); return err })
	go func() {
		b := make([]byte, 2048)
		for {
			n, err := c.Read(b)
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err == nil: // an error of a port is for one datagram
				f.heard(b[:n])
			}
		}
	}()
	return f, nil
}

var pingLine = regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`)

// ping sends echo requests from Roam's host and returns how many were not
// answered, of how many.
func (w *world) ping(ctx context.Context, count int) (lost int, err error) {
	out, err := w.mn.Command(ctx, "ping", "-6", "-n", "-c", strconv.Itoa(count), "-i", "0.2", "-W", "1",
		sessionAddr(w.target.nid()).String()).CombinedOutput()
	m := pingLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("ping: %w: %s", err, bytes.TrimSpace(out))
	}
	sent, _ := strconv.Atoi(string(m[1]))
	got, _ := strconv.Atoi(string(m[2]))
	return sent - got, nil
}

// serve makes the servers on Roam's host.
func (w *world) serve() error {
	var echoTCP, fetch net.Listener
	var echoUDP net.PacketConn
	err := w.mn.Do(func() (err error) {
		if echoTCP, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", echoServer)); err != nil {
			return err
		}
		w.servers = append(w.servers, echoTCP.Close)
		if fetch, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", fetchServer)); err != nil {
			return err
		}
		w.servers = append(w.servers, fetch.Close)
		echoUDP, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", echoServer))
		return err
	})
	if err != nil {
		return fmt.Errorf("make servers on Roam's host: %w", err)
	}
	w.servers = append(w.servers, echoUDP.Close)
	go accept(echoTCP, func(c net.Conn) { _, _ = io.Copy(c, c) })
	go accept(fetch, func(c net.Conn) { _, _ = c.Write(pattern(fetchSize)) })
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := echoUDP.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echoUDP.WriteTo(b[:n], from)
		}
	}()
	return nil
}

func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}
