package scene

import (
	"testing"
	"time"

	"roam/lab/linkem"
	"roam/lab/packets"
)

// frame is an Ethernet frame with a packet of n bytes below IPv6, behind a header of destination options.
func frame(from, to byte, proto uint8, n int) []byte {
	b := make([]byte, 14+40+8+n)
	b[12], b[13] = 0x86, 0xdd
	b[14+5] = byte(8 + n)
	b[14+6] = 60 // destination options
	b[14+23], b[14+39] = from, to
	b[54] = proto
	b[55+2], b[55+3] = 1, 4 // padding
	b[62+12] = 5 << 4       // the length of a header of TCP
	return b
}

// Data are the frames of TCP and UDP, whatever is in front of these; all else is none.
func TestDataOfFrames(t *testing.T) {
	const mn, cn1, cn2 = 1, 0xc1, 0xc2
	c := &dataCount{bytes: Data{}}
	for _, f := range []struct {
		link  string
		way   linkem.Direction
		frame []byte
	}{
		{"net1", linkem.AB, frame(mn, cn1, packets.TCP, 20)},
		{"net1", linkem.AB, frame(mn, cn1, packets.TCP, 38)},
		{"net1", linkem.AB, frame(mn, cn1, packets.UDP, 20)},
		{"net2", linkem.AB, frame(mn, cn2, packets.UDP, 20)},
		{"net1", linkem.BA, frame(cn2, mn, packets.UDP, 30)},
		{"net2", linkem.AB, frame(mn, cn1, packets.ICMPv6, 100)},
		{"net2", linkem.AB, make([]byte, 60)},
	} {
		c.note(f.link, f.way, f.frame)
	}
	want := Data{
		{"net1", linkem.AB, cn1, packets.TCP}: 62 + 20 + 62 + 38,
		{"net1", linkem.AB, cn1, packets.UDP}: 62 + 20,
		{"net2", linkem.AB, cn2, packets.UDP}: 62 + 20,
		{"net1", linkem.BA, cn2, packets.UDP}: 62 + 30,
	}
	got := c.read()
	if len(got) != len(want) {
		t.Errorf("counted %v", got)
	}
	for f, n := range want {
		if got[f] != n {
			t.Errorf("%v: %d bytes, want %d", f, got[f], n)
		}
	}
	c.note("net1", linkem.AB, frame(mn, cn1, packets.TCP, 20))
	if n := got[Flow{"net1", linkem.AB, cn1, packets.TCP}]; n != want[Flow{"net1", linkem.AB, cn1, packets.TCP}] {
		t.Errorf("a reading changed to %d", n)
	}
	if (*dataCount)(nil).read() != nil {
		t.Error("data without a count")
	}
}

// Flows have what was carried since a reading, one way; shares are those of all flows.
func TestSharesOfData(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	tcp := func(link string, way linkem.Direction) Flow { return Flow{link, way, 1, packets.TCP} }
	udp := func(link string, way linkem.Direction) Flow { return Flow{link, way, 2, packets.UDP} }
	a := Data{tcp("net1", linkem.AB): 100, udp("net1", linkem.AB): 100, tcp("net1", linkem.BA): 50}
	b := Data{tcp("net1", linkem.AB): 150, udp("net1", linkem.AB): 110, udp("net2", linkem.AB): 40,
		tcp("net1", linkem.BA): 60, tcp("net2", linkem.BA): 30}
	out := b.ByFlow(a, linkem.AB)
	if len(out) != 2 || out[tcp("", linkem.AB)]["net1"] != 50 || out[udp("", linkem.AB)]["net1"] != 10 ||
		out[udp("", linkem.AB)]["net2"] != 40 {
		t.Errorf("flows %v", out)
	}
	count := func(n ...uint64) map[string]uint64 {
		return map[string]uint64{"net1": n[0], "net2": n[1], "net3": n[2]}
	}
	tr := Trace{Samples: []Sample{{At: at(0)},
		{At: at(1), Data: a, Out: count(900, 900, 900), In: count(900, 900, 900)},
		{At: at(2), Data: b, Out: count(990, 990, 900), In: count(990, 990, 900)}}}
	both := []string{"net1", "net2"}
	o, i := tr.DataShares(both, at(1), at(2))
	if o["net1"] != 60 || o["net2"] != 40 || i["net1"] != 25 || i["net2"] != 75 {
		t.Errorf("shares %v out, %v in", o, i)
	}
	// All else counts on a link that is not to be used.
	tr.Samples[2].Out, tr.Samples[2].In = count(990, 990, 1000), count(990, 990, 960)
	o, i = tr.DataShares(both, at(1), at(2))
	if o["net1"] != 30 || o["net3"] != 50 || i["net1"] != 10 || i["net3"] != 60 {
		t.Errorf("shares %v out, %v in, beside a link that is not to be used", o, i)
	}
	if d := b.Only(packets.UDP).Of(linkem.AB); len(d) != 2 || d["net1"] != 110 || d["net2"] != 40 || len(b) != 5 {
		t.Errorf("data of UDP: %v of %v", d, b)
	}
}
