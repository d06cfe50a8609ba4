package scene

import (
	"encoding/binary"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/result"
	"roam/lab/workload/udpflow"
)

// A frame counts if it is a datagram of the probe, in the direction in which it goes.
func TestNote(t *testing.T) {
	const port = 7001
	frame := func(proto byte, src, dst uint16, magic uint32) []byte {
		payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, magic), 5)
		payload = append(payload, make([]byte, 8)...)
		b := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(8+len(payload)), proto, 64)
		b = append(b, make([]byte, 32)...)
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, src), dst)
		return append(append(b, 0, byte(8+len(payload)), 0, 0), payload...)
	}
	const udp, other, magic = 17, 136, 0x524d5546
	for name, c := range map[string]struct {
		frame   []byte
		out, in bool
	}{
		"from the mobile host":      {frame(udp, 40_000, port, magic), true, false},
		"to the mobile host":        {frame(udp, port, 40_000, magic), false, true},
		"of another port":           {frame(udp, 40_000, port+1, magic), false, false},
		"of another protocol":       {frame(other, 40_000, port, magic), false, false},
		"of another program":        {frame(udp, 40_000, port, magic+1), false, false},
		"cut within its headers":    {frame(udp, 40_000, port, magic)[:60], false, false},
		"cut within its number":     {frame(udp, 40_000, port, magic)[:70], false, false},
		"no packet of IP at all":    {make([]byte, 100), false, false},
		"nothing that has a header": {nil, false, false},
	} {
		l := NewLosses(port)
		l.Note(c.frame)
		if l.Has(0, 5) != c.out || l.Has(1, 5) != c.in {
			t.Errorf("%s: out %v, in %v", name, l.Has(0, 5), l.Has(1, 5))
		}
		if n := len(l.seen[0]) + len(l.seen[1]); n > 0 != (c.out || c.in) {
			t.Errorf("%s: %d noted", name, n)
		}
	}
}

// Each datagram that was lost has one owner: that whose counter knows it by number, or Roam.
func TestAccount(t *testing.T) {
	const ms = time.Millisecond
	type losses struct {
		lost, refused, dropped, overflow, asked []int // numbers, which are milliseconds
	}
	has := func(list []int, at time.Duration) bool {
		for _, n := range list {
			if time.Duration(n)*ms == at {
				return true
			}
		}
		return false
	}
	flow := func(l losses) *udpflow.Flow {
		return exptest.UDP(t, time.Second, ms, 0, func(d *exptest.Datagram) {
			d.Lost, d.Refused, d.Dropped = has(l.lost, d.At), has(l.refused, d.At), has(l.dropped, d.At)
		})
	}
	all := [][2]time.Time{{exptest.At(0), exptest.At(time.Second)}}
	for name, c := range map[string]struct {
		up, down losses
		spans    [][2]time.Time
		want     result.Loss
		roam     int
	}{
		"nothing": {losses{}, losses{}, all, result.Loss{Sent: 2000}, 0},
		"nobody owns it": {losses{lost: []int{5}}, losses{lost: []int{7}}, all,
			result.Loss{Sent: 2000, Lost: 2}, 2},
		"all by somebody": {losses{lost: []int{5}, overflow: []int{5}}, losses{dropped: []int{7}, lost: []int{900},
			asked: []int{900}}, all, result.Loss{Sent: 2000, Lost: 3, Emulator: 1, Asked: 1, Sockets: 1}, 0},
		"one of two": {losses{lost: []int{5, 6}, overflow: []int{5}}, losses{}, all,
			result.Loss{Sent: 2000, Lost: 2, Emulator: 1}, 1},
		"of the other way": {losses{lost: []int{5}}, losses{overflow: []int{5}, asked: []int{5}}, all,
			result.Loss{Sent: 2000, Lost: 1}, 1},
		"the same number both ways": {losses{lost: []int{5, 6}, overflow: []int{5}, asked: []int{6}},
			losses{lost: []int{5, 6}}, all, result.Loss{Sent: 2000, Lost: 4, Emulator: 1, Asked: 1}, 2},
		"one that arrived after all": {losses{overflow: []int{5}, asked: []int{6}}, losses{}, all,
			result.Loss{Sent: 2000}, 0},
		"by two at once": {losses{lost: []int{5}, overflow: []int{5}, asked: []int{5}}, losses{}, all,
			result.Loss{Sent: 2000, Lost: 1, Emulator: 1}, 0},
		"refused is Roam's": {losses{refused: []int{5}, overflow: []int{5}, asked: []int{5}}, losses{}, all,
			result.Loss{Sent: 2000, Lost: 1, Refused: 1}, 1},
		"within the spans alone": {losses{lost: []int{5, 150, 200, 400}, overflow: []int{150, 400}}, losses{},
			[][2]time.Time{{exptest.At(100 * ms), exptest.At(200 * ms)}, {exptest.At(300 * ms), exptest.At(500 * ms)}},
			result.Loss{Sent: 600, Lost: 2, Emulator: 2}, 0},
		"a drop at another time owns nothing": {losses{dropped: []int{800}, lost: []int{400}}, losses{},
			[][2]time.Time{{exptest.At(300 * ms), exptest.At(500 * ms)}}, result.Loss{Sent: 400, Lost: 1}, 1},
	} {
		o := Owners{Overflows: NewLosses(1), Asked: NewLosses(1)}
		for way, l := range []losses{c.up, c.down} {
			for _, n := range l.overflow {
				o.Overflows.Add(way, uint64(n))
			}
			for _, n := range l.asked {
				o.Asked.Add(way, uint64(n))
			}
		}
		got := o.Account("", flow(c.up), flow(c.down), c.spans...)
		if got != c.want || got.Roam() != c.roam {
			t.Errorf("%s: %+v, Roam's %d, want %+v, %d", name, got, got.Roam(), c.want, c.roam)
		}
		if len(c.up.overflow)+len(c.up.asked)+len(c.down.overflow)+len(c.down.asked) > 0 {
			continue
		}
		if got := (Owners{}).Account("", flow(c.up), flow(c.down), c.spans...); got != c.want {
			t.Errorf("%s, without lists: %+v, want %+v", name, got, c.want)
		}
	}
}
