package udpflow

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// drops is a list of a socket's drops: pairs of arrivals and counts, the last with dropsEnd.
func drops(pairs ...uint64) (b []byte) {
	for _, v := range pairs {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// A drop of a socket owns one datagram that was sent next to it, and no other.
func TestSocketOwns(t *testing.T) {
	lose := func(seqs ...int) map[int]bool {
		m := map[int]bool{}
		for _, s := range seqs {
			m[s] = true
		}
		return m
	}
	for name, c := range map[string]struct {
		lost map[int]bool
		list []byte
		want []uint64
	}{
		"no list":                       {lose(50), nil, nil},
		"none dropped":                  {lose(50), drops(dropsEnd, 0), nil},
		"its own":                       {lose(50), drops(50, 1, dropsEnd, 1), []uint64{50}},
		"two at once":                   {lose(50, 51), drops(50, 2, dropsEnd, 2), []uint64{50, 51}},
		"one of two":                    {lose(50, 51), drops(50, 1, dropsEnd, 1), []uint64{50}},
		"the nearest":                   {lose(48, 60), drops(59, 1, dropsEnd, 1), []uint64{60}},
		"another was lost long ago":     {lose(50), drops(380, 1, dropsEnd, 1), nil},
		"another was lost long after":   {lose(380), drops(20, 1, dropsEnd, 1), nil},
		"nothing was lost":              {nil, drops(50, 3, dropsEnd, 3), nil},
		"one after another":             {lose(50, 300), drops(50, 1, 299, 2, dropsEnd, 2), []uint64{50, 300}},
		"after the last arrival":        {lose(398, 399), drops(dropsEnd, 2), []uint64{398, 399}},
		"before the first":              {lose(0), drops(0, 1, dropsEnd, 1), []uint64{0}},
		"some were no full buffer's":    {lose(50, 51), drops(50, 2, dropsEnd, 1), []uint64{50}},
		"none was a full buffer's":      {lose(50, 51), drops(50, 2, dropsEnd, 0), nil},
		"the list has no end":           {lose(50), drops(50, 1), nil},
		"the list is torn after an end": {lose(50), append(drops(50, 1, dropsEnd, 1), 7, 7), []uint64{50}},
		"each drop its own":             {lose(50, 60), drops(50, 1, 51, 2, dropsEnd, 2), []uint64{50, 60}},
		"one datagram for two drops":    {lose(50), drops(50, 1, 51, 2, dropsEnd, 2), []uint64{50}},
	} {
		f := synthetic(400, c.lost, nil)
		f.own(c.list)
		var got []uint64
		for seq := range uint64(400) {
			if f.SocketDropped(seq) {
				got = append(got, seq)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the socket owns %v, want %v", name, got, c.want)
		}
	}
}

// The arrivals around a drop may be in another order than they were sent.
func TestSocketOwnsBetweenMisordered(t *testing.T) {
	var sent []Sent
	for i := range int64(400) {
		sent = append(sent, Sent{At: i * ms})
	}
	for _, order := range [][2]uint64{{50, 300}, {300, 50}} {
		var got []Got
		for seq := range uint64(400) {
			if seq != 200 && seq != order[0] && seq != order[1] {
				got = append(got, Got{seq, sent[seq].At, sent[seq].At})
			}
		}
		n := uint64(len(got))
		for _, seq := range order {
			got = append(got, Got{seq, sent[seq].At, 500 * ms})
		}
		f := New(sent, got)
		f.own(drops(n+1, 1, dropsEnd, 1))
		if !f.SocketDropped(200) {
			t.Errorf("between %v the socket does not own what it dropped", order)
		}
	}
}

// The count of drops is found among other control messages, and a log without a list of
// drops can be read.
func TestReadsDrops(t *testing.T) {
	message := func(kind int32, data ...byte) []byte {
		b := binary.NativeEndian.AppendUint64(nil, uint64(16+len(data)))
		b = binary.NativeEndian.AppendUint32(b, unix.SOL_SOCKET)
		b = binary.NativeEndian.AppendUint32(b, uint32(kind))
		b = append(b, data...)
		return append(b, make([]byte, (8-len(b)%8)%8)...)
	}
	other := message(unix.SCM_TIMESTAMPNS, make([]byte, 16)...)
	other[20] = 9
	count := message(unix.SO_RXQ_OVFL, binary.NativeEndian.AppendUint32(nil, 77)...)
	for want, oob := range map[uint32][]byte{0: other, 77: append(slices.Clone(other), count...)} {
		if n := dropped(oob); n != want {
			t.Errorf("%d dropped, want %d", n, want)
		}
	}
	base := filepath.Join(t.TempDir(), "log")
	for _, end := range []string{".tx", ".rx"} {
		if err := os.WriteFile(base+end, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(base, base); err != nil {
		t.Errorf("without a list of drops: %v", err)
	}
	if err := os.Mkdir(base+".drops", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(base, base); err == nil {
		t.Error("an unreadable list of drops was read")
	}
}

// A bin has what was sent in it, whether it arrived or not.
func TestOffered(t *testing.T) {
	f := synthetic(100, map[int]bool{25: true}, nil)
	x, y := f.Offered(at(20), at(50), 10*time.Millisecond)
	if len(x) != 3 || !slices.Equal(y, []float64{1000, 1000, 1000}) {
		t.Errorf("offered %v at %v", y, x)
	}
}

// A datagram that never left was not dropped by the other end's socket.
func TestSocketOwnsNoneRefused(t *testing.T) {
	f := New([]Sent{{At: 0}, {At: ms, Refused: true}, {At: 2 * ms}}, []Got{{0, 0, ms}, {2, 2 * ms, 3 * ms}})
	f.own(drops(1, 1, dropsEnd, 1))
	if f.SocketDropped(1) {
		t.Error("the socket owns a datagram that the sender's kernel refused")
	}
}

// The socket also counts datagrams with a wrong checksum, and the namespace those of other
// sockets: a full buffer is in both.
func TestBufferDrops(t *testing.T) {
	for _, c := range []struct{ socket, namespace, want uint64 }{{0, 0, 0}, {3, 3, 3}, {3, 0, 0}, {3, 1, 1}, {1, 9, 1}} {
		if n := bufferDrops(c.socket, c.namespace); n != c.want {
			t.Errorf("socket %d, namespace %d: %d, want %d", c.socket, c.namespace, n, c.want)
		}
	}
}

// The kernel drops what a small buffer cannot hold, and the log owns each of these.
func TestFullSocketOverLoopback(t *testing.T) {
	testutil.Need(t, "ipv6")
	conn, err := listen("[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<14)
	}); err != nil || set != nil {
		t.Fatal(err, set)
	}
	to, err := dial(conn.LocalAddr().(*net.UDPAddr).String())
	if err != nil {
		t.Fatal(err)
	}
	sender := &end{conn: to, size: 64}
	base := filepath.Join(t.TempDir(), "full")
	tf, tx, err := create(base + ".tx")
	if err != nil {
		t.Fatal(err)
	}
	sender.tx = tx
	buf := binary.BigEndian.AppendUint32(nil, magic)
	buf = append(buf, make([]byte, 60)...)
	receiver := &end{conn: conn, full: RcvbufErrors()}
	for n := range uint64(300) { // nobody reads yet
		sender.one(buf, n)
	}
	in, done := start(t, receiver, base, false)
	burst, held := time.Now(), receiver.got.Load()
	await(t, "the time after which a drop owns no datagram of the burst", func() bool {
		return time.Since(burst).Nanoseconds() > 2*spread
	})
	await(t, "what the buffer held, and more", func() bool {
		sender.one(buf, sender.sent.Load()) // the next that arrives tells how many were dropped
		return receiver.got.Load() > held+20 && sender.sent.Load() > 320
	})
	await(t, "the last", func() bool { return receiver.got.Load()+receiver.drops() == sender.sent.Load() })
	_ = in.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := tx.Flush(); err != nil {
		t.Fatal(err)
	}
	_, _ = tf.Close(), to.Close()
	f, err := Load(base, base)
	if err != nil {
		t.Fatal(err)
	}
	owned := 0
	missing := f.Missing(time.Unix(0, 0), time.Now())
	for _, seq := range missing {
		if f.SocketDropped(seq) {
			owned++
		}
	}
	if len(missing) < 100 || owned != len(missing) {
		t.Errorf("%d of %d datagrams were lost, the socket owns %d", len(missing), len(f.Sent), owned)
	}
}
