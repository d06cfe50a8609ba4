package packets

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"roam"
	"roam/wire/ilnp"
)

var origin = time.Unix(1000, 0)

func after(ms int) time.Time { return origin.Add(time.Duration(ms) * time.Millisecond) }

// file writes frames, a millisecond apart, each cut to snap bytes.
func file(t *testing.T, snap int, packets ...[]byte) string {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(uint32(snap), layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		frame := append(make([]byte, 12), 0x86, 0xdd)
		frame = append(frame, p...)
		n := min(snap, len(frame))
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: after(i), CaptureLength: n, Length: len(frame)},
			frame[:n]); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "a.pcap")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// datagram is UDP with or without a Nonce option before it.
func datagram(nonce bool, payload []byte) []byte {
	udp := append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, 1111), 5201), 0,
		byte(8+len(payload)), 0, 0)
	udp = append(udp, payload...)
	next := byte(UDP)
	if nonce {
		udp = append([]byte{UDP, 0, 0x8b, 4, 1, 2, 3, 4}, udp...)
		next = destOpts
	}
	b := []byte{0x6c, 0, 0, 0, 0, byte(len(udp)), next, 64}
	src, dst := netip.MustParseAddr("2001:db8:1::a1").As16(), netip.MustParseAddr("2001:db8:c1::c1").As16()
	return append(append(append(b, src[:]...), dst[:]...), udp...)
}

func TestRead(t *testing.T) {
	path := file(t, 76, datagram(false, make([]byte, 100)), datagram(true, []byte("12345678")), []byte{0x60})
	got, err := Read(path, "net1")
	if err != nil || len(got) != 2 {
		t.Fatalf("%d packets, %v", len(got), err)
	}
	a, b := got[0], got[1]
	if a.Payload != 100 || len(a.Data) != 76-14-48 || a.Nonce || a.SrcPort != 1111 || a.DstPort != 5201 ||
		a.Class != 0xc0 || a.Where != "net1" || !a.At.Equal(after(0)) {
		t.Errorf("%+v", a)
	}
	if !b.Nonce || b.Payload != 8 || b.SourceNID() != 0xa1 || b.SourceL64() != roam.L64(0x20010db8_00010000) ||
		b.DestL64() != roam.L64(0x20010db8_00c10000) {
		t.Errorf("%+v", b)
	}
}

// update builds a real Locator Update with our own codec, as a packet of a
// capture.
func update(t *testing.T, at int, ack bool, from, to roam.ILV, lifetime uint32, locators ...roam.L64) Packet {
	t.Helper()
	lu := ilnp.LocatorUpdate{Operation: ilnp.Advertisement}
	for i, l := range locators {
		lu.Locators = append(lu.Locators, ilnp.LocatorEntry{L64: l, Preference: uint32(10 * (i + 1)), Lifetime: lifetime})
	}
	if ack {
		lu = lu.Ack()
	}
	nonce, err := ilnp.NewNonce([]byte{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ilnp.BuildUpdate(from, to, nonce, lu)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := ParseFrame(append(append(make([]byte, 12), 0x86, 0xdd), b...))
	if !ok || !p.Nonce {
		t.Fatalf("not read: %+v", p)
	}
	p.At = after(at)
	return p
}

func TestExchanges(t *testing.T) {
	mn, cn := roam.ILV{NID: 0xa1, L64: 1}, roam.ILV{NID: 0xc1, L64: 9}
	list := []Packet{
		update(t, 0, false, mn, cn, 9, 1), update(t, 20, true, cn, mn, 9, 1),
		update(t, 1000, false, mn, cn, 9, 2, 1), update(t, 1300, false, mn, cn, 9, 2, 1),
		update(t, 1320, true, cn, mn, 9, 2, 1),
		update(t, 3000, false, mn, cn, 9, 2, 1), update(t, 3020, true, cn, mn, 9, 2, 1),
		update(t, 8000, false, mn, cn, 9, 2, 1), update(t, 8020, true, cn, mn, 9, 2, 1),
	}
	e := Exchanges(list, 0xa1, 0xc1)
	if len(e) != 4 {
		t.Fatalf("%d exchanges", len(e))
	}
	if e[1].Messages != 2 || len(e[1].Acks) != 1 || e[1].Refresh || !e[1].Lists(2) || e[1].Lists(3) {
		t.Errorf("sent twice: %+v", e[1])
	}
	if !e[2].Refresh || !e[2].Early || !e[3].Refresh || e[3].Early {
		t.Errorf("refreshes: %v %v, %v %v", e[2].Refresh, e[2].Early, e[3].Refresh, e[3].Early)
	}
	if len(Exchanges(list, 0xc1, 0xa1)) != 0 {
		t.Error("the correspondent sent none")
	}
}

// An update that overtook another is told once more when it is acknowledged: that is no early
// refresh, a second one is.
func TestOvertakingUpdateIsRepeated(t *testing.T) {
	mn, cn := roam.ILV{NID: 0xa1, L64: 1}, roam.ILV{NID: 0xc1, L64: 9}
	list := []Packet{
		update(t, 0, false, mn, cn, 9, 2, 1), update(t, 100, false, mn, cn, 9, 2),
		update(t, 200, true, cn, mn, 9, 2, 1), update(t, 300, true, cn, mn, 9, 2),
		update(t, 301, false, mn, cn, 9, 2), update(t, 501, true, cn, mn, 9, 2),
		update(t, 2302, false, mn, cn, 9, 2), update(t, 2502, true, cn, mn, 9, 2),
	}
	e := Exchanges(list, 0xa1, 0xc1)
	if len(e) != 4 || !e[2].Refresh || e[2].Early || !e[3].Refresh || !e[3].Early {
		t.Errorf("%+v", e)
	}
}

// An update that renews no lifetime, or by no more than the rounding to whole seconds, is a repeat
// and not early, nor does it put off the time at which the next refresh is early.
func TestRepeats(t *testing.T) {
	mn, cn := roam.ILV{NID: 0xa1, L64: 1}, roam.ILV{NID: 0xc1, L64: 9}
	for last, early := range map[int]bool{4000: true, 5000: false} {
		list := []Packet{
			update(t, 0, false, mn, cn, 9, 2, 1), update(t, 20, true, cn, mn, 9, 2, 1),
			update(t, 900, false, mn, cn, 9, 2, 1), update(t, 920, true, cn, mn, 9, 2, 1),
			update(t, 1900, false, mn, cn, 9, 2, 1), update(t, 1920, true, cn, mn, 9, 2, 1),
			update(t, 2800, false, mn, cn, 8, 2, 1), update(t, 2820, true, cn, mn, 8, 2, 1),
			update(t, last, false, mn, cn, 9, 2, 1), update(t, last+20, true, cn, mn, 9, 2, 1),
		}
		e := Exchanges(list, 0xa1, 0xc1)
		if len(e) != 5 {
			t.Fatalf("%+v", e)
		}
		for _, x := range e[1:4] {
			if !x.Refresh || !x.Repeat || x.Early {
				t.Errorf("%+v", x)
			}
		}
		if e[4].Repeat || e[4].Early != early {
			t.Errorf("renewed after %d ms: repeat %v, early %v, want %v", last, e[4].Repeat, e[4].Early, early)
		}
	}
}

// After half of the announced lifetime a refresh is due, even one that renews nothing yet: the
// network may not have extended the lifetime.
func TestNoRepeatAfterHalfOfTheLifetime(t *testing.T) {
	mn, cn := roam.ILV{NID: 0xa1, L64: 1}, roam.ILV{NID: 0xc1, L64: 9}
	for at, repeat := range map[int]bool{4000: true, 5000: false} {
		left := uint32(9 - at/1000)
		e := Exchanges([]Packet{
			update(t, 0, false, mn, cn, 9, 2, 1), update(t, 20, true, cn, mn, 9, 2, 1),
			update(t, at, false, mn, cn, left, 2, 1), update(t, at+20, true, cn, mn, left, 2, 1),
		}, 0xa1, 0xc1)
		if len(e) != 2 || !e[1].Refresh || e[1].Repeat != repeat || e[1].Early {
			t.Errorf("after %d ms, want repeat %v: %+v", at, repeat, e)
		}
	}
}

// The shortest lifetime of an update is the one by which a refresh is early.
func TestLeast(t *testing.T) {
	u := Update{Locators: []Locator{{Lifetime: 9}, {Lifetime: 3}, {Lifetime: 7}}}
	if got := u.least(); got != 3 {
		t.Errorf("%d s", got)
	}
}

func numbered(at int, n uint32) Packet {
	return Packet{At: after(at), Proto: UDP, Payload: 4, Length: 12, Data: binary.BigEndian.AppendUint32(nil, n)}
}

func TestDatagrams(t *testing.T) {
	var sent []Packet
	for i := range 10 {
		sent = append(sent, numbered(i, uint32(i)))
	}
	got := []Packet{numbered(1, 0), numbered(2, 2), numbered(3, 1), numbered(4, 3), numbered(5, 3), numbered(6, 5)}
	if c := Datagrams(sent, got, 0); c.Sent != 10 || c.Got != 6 || c.Lost != 5 || c.Doubled != 1 || c.Misorders != 1 ||
		c.Bytes != 40 {
		t.Errorf("%+v", c)
	}
	if c := Datagrams(sent[:5], got, 0); c.Lost != 1 {
		t.Errorf("of five, %d are lost", c.Lost)
	}
}

func segment(at int, seq uint32, n int) Packet {
	return Packet{At: after(at), Proto: TCP, SrcPort: 1, DstPort: 2, Seq: seq, Payload: n}
}

func TestSegments(t *testing.T) {
	base := uint32(0xffffff00) // wraps
	// One GSO packet of 1000 arrives as ten; one of them is lost and retransmitted;
	// another is retransmitted although it had come.
	sent := []Packet{segment(0, base, 1000), segment(5, base+300, 100), segment(6, base+400, 100)}
	var got []Packet
	for i := range 10 {
		if i != 3 {
			got = append(got, segment(1+i, base+uint32(100*i), 100))
		}
	}
	got = append(got, segment(20, base+300, 100), segment(21, base+400, 100), segment(22, base+1000, 100))
	c := Segments(sent, got, 500)
	if c.Bytes != 1000 || c.Resent != 200 || c.Lost != 100 || c.Doubled != 100 || c.Misorders != 1 ||
		c.Sent != 3 || c.Got != 12 {
		t.Errorf("%+v", c)
	}
	if c := Segments(sent, got, 5000); c.Bytes != 0 {
		t.Errorf("a small connection counts: %+v", c)
	}
}

// What the receiver has beyond the sender's capture, and what came before its beginning, are
// no loss of another connection.
func TestSegmentsOfTwoConnections(t *testing.T) {
	sent := []Packet{segment(0, 1000, 100), segment(1, 1100, 100)}
	got := []Packet{segment(2, 900, 150), segment(3, 1000, 100), segment(4, 1000, 100), segment(5, 1100, 100)}
	other := segment(6, 5000, 100)
	other.SrcPort = 9
	if c := Segments(append(sent, other), got, 1); c.Lost != 100 || c.Doubled != 150 || c.Bytes != 300 {
		t.Errorf("%+v", c)
	}
}

// What came before the beginning, and what came twice, makes up for no loss.
func TestSegmentsBeforeTheBeginning(t *testing.T) {
	sent := []Packet{segment(0, 1000, 200)}
	if c := Segments(sent, []Packet{segment(2, 900, 150), segment(3, 1000, 100)}, 1); c.Lost != 100 || c.Doubled != 50 {
		t.Errorf("%+v", c)
	}
}

// What the receiver has twice of what the sender's capture does not hold is not doubled.
func TestSegmentsBeyondTheCapture(t *testing.T) {
	sent := []Packet{segment(0, 1000, 200)}
	got := []Packet{segment(1, 900, 100), segment(2, 900, 100), segment(3, 1000, 200), segment(4, 1200, 100),
		segment(5, 1200, 100)}
	if c := Segments(sent, got, 1); c.Lost != 0 || c.Doubled != 0 {
		t.Errorf("%+v", c)
	}
}

// Bytes that the network doubled make up for none that it lost.
func TestDoubledSegmentsHideNoLoss(t *testing.T) {
	sent := []Packet{segment(0, 1000, 300)}
	got := []Packet{segment(1, 1000, 100), segment(2, 1000, 100), segment(3, 1200, 100)}
	if c := Segments(sent, got, 1); c.Lost != 100 || c.Doubled != 100 {
		t.Errorf("%+v", c)
	}
	for _, c := range []struct {
		sent, got []Span
		want      int64
	}{
		{nil, nil, 0},
		{[]Span{{0, 10}}, nil, 10},
		{[]Span{{0, 10}}, []Span{{0, 4}, {4, 10}}, 0},
		{[]Span{{0, 10}}, []Span{{0, 4}, {5, 10}}, 1},
		{[]Span{{0, 10}}, []Span{{0, 9}, {0, 9}}, 1},
		{[]Span{{0, 10}, {2, 4}}, []Span{{0, 10}}, 2},
		{[]Span{{0, 10}, {2, 4}}, []Span{{2, 4}, {0, 10}}, 0},
		{[]Span{{0, 10}}, []Span{{20, 40}}, 10},
		{[]Span{{10, 0}}, []Span{{5, 5}}, 0},
		{[]Span{{0, 10}, {20, 30}, {40, 50}}, []Span{{0, 50}, {20, 30}}, 0},
	} {
		if n := Missing(c.sent, c.got); n != c.want {
			t.Errorf("%v sent, %v arrived: %d missing, want %d", c.sent, c.got, n, c.want)
		}
	}
}

// Spans that a new one joins become one.
func TestCover(t *testing.T) {
	var seen []span
	for _, c := range []struct {
		s     span
		fresh int
		want  []span
	}{
		{span{100, 200}, 100, []span{{100, 200}}},
		{span{300, 400}, 100, []span{{100, 200}, {300, 400}}},
		{span{150, 160}, 0, []span{{100, 200}, {300, 400}}},
		{span{180, 320}, 100, []span{{100, 400}}},
		{span{350, 500}, 100, []span{{100, 500}}},
		{span{50, 120}, 50, []span{{50, 500}}},
		{span{600, 700}, 100, []span{{50, 500}, {600, 700}}},
		{span{0, 550}, 100, []span{{0, 550}, {600, 700}}},
		{span{560, 720}, 60, []span{{0, 550}, {560, 720}}},
	} {
		fresh := 0
		if seen, fresh = cover(seen, c.s); fresh != c.fresh || !slices.Equal(seen, c.want) {
			t.Errorf("%v: %d new, %v; want %d, %v", c.s, fresh, seen, c.fresh, c.want)
		}
	}
}

func TestGaps(t *testing.T) {
	got := []Packet{numbered(0, 0), numbered(10, 1), numbered(300, 2), numbered(310, 3)}
	for _, c := range []struct {
		got      []Packet
		from, to int
		want     []int // lengths
	}{
		{got, 0, 400, []int{290}}, {got, 0, 411, []int{290, 101}}, {got, -101, 400, []int{101, 290}}, {got, 305, 405, nil},
		{nil, 0, 400, []int{400}},
	} {
		var lengths []int
		for _, g := range Gaps(c.got, after(c.from), after(c.to), 100*time.Millisecond) {
			lengths = append(lengths, int(g.Length()/time.Millisecond))
		}
		if !slices.Equal(lengths, c.want) {
			t.Errorf("gaps of %d to %d: %d, want %d", c.from, c.to, lengths, c.want)
		}
	}
	if l := Longest(got, after(300), after(900)); l != 590*time.Millisecond {
		t.Errorf("longest %v", l)
	}
	if l := Longest(got, after(0), after(320)); l != 290*time.Millisecond {
		t.Errorf("longest between %v", l)
	}
	if l := Longest(got[:3], after(0), after(301)); l != 290*time.Millisecond {
		t.Errorf("longest before the last %v", l)
	}
}

func TestBuckets(t *testing.T) {
	got := []Packet{numbered(0, 0), numbered(10, 1), numbered(600, 2), numbered(2000, 3)}
	b := Buckets(got, after(0), 500*time.Millisecond, 2, func(Packet) string { return "a" })["a"]
	if len(b) != 2 || b[0] != 2*b[1] || b[1] != 12*8e-6/0.5 {
		t.Errorf("%v", b)
	}
}
