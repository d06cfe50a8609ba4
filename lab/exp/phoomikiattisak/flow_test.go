package phoomikiattisak

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
)

// start is the time of the first packet of every test.
var start = time.Unix(1_700_000_000, 0)

const client, base = 40000, 0xffff_fc00 // the sequence numbers wrap

// data is a segment of the flow at a millisecond.
func data(ms int, link string, from, size int) packets.Packet {
	return packets.Packet{
		At: start.Add(time.Duration(ms) * time.Millisecond), Where: link, Proto: packets.TCP,
		SrcPort: port, DstPort: client, Seq: base + 1 + uint32(from), Flags: flagAck, Payload: size,
	}
}

// ack is an acknowledgement of it.
func ack(ms, upTo int) packets.Packet {
	return packets.Packet{At: start.Add(time.Duration(ms) * time.Millisecond), Proto: packets.TCP,
		SrcPort: client, DstPort: port, Ack: base + 1 + uint32(upTo), Flags: flagAck}
}

// syn is a SYN with the option of an MSS, or the answer to it.
func syn(answer bool) packets.Packet {
	raw := make([]byte, 40+24)
	p := packets.Packet{At: start, Proto: packets.TCP, SrcPort: client, DstPort: port, Flags: flagSyn, Raw: raw}
	binary.BigEndian.PutUint16(raw[42:], port)
	copy(raw[60:], []byte{2, 4, 0x05, 0x98}) // 1432
	if answer {
		p.SrcPort, p.DstPort, p.Seq = port, client, base
	}
	return p
}

// A handoff in small: the second of four segments is overtaken, retransmitted in
// vain, and the third is lost, retransmitted, and fills the hole.
func example(t *testing.T) *flow {
	t.Helper()
	peer := []packets.Packet{syn(true), data(10, "eth0", 0, 1000), data(11, "eth0", 1000, 3000), // one GSO packet of three
		ack(20, 1000), ack(21, 1000), data(22, "eth0", 1000, 1000), data(40, "eth0", 2000, 1000), ack(60, 4000)}
	mobile := []packets.Packet{syn(false), data(15, "net1", 0, 1000), data(18, "net2", 3000, 1000),
		data(20, "net1", 1000, 1000),
		data(30, "net2", 1000, 1000), data(50, "net2", 2000, 1000)}
	f, err := assemble(peer, mobile)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFlowCounts(t *testing.T) {
	f := example(t)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct{ got, want int }{
		"lost":                {f.lost(at(100)), 1},
		"retransmitted":       {f.retransmissions(start), 2},
		"retransmitted later": {f.retransmissions(at(30)), 1},
		"payload":             {f.mss, 1000},
		"offered MSS":         {f.offered, 1432},
		"SYNs":                {f.syns, 1},
		"duplicate acks":      {f.dupAcks, 1},
		"in flight":           {f.window, 4000},
		"late":                {f.count(start, at(100), func(a arrival) bool { return a.late && a.again == 0 }), 2},
		"twice":               {f.count(start, at(100), func(a arrival) bool { return a.again > 0 }), 1},
		"bytes by 25 ms":      {int(f.nbytes(start, at(25))), 2000},
		"bytes in the end":    {int(f.nbytes(start, at(100))), 4000},
		"longest gap":         {int(f.longestGap(at(15), at(60)).Milliseconds()), 30},
		"gap up to the start": {int(f.longestGap(start, at(40)).Milliseconds()), 20},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
	y := f.profile(start, 60*time.Millisecond, 20*time.Millisecond, "net2")
	if len(y) != 3 || y[0] != 0.4 || y[1] != 0.4 || y[2] != 0.4 {
		t.Errorf("profile of net2: %v, want 1000 bytes in each bin of 20 ms", y)
	}
}

// A segment that the network doubled makes up for none that it lost.
func TestDoubledSegmentHidesNoLoss(t *testing.T) {
	f, err := assemble([]packets.Packet{syn(true), data(10, "eth0", 0, 3000), data(30, "eth0", 1000, 1000)},
		[]packets.Packet{syn(false), data(15, "net1", 0, 1000), data(16, "net2", 0, 1000), data(17, "net1", 2000, 1000),
			data(35, "net2", 1000, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if n := f.lost(start.Add(100 * time.Millisecond)); n != 1 {
		t.Errorf("%d lost", n)
	}
}

// What a capture lacks was not retransmitted.
func TestCaptureWithHoles(t *testing.T) {
	f, err := assemble([]packets.Packet{syn(true), data(10, "eth0", 0, 1000), data(30, "eth0", 4000, 1000)},
		[]packets.Packet{syn(false), data(15, "net1", 0, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if n := f.sent[1].again; n != 0 {
		t.Errorf("%d bytes retransmitted", n)
	}
}

// Segments in flight at the end of the captures do not count as lost.
func TestFlowEndsInTheMiddle(t *testing.T) {
	f, err := assemble([]packets.Packet{syn(true), data(1, "eth0", 0, 5000)},
		[]packets.Packet{syn(false), data(2, "net1", 0, 1000), data(3, "net1", 1000, 500)})
	if err != nil {
		t.Fatal(err)
	}
	if n := f.lost(start.Add(time.Second)); n != 0 {
		t.Errorf("%d lost", n)
	}
	if f.mss != 1000 {
		t.Errorf("a shorter segment at the end: MSS %d", f.mss)
	}
	if _, err := assemble(nil, nil); err == nil {
		t.Error("empty captures hold a flow")
	}
	if _, err := assemble(nil, []packets.Packet{data(2, "net1", 0, 1000)}); err == nil {
		t.Error("a flow without its beginning was taken")
	}
}

func TestParseState(t *testing.T) {
	const text = `ESTAB 0 0 [fd69::1]:5201 [fd69::2]:4000 cubic wscale:7,7 rto:204 rtt:0.5/0.2 bytes_sent:300
ESTAB 0 0 [fd69::1]:5201 [fd69::2]:4002 veno_77 wscale:7,7 rto:304.5 rtt:90/1 bytes_sent:3000000 bytes_acked:5
`
	if rto, algo := parseState(text); rto != 304.5 || algo != "veno_77" {
		t.Errorf("rto %v, algorithm %q", rto, algo)
	}
	if rto, algo := parseState(""); rto != 0 || algo != "" {
		t.Errorf("of nothing: %v, %q", rto, algo)
	}
}

func TestLists(t *testing.T) {
	if l, err := list("soft, cut", []string{soft, hard, cut}); err != nil || len(l) != 2 || l[1] != cut {
		t.Errorf("%v, %v", l, err)
	}
	for _, bad := range []string{"", " ,", "soft,softly"} {
		if _, err := list(bad, []string{soft, hard, cut}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// The sum of a packet over NIDs does not depend on its locators, the one with
// locators does.
func TestSum(t *testing.T) {
	body := []byte{0x1f, 0x90, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0, 9, 0, 0, 0, 0}
	p := packets.Packet{
		Proto: packets.TCP,
		Src:   netip.MustParseAddr("2001:db8:1::10:0:0:a1"),
		Dst:   netip.MustParseAddr("2001:db8:c1::10:0:0:c1"),
	}
	binary.BigEndian.PutUint16(body[16:], ^sum(p, body, false))
	if s := sum(p, body, false); s != 0xffff {
		t.Errorf("sum %#x", s)
	}
	p.Src = netip.MustParseAddr("2001:db8:2::10:0:0:a1")
	if sum(p, body, false) != 0xffff || sum(p, body, true) == 0xffff {
		t.Error("locators count, or do not count")
	}
}

// A combination that is left out is not run, and the others are.
func TestWithout(t *testing.T) {
	m := matrix{env: &exp.Env{Params: exptest.Params(t, Experiment.Params, "quick")},
		scenarios: []string{"lan-wan", "wan-lan"},
		kinds:     []string{soft, hard, cut}, variants: []string{"cubic"}, without: []string{"wan-lan-hard", "wan-lan-cut"}}
	if near, far := m.kindsOf("lan-wan"), m.kindsOf("wan-lan"); len(near) != 3 || len(far) != 1 || far[0] != soft {
		t.Errorf("%v and %v", near, far)
	}
	if n := m.cells(); n != 4+2 {
		t.Errorf("%d cells", n)
	}
}
