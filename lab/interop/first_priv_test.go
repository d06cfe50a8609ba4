package interop

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TCP repeats its first segment after a second, and plain IPv6 is tried after 950 ms: what
// takes less was neither.
const (
	firstWithin = 900 * time.Millisecond
	copySegment = 150 * time.Millisecond // as in ilnp: who waits for a copy takes more
)

// The first connection to each stack, of which nothing is known but where it is, does not
// wait for TCP's own repetition; the next ones wait for nothing. A key of Roam's host changes
// nothing, unless the stack's record demands one.
func TestFirstConnection(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			w := newWorld(t, "soft", "", p.Stack)
			began := time.Now()
			c := w.dial("tcp6", EchoPort)
			first := time.Since(began)
			w.echo(c, 3000)
			copies := w.counter("tx_probe_copy")
			began = time.Now()
			c = w.dial("tcp6", EchoPort)
			second := time.Since(began)
			w.echo(c, 3000)
			t.Logf("first connection after %v, second one after %v, %d copies", first, second, copies)
			if second > copySegment {
				t.Errorf("the second connection took %v", second)
			}
			if first > firstWithin {
				t.Errorf("the first connection took %v", first)
			}
			if n := w.counter("tx_probe_copy"); n != copies {
				t.Errorf("%d copies for a stack whose rule is known", n-copies)
			}
			if p.Stack.NIDChecksums != (copies > 0) {
				t.Errorf("%d copies", copies)
			}
			w.besideAKey()
		})
	}
}

// Datagrams to each stack, 50 a second, of which nothing is known: after the first second
// all are answered, but for two at most.
func TestFirstDatagrams(t *testing.T) {
	const each, in = 20 * time.Millisecond, 5 * time.Second
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			w := newWorld(t, "soft", "", p.Stack)
			c := w.dial("udp6", EchoPort)
			answered := make(map[uint32]int)
			done := make(chan error)
			go func() { done <- w.answers(c, answered) }()
			tick := time.NewTicker(each)
			defer tick.Stop()
			n := uint32(in / each)
			for i := range n {
				if _, err := c.Write(binary.BigEndian.AppendUint32(nil, i)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				<-tick.C
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			early, late, twice := 0, 0, 0
			for i := range n {
				switch {
				case answered[i] == 0 && time.Duration(i)*each < time.Second:
					early++
				case answered[i] == 0:
					late++
				case answered[i] > 1:
					twice++
				}
			}
			t.Logf("of %d datagrams %d were lost in the first second, %d later; %d copies", n, early, late,
				w.counter("tx_probe_copy"))
			if late > 2 || twice > 0 {
				t.Errorf("%d lost after the first second, %d answered twice", late, twice)
			}
		})
	}
}

// answers counts what comes back until the deadline of reading.
func (w *world) answers(c net.Conn, answered map[uint32]int) error {
	b := make([]byte, 64)
	for {
		n, err := c.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 4 {
			answered[binary.BigEndian.Uint32(b)]++
		}
	}
}
