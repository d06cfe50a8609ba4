package fetch

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestFetch: all sizes come in turn, each whole, with the time that it took; what comes short is an error.
func TestFetch(t *testing.T) {
	l, err := listener("reno").Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	c := client{to: l.Addr().String(), sizes: []int{1, 300_000}, times: 2, warm: time.Millisecond}
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
	if _, err := (client{to: l.Addr().String()}).fetch(11); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("10 of 11 bytes: %v", err)
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
