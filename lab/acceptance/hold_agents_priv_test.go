package acceptance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// burstSize is how many datagrams follow each other without a pause in a burst.
const burstSize = 10

// burstMain is a first contact: it sends numbered data to an address at once, by one of
// several ways, and prints the outcome. The receivers judge its datagrams.
func burstMain(args []string) error {
	if len(args) != 3 {
		return errors.New("want a way, an address with port, and a word")
	}
	way, to, word := args[0], args[1], args[2]
	if way == "tcp" {
		return tcpBurst(to, word)
	}
	conn, err := net.Dial("udp6", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if way == "segmented" {
		err = segmentedBurst(conn.(*net.UDPConn), word)
	}
	for i := 0; way == "udp" && i < burstSize && err == nil; i++ {
		_, err = conn.Write(numbered(word, i))
	}
	fmt.Printf("sent %v\n", err)
	return err
}

// numbered is a datagram of 100 bytes.
func numbered(word string, i int) []byte {
	s := fmt.Sprintf("%s-%02d ", word, i)
	return []byte(s + strings.Repeat("x", 100-len(s)))
}

// segmentedBurst sends a burst as one packet, which the last link segments.
func segmentedBurst(c *net.UDPConn, word string) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var all []byte
	for i := range burstSize {
		all = append(all, numbered(word, i)...)
	}
	size := len(all) / burstSize
	e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, size) })
	if err = errors.Join(err, e); err != nil {
		return err
	}
	_, err = c.Write(all)
	return err
}

// tcpBurst connects, writes lines without waiting, more than a segment of them, and
// compares what an echo server says. It prints how many segments were retransmitted.
func tcpBurst(to, word string) error {
	c, err := net.DialTimeout("tcp6", to, 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	const lines = 400
	go func() {
		for i := range lines {
			_, _ = fmt.Fprintf(c, "%s-%04d\n", word, i) // the echo is what counts
		}
	}()
	r := bufio.NewReader(c)
	for i := range lines {
		line, err := r.ReadString('\n')
		if want := fmt.Sprintf("%s-%04d\n", word, i); err != nil || line != want {
			return fmt.Errorf("line %d is %q: %w", i, line, errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	e := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, e); err != nil {
		return err
	}
	fmt.Printf("echoed, %d retransmitted\n", info.Total_retrans)
	return nil
}
