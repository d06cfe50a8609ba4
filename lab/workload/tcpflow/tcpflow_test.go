package tcpflow

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

func at(ms int64) time.Time { return time.Unix(0, ms*int64(time.Millisecond)) }

func TestStream(t *testing.T) {
	var b []byte
	for _, ms := range []int64{0, 1, 2, 30, 31, 32} {
		b = binary.BigEndian.AppendUint64(b, uint64(at(ms).UnixNano()))
		b = binary.BigEndian.AppendUint64(b, 100)
	}
	s := decode(append(b, 1, 2))
	if n := s.Bytes(at(1), at(31)); n != 300 {
		t.Errorf("bytes %d", n)
	}
	if from, d := s.LongestGap(at(0), at(40)); d != 28*time.Millisecond || !from.Equal(at(2)) {
		t.Errorf("gap %v from %v", d, from)
	}
	if _, d := s.LongestGap(at(31), at(100)); d != 68*time.Millisecond {
		t.Errorf("gap to the end %v", d)
	}
	if g := s.Gaps(at(1), at(40)); !slices.Equal(g, []float64{1, 28, 1, 1}) {
		t.Errorf("gaps %v", g)
	}
	if first, ok := s.FirstAfter(at(3)); !ok || !first.Equal(at(30)) {
		t.Errorf("first %v %v", first, ok)
	}
	if _, ok := s.FirstAfter(at(33)); ok {
		t.Error("found a read after the last")
	}
}

func TestCheckerSeesDamage(t *testing.T) {
	message := func(n uint64) []byte { return append(binary.BigEndian.AppendUint64(nil, n), make([]byte, 12)...) }
	good := slices.Concat(message(0), message(1), message(2))
	for cut := 1; cut < len(good); cut++ {
		c := checker{size: 20}
		c.feed(good[:cut])
		c.feed(good[cut:])
		if c.broken != 0 || c.next != 3 {
			t.Fatalf("cut at %d: %+v", cut, c)
		}
	}
	c := checker{size: 20}
	c.feed(slices.Concat(message(0), message(2), message(2)))
	if c.broken != 1 {
		t.Errorf("broken %d, want 1", c.broken)
	}
}

// Each message is answered by a byte, and only where answers were asked for.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		answers        bool
		messages, want int
	}{{true, 3, 3}, {true, 0, 0}, {false, 3, 0}} {
		here, there := net.Pipe()
		got := make(chan int)
		if c.want > 0 {
			go func() {
				n, _ := there.Read(make([]byte, 10))
				got <- n
			}()
		}
		_ = here.SetDeadline(time.Now().Add(50 * time.Millisecond)) // a write that nobody reads ends by that
		if err := (&end{answers: c.answers}).answer(here, c.messages); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if c.want > 0 {
			if n := <-got; n != c.want {
				t.Errorf("%+v: %d bytes", c, n)
			}
		}
		_, _ = here.Close(), there.Close()
	}
}

func TestOverLoopback(t *testing.T) {
	testutil.Need(t, "ipv6")
	for _, answers := range []bool{false, true} {
		overLoopback(t, answers)
	}
}

func overLoopback(t *testing.T, answers bool) {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rx := &end{answers: answers, size: 1000, listener: l}
	tx := &end{sends: true, answers: answers, size: 1000, every: time.Millisecond, to: l.Addr().String()}
	rIn, rHold := io.Pipe()
	tIn, tHold := io.Pipe()
	defer rHold.Close()
	defer tHold.Close()
	var said strings.Builder
	rDone, tDone := make(chan error, 1), make(chan error, 1)
	go func() { rDone <- rx.run(filepath.Join(dir, "rx"), rIn, &said) }()
	go func() { tDone <- tx.run(filepath.Join(dir, "tx"), tIn, io.Discard) }()
	for deadline := time.Now().Add(10 * time.Second); rx.bytes.Load() < 50_000; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("50 messages did not arrive within 10 s")
		}
	}
	_, _ = io.WriteString(tHold, "stop\n")
	if err := <-tDone; err != nil {
		t.Fatal(err)
	}
	if err := <-rDone; err != nil {
		t.Fatal(err)
	}
	if tx.bytes.Load() != rx.bytes.Load() || rx.broken.Load() != 0 || !strings.HasSuffix(said.String(), "end closed\n") {
		t.Errorf("sent %d, read %d, broken %d, said %q", tx.bytes.Load(), rx.bytes.Load(), rx.broken.Load(), said.String())
	}
	s, err := Load(filepath.Join(dir, "rx"))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Bytes(time.Unix(0, 0), time.Now()); uint64(n) != rx.bytes.Load() {
		t.Errorf("log holds %d bytes, read %d", n, rx.bytes.Load())
	}
}

func TestMainRefuses(t *testing.T) {
	for _, args := range []string{"", "--listen x --to y --out z", "--to y --out z --size 3",
		"--to y --out z --every 0s", "--nonsense"} {
		if err := Main(strings.Fields(args)); err == nil {
			t.Errorf("arguments %q accepted", args)
		}
	}
}
