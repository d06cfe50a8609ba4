package phoomikiattisak

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/scene"
)

// A segment takes the time from its first transmission to its first arrival, and the longest
// one counts.
func TestQueueing(t *testing.T) {
	p := &pass{
		peer: []packets.Packet{syn(true), data(10, "eth0", 0, 1000), data(11, "eth0", 1000, 3000),
			data(22, "eth0", 1000, 1000), data(40, "eth0", 2000, 1000), data(70, "eth0", 4000, 1000)},
		mobile: []packets.Packet{syn(false), data(15, "net1", 0, 1000), data(18, "net2", 3000, 1000),
			data(20, "net1", 1000, 1000), data(50, "net2", 2000, 1000), data(55, "net2", 1000, 1000),
			data(75, "net2", 4000, 1000)},
	}
	var o loadOutcome
	if err := p.queueing(&o); err != nil || o.QueueMs != 39 {
		t.Errorf("%g ms, %v", o.QueueMs, err)
	}
	if err := (&pass{}).queueing(&o); err == nil {
		t.Error("empty captures hold a flow")
	}
}

// The exchanges of a soft handoff are those for the new link and for the old one.
func TestPriorityTimes(t *testing.T) {
	p := &pass{Trace: (&script{kind: soft}).trace(9 * time.Second), mobile: []packets.Packet{
		message(planned+ms, false, 2, 1), message(planned+6*ms, true, 2, 1),
		message(leaves+ms, false, 2), message(leaves+9*ms, true, 2)}}
	var o priorityOutcome
	if o.judge(p); o.GainMs != 5 || o.EndMs != 8 {
		t.Errorf("%g and %g ms", o.GainMs, o.EndMs)
	}
}

// Gaps between advertisements are those of one network, from the start of the flow on.
func TestAdvertGap(t *testing.T) {
	advert := func(ms int, link string) scene.Advert {
		return scene.Advert{At: exptest.At(time.Duration(ms) * time.Millisecond), Link: link}
	}
	p := &pass{Trace: &scene.Trace{Start: exptest.Origin, End: exptest.At(9 * time.Second), Adverts: []scene.Advert{
		advert(-5000, "net1"), advert(-1000, "net1"), advert(500, "net2"), advert(1000, "net1"), advert(1500, "net2"),
		advert(2500, "net1")}}}
	var o loadOutcome
	if o.judge(p); o.AdvertGapS != 2 || o.Handoffs != 0 {
		t.Errorf("%+v", o)
	}
}

// A sum in one's complement is the number that the bytes are, modulo 0xffff, with a byte of
// zeros behind an odd one.
func TestSumOfAnyLength(t *testing.T) {
	p := packets.Packet{Proto: packets.TCP, Src: roam.ILV{L64: 0x20010db8_00010002, NID: 0x1234_5678_9abc_def0}.Addr(),
		Dst: roam.ILV{L64: 0xfedc_ba98_7654_3210, NID: 0x0f1e_2d3c_4b5a_6978}.Addr()}
	src, dst := p.Src.As16(), p.Dst.As16()
	for size := range 48 {
		upper := make([]byte, size)
		for i := range upper {
			upper[i] = byte(37 * (i + size))
		}
		for _, locators := range []bool{false, true} {
			all := slices.Concat(src[8:], dst[8:], []byte{0, byte(size), 0, p.Proto}, upper, make([]byte, size%2))
			if locators {
				all = slices.Concat(src[:8], dst[:8], all)
			}
			want := new(big.Int).Mod(new(big.Int).SetBytes(all), big.NewInt(0xffff)).Int64()
			if got := sum(p, upper, locators); int64(got)%0xffff != want {
				t.Errorf("%d bytes, locators %v: %#x, want %#x", size, locators, got, want)
			}
		}
	}
}

// The figures of a UDP flow are those of both directions, without the first second.
func TestUDPRecords(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "udp_s=6")
	length := p.Seconds("udp_s")
	lossy := func(at ...time.Duration) func(*exptest.Datagram) {
		return func(d *exptest.Datagram) {
			d.Lost = slices.Contains(at, d.At)
			if d.At == 4*time.Second {
				d.Delay += 30 * ms // later ones come first
			}
		}
	}
	o := udpOutcome{Scenario: "lan-lan"}
	o.judge(&exp.Env{Params: p}, &scene.Trace{Start: exptest.Origin, End: exptest.At(length)},
		exptest.UDP(t, length, 10*ms, 10*ms, lossy(500*ms, 3*time.Second)),
		exptest.UDP(t, length, 20*ms, 10*ms, lossy(2*time.Second, 2500*ms)), scene.NewLosses(udpPort))
	if o.Written != 500+250 || o.Lost != 3 || o.Late != 2 {
		t.Errorf("%d sent, %d lost, %d late", o.Written, o.Lost, o.Late)
	}
	if len(o.LostAt) != 3 || slices.Max(o.LostAt) < 1.9 || slices.Min(o.LostAt) > 3.1 {
		t.Errorf("lost at %v", o.LostAt)
	}
}

// A longer path is no drop of the rate, nor does it make up for one; a shorter one is none either.
func TestRateDrop(t *testing.T) {
	f := exptest.UDP(t, 6*time.Second, 10*ms, 10*ms, func(d *exptest.Datagram) {
		d.Lost = exptest.Within(3*time.Second, 3100*ms)(d.At)
	})
	whole := exptest.UDP(t, 6*time.Second, 10*ms, 10*ms, nil)
	from, to := exptest.At(time.Second), exptest.At(5*time.Second)
	for longer, want := range map[float64][2]float64{0: {7, 9}, 30: {4, 6}, -30: {7, 9}, 500: {0, 0}} {
		if got := rateDrop(f, from, to, longer); got < want[0] || got > want[1] {
			t.Errorf("longer by %g ms: %g %%", longer, got)
		}
	}
	if got := rateDrop(whole, from, to, 30); got != 0 {
		t.Errorf("of a steady flow: %g %%", got)
	}
}
