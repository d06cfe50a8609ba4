package simpson

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/workload/udpflow"
)

const ms = time.Millisecond

// flow is what the probes log of datagrams at a steady rate; the zero value of a field is no fault.
type flow struct {
	rate, n, lost int
	late          int           // so many come after one with a higher number
	swing         time.Duration // by which every other one takes longer
}

// flows are those that were read, which all cases share.
var flows = map[flow]*udpflow.Flow{}

func (f flow) read(t *testing.T) *udpflow.Flow {
	t.Helper()
	if flows[f] == nil {
		pause := time.Second / time.Duration(max(f.rate, 1))
		flows[f] = exptest.UDP(t, time.Duration(f.n)*pause, pause, ms, func(d *exptest.Datagram) {
			i := int(d.At / pause)
			d.Lost = i >= 9 && i < 9+f.lost
			if i%2 == 1 {
				d.Delay += f.swing
			}
			if i > 0 && i*f.late/f.n > (i-1)*f.late/f.n {
				d.Delay += pause * 5 / 2
			}
		})
	}
	return flows[f]
}

// printed is what ping prints.
func printed(sent, lost int, rtt string) string {
	return fmt.Sprintf("PING reed\n208 bytes from reed: icmp_seq=1 ttl=62 time=%s ms\n208 bytes from reed: icmp_seq=3 "+
		"ttl=62 time=%s ms\n\n%d packets transmitted, %d received, 0.01%% packet loss, time 9ms\n",
		rtt, rtt, sent, sent-lost)
}

// rawPassage is what a policy leaves behind with frames of one size at one rate.
type rawPassage struct {
	policy
	frame, rate int
	queued      bool
	echoesLost  int // of 100,000
	rtt         string
	there, back flow
	passed      tally
}

// newPassage is one within all bounds; of a full link there are no echoes.
func newPassage(p policy, frame, rate int, queued bool) *rawPassage {
	x := &rawPassage{policy: p, frame: frame, rate: rate, queued: queued, rtt: "0.200", there: flow{rate: rate, n: 1000},
		back: flow{rate: rate, n: 1000}}
	first := uint64(100 * p.share)
	for h := range x.passed.datagrams {
		x.passed.datagrams[h] = [2]uint64{first, 10000 - first}
		if frame == frameSizes[1] && !queued {
			x.passed.echoes[h] = [2]uint64{first, 10000 - first}
		}
	}
	if queued {
		x.back = flow{}
		x.there.late = map[string]int{"50_50": 270, "80_20": 660}[p.name]
	}
	return x
}

func (x *rawPassage) read(t *testing.T) *passage {
	t.Helper()
	c := crossing{there: x.there.read(t), back: x.back.read(t), start: exptest.Origin,
		length: 1000 * time.Second / time.Duration(x.rate)}
	if !x.queued && x.rate < wholeLink {
		c.ping = printed(100_000, x.echoesLost, x.rtt)
	}
	before := tally{datagrams: [2][2]uint64{{7, 8}, {9, 10}}, echoes: [2][2]uint64{{1, 2}, {3, 4}}}
	after := before
	for h := range after.datagrams {
		for l := range 2 {
			after.datagrams[h][l] += x.passed.datagrams[h][l]
			after.echoes[h][l] += x.passed.echoes[h][l]
		}
	}
	v := &passage{policy: x.policy, Frame: x.frame, Rate: x.rate, Queued: x.queued}
	if err := v.read(c, before, after); err != nil {
		t.Fatal(err)
	}
	return v
}

// raw is what a cell, or a comparator, leaves behind.
type raw struct {
	cell
	echoesLost   int // of 100,000
	there, back  flow
	passed       [2]site.Passed
	daemon       [2][2]uint64
	routes       [2]string
	captured     []int64
	encapsulated int
	passes       []time.Duration // of updates: until the border passes them on; never if negative
	announced    time.Duration   // the loss of a link
	rates        []*rawPassage
}

// ratedBy are the passages of a sweep: both frame sizes, and full links.
func ratedBy(p policy) []*rawPassage {
	return []*rawPassage{newPassage(p, frameSizes[0], 1000, false), newPassage(p, frameSizes[1], 1000, false),
		newPassage(p, frameSizes[1], wholeLink, false)}
}

const announceMs = 500 // for which the borders collect changes

// newRaws are those of a run within all bounds: the cells, then the comparators.
func newRaws() (all []*raw) {
	x := func(c cell) *raw {
		return &raw{cell: c, there: flow{rate: 1000, n: 2000}, back: flow{rate: 1000, n: 2000}, captured: []int64{24, 24},
			routes: [2]string{"a expires 30sec\nb", "a expires 9sec\nb"}}
	}
	for _, c := range cells {
		v := x(c)
		for b := range v.passed {
			first := uint64(10000*c.share + 0.5)
			v.passed[b].Link = [2]uint64{first, 10000 - first}
		}
		v.passes = []time.Duration{ms / 10, ms / 5, ms / 5, 3 * ms / 10, ms / 5, ms / 5, ms / 5, ms / 5, ms / 5, ms / 5}
		v.announced = (22 + announceMs - collected) * ms
		v.rates = ratedBy(policy{name: c.name, share: int(100*c.share + 0.5)})
		all = append(all, v)
	}
	for _, c := range site.Comparators {
		v := x(cell{name: c.Name, share: 1})
		for b := range v.passed {
			v.passed[b].Link[0] = 10000
		}
		if c.Name == site.Forwarding.Name {
			v.routes[1], v.captured = "a\nb\nc\nd\ne expires 1sec", []int64{24 + 400, 24 + 600}
			v.encapsulated = site.Encapsulations
		}
		if c.Name == baseline {
			v.rates = ratedBy(policy{name: c.Name, share: 100, plain: true})
		}
		all = append(all, v)
	}
	return all
}

func (x *raw) read(t *testing.T) *seen {
	t.Helper()
	v := &seen{cell: x.cell, daemon: x.daemon, routes: x.routes, captured: x.captured, encapsulated: x.encapsulated}
	before := [2]site.Passed{{Link: [2]uint64{11, 12}, Strays: 13}, {Link: [2]uint64{14, 15}, Strays: 16}}
	after := before
	for b := range after {
		for l := range 2 {
			after[b].Link[l] += x.passed[b].Link[l]
		}
		after[b].Strays += x.passed[b].Strays
	}
	err := v.read(crossing{ping: printed(100_000, x.echoesLost, "0.200"), there: x.there.read(t), back: x.back.read(t),
		start: exptest.Origin, length: 2 * time.Second}, before, after)
	if err != nil {
		t.Fatal(err)
	}
	x.updates(t, v)
	for _, r := range x.rates {
		v.rates = append(v.rates, r.read(t))
	}
	return v
}

// updates reads the captures at the near border: before a link is lost, and after.
func (x *raw) updates(t *testing.T, v *seen) {
	t.Helper()
	if x.passes == nil {
		return
	}
	const lost = 5 * time.Second
	both, alone := []roam.L64{link(0), link(1)}, []roam.L64{link(0)}
	var at [3][]packets.Packet
	add := func(where int, p packets.Packet) { at[where] = append(at[where], p) }
	for k, d := range x.passes {
		sent := time.Duration(k+1) * 100 * ms
		add(0, message(sent-ms, "lan", site.InsideNID, true, both...)) // acknowledges one of the other end
		add(0, message(sent, "lan", site.InsideNID, false, both...))
		add(0, message(sent+ms/20, "lan", site.OutsideNID, false, both...))
		if d >= 0 {
			add(1+k%2, message(sent+d, "wan", site.InsideNID, false, both...))
		}
		add(1, packets.Packet{At: exptest.At(sent + d/2), Where: "wan", Proto: packets.UDP, SrcPort: 7, DstPort: 8})
	}
	in, out := updatesOf(at[0], at[1], at[2])
	v.added = added(in, out)
	add(1, message(lost-20*ms, "wan", site.InsideNID, false, alone...))
	add(1, message(lost+ms, "wan", site.InsideNID, false, both...))
	add(1, message(lost+2*ms, "wan", site.InsideNID, false, link(1)))
	add(1, message(lost+x.announced, "wan", site.InsideNID, false, alone...))
	add(1, message(lost+x.announced+time.Second, "wan", site.InsideNID, false, alone...))
	if _, out = updatesOf(at[0], at[1], at[2]); !v.announced(out, link(0), exptest.At(lost), announceMs) {
		t.Errorf("%s: no update tells of the link that is left", x.name)
	}
}

// link is the locator of one of the near border's providers.
func link(i int) roam.L64 { return roam.ILVFromAddr(site.Providers[0][i].Addr()).L64 }

// message is a Locator Update, or its acknowledgement, as captured.
func message(at time.Duration, where string, from roam.NID, ack bool, set ...roam.L64) packets.Packet {
	p := packets.Packet{At: exptest.At(at), Where: where, Proto: packets.ICMPv6, Nonce: true,
		Src: roam.ILV{L64: link(0), NID: from}.Addr(), Data: []byte{156, 0, 0, 0, byte(len(set)), 1, 0, 0}}
	if ack {
		p.Data[5] = 2
	}
	for _, l := range set {
		p.Data = append(binary.BigEndian.AppendUint64(p.Data, uint64(l)), 0, 10, 0, 60)
	}
	return p
}

// sound are the passages within all bounds, which are read once.
var sound = map[rawPassage]*passage{}

// filled is a passage within all bounds at a rate that every machine sends.
func filled(t *testing.T, p policy, frame int, queued bool) *passage {
	t.Helper()
	x := newPassage(p, frame, 1000, queued)
	if sound[*x] == nil {
		sound[*x] = x.read(t)
	}
	v := *sound[*x]
	v.rtts = slices.Clone(v.rtts)
	return &v
}
