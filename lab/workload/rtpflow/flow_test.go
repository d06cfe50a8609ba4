package rtpflow

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// at is when the packets of the tests are sent: every millisecond from here.
const at = 1_700_000_000_000_000_000

// stream makes the datagrams of a stream with contents of their own.
func stream(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, n)
	for i := range out {
		d := make([]byte, rtpHead+188)
		d[0], d[1] = rtpVersion, 33
		binary.BigEndian.PutUint16(d[2:], uint16((FirstSeq+i)%wrap))
		for j := rtpHead; j < len(d); j += 8 {
			binary.NativeEndian.PutUint64(d[min(j, len(d)-8):], r.Uint64())
		}
		out[i] = d
	}
	return out
}

// recording writes datagrams, each with its arrival in milliseconds after at,
// and loads them.
func recording(t *testing.T, datagrams [][]byte, ms []int) *Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rec")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i, d := range datagrams {
		var head [headSize]byte
		binary.BigEndian.PutUint64(head[:], uint64(at+int64(ms[i])*1e6))
		binary.BigEndian.PutUint32(head[8:], uint32(len(d)))
		_, _ = w.Write(head[:])
		_, _ = w.Write(d)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	r, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func steady(n int) []int {
	ms := make([]int, n)
	for i := range ms {
		ms[i] = i
	}
	return ms
}

// pick returns the datagrams of these indices and their times.
func pick(all [][]byte, indices ...int) (some [][]byte, ms []int) {
	for n, i := range indices {
		some, ms = append(some, all[i]), append(ms, n)
	}
	return some, ms
}

func TestACompleteStreamIsOne(t *testing.T) {
	all := stream(70_000) // beyond the wrap of the number
	sent := recording(t, all, steady(len(all)))
	if err := sent.Complete(); err != nil {
		t.Fatal(err)
	}
	f := Match(sent, sent)
	if c := f.Count(); c.Lost != 0 || c.Disordered != 0 || c.Doubled != 0 || c.Bytes != 188*70_000 || f.Unknown != 0 {
		t.Errorf("%+v, %d unknown", c, f.Unknown)
	}
	order, late := f.Played(time.Second)
	if len(order) != len(all) || late != 0 {
		t.Errorf("played %d, %d late", len(order), late)
	}
	for _, indices := range [][]int{{0, 2}, {1, 2}, {0, 1, 1}, {1, 0}} {
		some, ms := pick(all, indices...)
		if recording(t, some, ms).Complete() == nil {
			t.Errorf("%v passes for a complete stream", indices)
		}
	}
}

func TestLossDisorderAndCopiesAreCounted(t *testing.T) {
	all := stream(10)
	sent := recording(t, all, steady(10))
	some, ms := pick(all, 1, 0, 3, 4, 4, 8, 7, 6)
	f := Match(sent, recording(t, some, ms))
	want := Count{Sent: 10, Received: 7, Lost: 3, Doubled: 1, Disordered: 3, Bytes: 7 * 188}
	if c := f.Count(); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// A silence of more packets than there are numbers must not be taken for a
// shorter one.
func TestALongSilenceIsMeasuredWhole(t *testing.T) {
	all := stream(2*wrap + 200)
	sent := recording(t, all, steady(len(all)))
	some, ms := pick(all, 0, 1, 2, 2*wrap+100, 2*wrap+101)
	f := Match(sent, recording(t, some, ms))
	if len(f.Arrivals) != 5 || f.Arrivals[3].Index != 2*wrap+100 {
		t.Fatalf("arrivals %+v", f.Arrivals)
	}
	if c := f.Count(); c.Lost != len(all)-5 {
		t.Errorf("%d lost of %d", c.Lost, len(all))
	}
}

func TestAChangedPacketIsNotReceived(t *testing.T) {
	all := stream(3)
	sent := recording(t, all, steady(3))
	bad := bytes.Clone(all[1])
	bad[rtpHead+5] ^= 1
	f := Match(sent, recording(t, [][]byte{all[0], bad, all[2], []byte("stray")}, steady(4)))
	if c := f.Count(); c.Lost != 1 || f.Unknown != 2 {
		t.Errorf("%+v, %d unknown", c, f.Unknown)
	}
}

// Where two packets have one number and one content, the nearer one to the highest so far is meant, also after a
// packet that came late.
func TestTwinsAreToldByPlace(t *testing.T) {
	all := stream(wrap + 100)
	all[wrap+20] = all[20]
	sent := recording(t, all, steady(len(all)))
	for _, c := range []struct {
		indices []int
		want    int
	}{{[]int{15, 20}, 20}, {[]int{40_000, 10, 20}, wrap + 20}, {[]int{wrap + 15, 20}, wrap + 20}} {
		some, ms := pick(all, c.indices...)
		f := Match(sent, recording(t, some, ms))
		if got := f.Arrivals[len(f.Arrivals)-1].Index; got != c.want {
			t.Errorf("after %v: packet %d, want %d", c.indices[:len(c.indices)-1], got, c.want)
		}
	}
}

// The header alone is a packet, less is none, and a record that a killed writer has cut short does not count.
func TestSmallAndCutPackets(t *testing.T) {
	head := stream(1)[0]
	r := recording(t, [][]byte{head[:rtpHead+40], head[:rtpHead], head[:rtpHead-1]}, []int{0, 1, 2})
	if len(r.Packets) != 2 || r.Packets[0].Bytes != 40 || r.Packets[1].Bytes != 0 || r.Alien != 1 {
		t.Errorf("%+v, %d others", r.Packets, r.Alien)
	}
	whole, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{headSize + rtpHead + 20, 5, 0} {
		path := filepath.Join(t.TempDir(), "cut")
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if cut, err := Load(path); err != nil || len(cut.Packets)+cut.Alien != 0 {
			t.Errorf("cut after %d bytes: %+v, %v", n, cut, err)
		}
	}
}

// The player waits for a missing packet as long as its buffer is deep, and not
// longer.
func TestPlayerPutsBackIntoOrder(t *testing.T) {
	all := stream(6)
	sent := recording(t, all, steady(6))
	for _, c := range []struct {
		name    string
		indices []int
		ms      []int
		want    []int
		late    int
	}{
		{"swapped", []int{1, 0, 2, 3}, []int{0, 1, 2, 3}, []int{0, 1, 2, 3}, 0},
		{"within depth", []int{0, 2, 3, 1, 4}, []int{0, 1, 5, 10, 11}, []int{0, 1, 2, 3, 4}, 0},
		{"the oldest decides", []int{0, 2, 3, 1, 4}, []int{0, 1, 10, 26, 27}, []int{0, 2, 3, 4}, 1},
		{"too late", []int{0, 2, 3, 1, 4}, []int{0, 1, 5, 30, 31}, []int{0, 2, 3, 4}, 1},
		{"lost", []int{0, 2, 3, 4, 5}, []int{0, 1, 2, 3, 50}, []int{0, 2, 3, 4, 5}, 0},
		{"copies", []int{0, 1, 1, 0, 2}, []int{0, 1, 2, 3, 4}, []int{0, 1, 2}, 0},
		{"lost at the end", []int{0, 1, 5}, []int{0, 1, 2}, []int{0, 1, 5}, 0},
	} {
		some, _ := pick(all, c.indices...)
		f := Match(sent, recording(t, some, c.ms))
		order, late := f.Played(20 * time.Millisecond)
		var got []int
		for _, a := range order {
			got = append(got, a.Index)
		}
		if !slices.Equal(got, c.want) || late != c.late {
			t.Errorf("%s: played %v with %d late, want %v with %d", c.name, got, late, c.want, c.late)
		}
	}
}

func TestPayloadsAreWrittenAsPlayed(t *testing.T) {
	all := stream(4)
	sent := recording(t, all, steady(4))
	some, ms := pick(all, 2, 0, 1, 3)
	f := Match(sent, recording(t, some, ms))
	order, _ := f.Played(time.Second)
	a, b := filepath.Join(t.TempDir(), "sent"), filepath.Join(t.TempDir(), "played")
	if err := sent.WriteTo(a); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteTo(b, order); err != nil {
		t.Fatal(err)
	}
	x, _ := os.ReadFile(a)
	y, _ := os.ReadFile(b)
	if len(x) != 4*188 || !bytes.Equal(x, y) {
		t.Errorf("%d bytes sent, %d played, or they differ", len(x), len(y))
	}
}

func TestGaps(t *testing.T) {
	all := stream(4)
	f := Match(recording(t, all, steady(4)), recording(t, all, []int{0, 1, 250, 251}))
	gaps := f.Gaps(100 * time.Millisecond)
	if len(gaps) != 1 || gaps[0][1]-gaps[0][0] != 249e6 {
		t.Errorf("gaps %v", gaps)
	}
}
