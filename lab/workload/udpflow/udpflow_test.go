package udpflow

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

const ms = int64(time.Millisecond)

// synthetic builds a flow of n datagrams, one per millisecond from time 0,
// that take 10 ms; lose and late change single ones.
func synthetic(n int, lose map[int]bool, late map[int]int64) *Flow {
	var tx, rx []byte
	var arrivals []Got
	for i := range n {
		at := int64(i) * ms
		tx = binary.BigEndian.AppendUint64(tx, uint64(i))
		tx = binary.BigEndian.AppendUint64(tx, uint64(at))
		tx = append(tx, 0)
		if !lose[i] {
			arrivals = append(arrivals, Got{uint64(i), at, at + 10*ms + late[i]})
		}
	}
	for len(arrivals) > 0 {
		k := 0
		for i, g := range arrivals {
			if g.At < arrivals[k].At {
				k = i
			}
		}
		g := arrivals[k]
		arrivals = append(arrivals[:k], arrivals[k+1:]...)
		rx = binary.BigEndian.AppendUint64(rx, g.Seq)
		rx = binary.BigEndian.AppendUint64(rx, uint64(g.Sent))
		rx = binary.BigEndian.AppendUint64(rx, uint64(g.At))
	}
	return decode(append(tx, 1, 2, 3), append(rx, 9)) // torn records at both ends
}

func at(msec int64) time.Time { return time.Unix(0, msec*ms) }

func TestCountAndGap(t *testing.T) {
	f := synthetic(100, map[int]bool{50: true, 51: true, 52: true}, map[int]int64{80: 3*ms + ms/2})
	c := f.Count(at(0), at(100))
	if c != (Count{Written: 100, Lost: 3, Misorders: 1}) {
		t.Errorf("count %+v", c)
	}
	if c := f.Count(at(51), at(60)); c.Written != 9 || c.Lost != 2 {
		t.Errorf("count of a part %+v", c)
	}
	if m := f.Missing(at(51), at(60)); !slices.Equal(m, []uint64{51, 52}) {
		t.Errorf("missing in that part: %v", m)
	}
	if g := f.LongestGap(at(20), at(100)); g.Length() != 4*time.Millisecond || !g.From.Equal(at(59)) {
		t.Errorf("gap %v from %v", g.Length(), g.From)
	}
	if g := f.LongestGap(at(100), at(300)); g.Length() != 191*time.Millisecond {
		t.Errorf("gap to the end of the window %v", g.Length())
	}
	if first, ok := f.FirstAfter(at(61), at(50)); !ok || !first.Equal(at(63)) {
		t.Errorf("first after the loss: %v %v", first, ok)
	}
	if _, ok := f.FirstAfter(at(500), at(0)); ok {
		t.Error("found an arrival after the last")
	}
	if n := f.Arrived(at(0), at(1000)); n != 97 {
		t.Errorf("arrived %d", n)
	}
	if _, y := f.Rate(at(20), at(40), 10*time.Millisecond); len(y) != 2 || math.Abs(y[0]-1000) > 1e-6 {
		t.Errorf("rate %v", y)
	}
	if _, y := f.Losses(at(50), at(70), 10*time.Millisecond); len(y) != 2 || y[0] != 3 || y[1] != 0 {
		t.Errorf("losses %v", y)
	}
	if gaps := f.Gaps(at(50), at(70)); len(gaps) != 16 || gaps[0] != 1 {
		t.Errorf("gaps %v", gaps)
	}
}

func TestNumber(t *testing.T) {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, magic), 77)
	b = append(b, make([]byte, 8)...)
	if n, ok := Number(b); !ok || n != 77 || len(b) != MinSize {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := Number(b[:MinSize-1]); ok {
		t.Error("a short datagram has a number")
	}
	b[0]++
	if _, ok := Number(b); ok {
		t.Error("another program's datagram has a number")
	}
}

// A datagram read three times is two too many; one after the highest is late, whatever came
// between; stamps that run backwards make no negative gap.
func TestCopiesAndOrder(t *testing.T) {
	var sent []Sent
	for i := range 6 {
		sent = append(sent, Sent{At: int64(i) * ms})
	}
	got := func(at int64, seq uint64) Got { return Got{Seq: seq, Sent: int64(seq) * ms, At: at * ms} }
	f := New(sent, []Got{got(10, 0), got(11, 5), got(12, 1), got(13, 2), got(14, 3), got(14, 3), got(15, 3), got(16, 4)})
	if c := f.Count(at(0), at(6)); c != (Count{Written: 6, Doubled: 2, Misorders: 6}) {
		t.Errorf("%+v", c)
	}
	if n := f.Arrived(at(12), at(14)); n != 2 {
		t.Errorf("%d arrived within [12, 14)", n)
	}
	if n := f.Arrived(at(14), at(12)); n != 0 {
		t.Errorf("%d arrived within an empty window", n)
	}
	back := New(sent, []Got{got(20, 0), got(19, 1)})
	if g := back.Gaps(at(19), at(30)); len(g) != 1 || g[0] != 0 {
		t.Errorf("gaps %v", g)
	}
}

// What the kernel refuses, the application has lost.
func TestRefusedIsLost(t *testing.T) {
	var tx []byte
	tx = append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(tx, 0), 5), 1)
	if c := decode(tx, nil).Count(time.Unix(0, 0), at(1)); c != (Count{Refused: 1, Lost: 1}) {
		t.Errorf("count %+v", c)
	}
}

func TestSNMP6(t *testing.T) {
	text := "Udp6InErrors \t3\nUdp6RcvbufErrors                \t42\n"
	if n := snmp6(text, "Udp6RcvbufErrors"); n != 42 {
		t.Errorf("counter %d", n)
	}
	if n := snmp6(text, "Absent"); n != 0 {
		t.Errorf("absent counter %d", n)
	}
}

func TestSocketDrops(t *testing.T) {
	const text = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode " +
		"ref pointer drops\n" +
		" 42: 0:1B59 0:0000 07 00000000:00000000 00:00000000 00000000     0        0 12345 2 0000000000000000 7\n" +
		" 43: 0:1B5A 0:0000 07 00000000:00000000 00:00000000 00000000     0        0 12346 2 0000000000000000 0\n"
	for inode, want := range map[uint64]uint64{12345: 7, 12346: 0, 1: 0} {
		if n := socketDrops(text, inode); n != want {
			t.Errorf("socket %d dropped %d, want %d", inode, n, want)
		}
	}
}

// start runs an end and returns its standard input and how it ended.
func start(t *testing.T, e *end, out string, begins bool) (io.WriteCloser, <-chan error) {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan error, 1)
	e.first, e.size = make(chan struct{}), 64
	go func() { done <- e.run(out, begins, r, io.Discard) }()
	return w, done
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// A sender that did not run makes up for what its burst allows, and leaves out the rest.
func TestBurst(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		most, paused time.Duration
		sends        float64
	}{
		{0, 10 * time.Millisecond, 100}, {0, 50 * time.Millisecond, 200}, {6 * time.Millisecond, 10 * time.Millisecond, 60},
		{6 * time.Millisecond, 5 * time.Millisecond, 50},
	} {
		e := &end{rate: 10_000, most: c.most}
		now := start.Add(time.Second + c.paused)
		due, from := e.due(now, start, 10_000)
		if math.Abs(float64(due)-10_000-c.sends) > 1 {
			t.Errorf("after %v, at most %v: %d are due", c.paused, c.most, due-10_000)
		}
		if later, _ := e.due(now.Add(time.Millisecond), from, due); later < due+9 || later > due+11 {
			t.Errorf("a millisecond later %d more are due", later-due)
		}
	}
}

// At a low rate a datagram is due after its interval, however short the burst is.
func TestLowRates(t *testing.T) {
	for _, rate := range []int{1, 10, 50, 100} {
		e := &end{rate: rate, most: time.Millisecond}
		now, sent := time.Unix(1000, 0), uint64(0)
		for start := now; now.Sub(time.Unix(1000, 0)) < 5*time.Second; now = now.Add(tick) {
			sent, start = e.due(now, start, sent)
		}
		if want := uint64(5 * rate); sent+1 < want || sent > want {
			t.Errorf("%d a second: %d are due in 5 s", rate, sent)
		}
	}
}

func TestBothWaysOverLoopback(t *testing.T) {
	testutil.Need(t, "ipv6")
	dir := t.TempDir()
	a, err := listen("[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	b, err := dial(a.LocalAddr().(*net.UDPAddr).String())
	if err != nil {
		t.Fatal(err)
	}
	wait, begin := &end{conn: a, rate: 2000}, &end{conn: b, rate: 2000}
	waitOut, beginOut := filepath.Join(dir, "wait"), filepath.Join(dir, "begin")
	wIn, wDone := start(t, wait, waitOut, false)
	bIn, bDone := start(t, begin, beginOut, true)
	await(t, "300 datagrams both ways", func() bool { return wait.got.Load() > 300 && begin.got.Load() > 300 })
	for _, in := range []io.Writer{wIn, bIn} {
		_, _ = io.WriteString(in, "stop\n")
	}
	// An end that has not read the line yet goes on sending: the counts must stand
	// still for many times the distance between two datagrams.
	var last uint64
	still := time.Now()
	await(t, "all arrived", func() bool {
		if sent := begin.sent.Load() + wait.sent.Load(); sent != last {
			last, still = sent, time.Now()
		}
		return time.Since(still) > 200*time.Millisecond && wait.got.Load() == begin.sent.Load() &&
			begin.got.Load() == wait.sent.Load()
	})
	for _, in := range []io.Closer{wIn, bIn} {
		_ = in.Close()
	}
	if err := <-wDone; err != nil {
		t.Fatal(err)
	}
	if err := <-bDone; err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]string{{beginOut, waitOut}, {waitOut, beginOut}} {
		f, err := Load(way[0], way[1])
		if err != nil {
			t.Fatal(err)
		}
		c := f.Count(time.Unix(0, 0), time.Now())
		if c.Written < 300 || c.Lost != 0 || c.Doubled != 0 || c.Misorders != 0 {
			t.Errorf("count %+v", c)
		}
	}
}

// What has arrived when an end ends is not lost, however late its reader is.
func TestEndReadsAllThatArrived(t *testing.T) {
	testutil.Need(t, "ipv6")
	conn, err := listen("[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	to, err := dial(conn.LocalAddr().(*net.UDPAddr).String())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	const n = 5000
	buf := append(binary.BigEndian.AppendUint32(nil, magic), make([]byte, 60)...)
	for range n { // nobody reads yet
		if _, err := to.Write(buf); err != nil {
			t.Fatal(err)
		}
	}
	e := &end{conn: conn, first: make(chan struct{}), full: RcvbufErrors()}
	if err := e.run(filepath.Join(t.TempDir(), "late"), false, strings.NewReader(""), io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := e.got.Load(); got != n {
		t.Errorf("%d of %d read", got, n)
	}
}

func TestMainRefuses(t *testing.T) {
	for _, args := range []string{"", "--listen x", "--listen x --to y --out z", "--to y --out z --size 3",
		"--to y --out z --rate -1", "--nonsense"} {
		if err := Main(strings.Fields(args)); err == nil {
			t.Errorf("arguments %q accepted", args)
		}
	}
}
