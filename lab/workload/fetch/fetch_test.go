package fetch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFetch: all sizes come in turn, each whole, with the time that it took; what comes short is an error.
func TestFetch(t *testing.T) {
	l, err := listener("reno").Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	c := client{connect: dial, to: l.Addr().String(), sizes: []int{1, 300_000}, times: 2, warm: time.Millisecond}
	var out strings.Builder
	if err := c.run(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, line := range lines {
		bytes, took, err := Parse(line)
		if err != nil || bytes != c.sizes[i%2] || took <= 0 || took > within {
			t.Errorf("line %d: %q: %d in %v: %v", i, line, bytes, took, err)
		}
	}
	_ = l.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := c.fetch(1); err == nil {
		t.Error("fetched from nobody")
	}
}

// TestShort: a transfer that ends before its time is an error.
func TestShort(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.ReadFull(c, make([]byte, 8))
			_, _ = c.Write(make([]byte, 10))
			_ = c.Close()
		}
	}()
	if _, err := (client{connect: dial, to: l.Addr().String()}).fetch(11); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("10 of 11 bytes: %v", err)
	}
}

// TestTimeIsThatOfAll: connecting and waiting for the answer are part of the time, the pause behind is not.
func TestTimeIsThatOfAll(t *testing.T) {
	const delay, pause = 40 * time.Millisecond, 200 * time.Millisecond
	wait := func() {
		late, cancel := context.WithTimeout(t.Context(), delay)
		defer cancel()
		<-late.Done()
	}
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan uint64, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var ask [8]byte
			_, _ = io.ReadFull(c, ask[:])
			n := binary.BigEndian.Uint64(ask[:])
			asked <- n
			wait()
			_, _ = c.Write(make([]byte, n))
			_ = c.Close()
		}
	}()
	slow := func(to string) (net.Conn, error) {
		wait()
		return dial(to)
	}
	var out strings.Builder
	began := time.Now()
	c := client{
		connect: slow, to: l.Addr().String(), sizes: []int{3}, times: 2, warm: 300 * time.Millisecond, pause: pause,
	}
	if err := c.run(&out); err != nil {
		t.Fatal(err)
	}
	all := time.Since(began) - c.warm
	var sum time.Duration
	for line := range strings.Lines(out.String()) {
		_, took, err := Parse(line)
		if err != nil || took < 2*delay {
			t.Errorf("%q, %v: want %v at least", line, err, 2*delay)
		}
		sum += took
	}
	if all < sum+2*pause {
		t.Errorf("all took %v, the transfers %v: the pauses are too short, or counted", all, sum)
	}
	var got []uint64
	for len(asked) > 0 {
		got = append(got, <-asked)
	}
	if n := len(got); n < 3 || got[0] != warmBytes || got[n-3] != warmBytes || got[n-2] != 3 || got[n-1] != 3 {
		t.Errorf("transfers of %d bytes", got)
	}
}

// TestCongestionControl: a connection that the server accepts has the one that was asked for.
func TestCongestionControl(t *testing.T) {
	l, err := listener("reno").Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	raw, err := in.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got string
	err = raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	if err != nil || strings.TrimRight(got, "\x00") != "reno" {
		t.Errorf("congestion control %q, %v", got, err)
	}
}

// TestRead: each transfer counts for its size, and all must be reported.
func TestRead(t *testing.T) {
	const output = "1 20\n300 41\n1 22\n300 43\n"
	took, err := Read(output, []int{1, 300}, 2)
	if err != nil || !slices.Equal(took[1], []time.Duration{20, 22}) || !slices.Equal(took[300], []time.Duration{41, 43}) {
		t.Errorf("%v, %v", took, err)
	}
	for _, short := range []string{"", "1 20\n300 41\n1 22\n", output + "nonsense\n"} {
		if took, err := Read(short, []int{1, 300}, 2); err == nil {
			t.Errorf("%q is read: %v", short, took)
		}
	}
}

// TestSizes: each size is at least a byte and at most a gibibyte.
func TestSizes(t *testing.T) {
	if list, err := parseSizes("1,5,1073741824"); err != nil || !slices.Equal(list, []int{1, 5, 1 << 30}) {
		t.Errorf("%v, %v", list, err)
	}
	for _, text := range []string{"", "0", "-1", "1073741825", "5,x", "5,"} {
		if list, err := parseSizes(text); err == nil {
			t.Errorf("%q is %v", text, list)
		}
	}
}

func TestBadInput(t *testing.T) {
	for _, line := range []string{"", "1", "x 2", "0 5", "1 -2"} {
		if _, _, err := Parse(line); err == nil {
			t.Errorf("%q is read", line)
		}
	}
	for _, args := range [][]string{nil, {"--listen", "[::1]:0", "--to", "[::1]:1"}, {"--to", "[::1]:1", "--sizes", "0"},
		{"--to", "[::1]:1", "--sizes", "1,"}, {"--listen", "[::1]:0", "--cc", "nonsense"}} {
		if Main(args) == nil {
			t.Errorf("%q are accepted", args)
		}
	}
}
