package phoomikiattisak

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/lab/cc"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/scene"
)

const (
	ms      = time.Millisecond
	piece   = 14_000 // bytes of a segment: few and large ones carry a rate as well
	planned = 6 * time.Second
	leaves  = 8 * time.Second // the old link, but for the cut
	moves   = planned + 30*ms // the first update; of the cut the new network is advertised then
)

// script is one flow through one handoff; the zero value of a field is no fault.
type script struct {
	scenario, kind, variant string
	env                     *exp.Env

	says      time.Duration // of the cut: from the advertisement to the locator, as the daemon says
	hold      time.Duration // how long arrivals stop from the handoff on
	hole      [2]time.Duration
	late      int // arrivals overtaken by the next one after the handoff
	again     int // half segments that were sent twice and came twice
	merged    int // pairs of half segments that were sent twice and came as one
	lost      int // segments lost and retransmitted, from the handoff on
	short     int // segments that the end of the flow lacks
	thin      int // one of so many segments is not sent
	dense     bool
	delay     float64 // of acknowledgements, in round trips; negative if none comes
	updates   int     // further messages
	mute      bool    // no update leaves
	syns      int     // further SYNs
	mss       uint16
	failure   error
	algorithm string
	rto       float64
	dropped   int
	drops     string
	window    bool // the correspondent is far ahead of its acknowledgements
}

func (x *script) rtt(far bool) time.Duration {
	return time.Duration(rtt(x.env, far) * float64(ms))
}

// newScript is a flow in which each claim holds by little.
func newScript(env *exp.Env, scenario, kind, variant string) *script {
	x := &script{env: env, scenario: scenario, kind: kind, variant: variant, delay: 1.2, algorithm: variant, rto: 400}
	round := x.rtt(paths[scenario][1])
	switch kind {
	case soft:
		x.hold = round*12/10 + 18*ms
		if !paths[scenario][1] {
			x.late, x.again, x.merged = 1, 10, 1
		} else if paths[scenario][0] {
			x.again = 5
		}
	case hard:
		x.hold = round*15/10 + 15*ms
	case cut:
		x.hold = moves - planned + round*15/10 + 15*ms
		x.lost, x.again = 19, 3
	}
	return x
}

// segment is one as captured.
func segment(at time.Duration, link string, from int64, size int) packets.Packet {
	p := data(0, link, int(from), size)
	p.At = exptest.At(at)
	return p
}

// begun is a SYN of the flow, or the answer to it.
func begun(answer bool, mss uint16) packets.Packet {
	p := syn(answer)
	p.At = exptest.Origin
	if mss != 0 {
		binary.BigEndian.PutUint16(p.Raw[62:], mss)
	}
	return p
}

// message is a Locator Update, or its acknowledgement.
func message(at time.Duration, ack bool, set ...byte) packets.Packet {
	p := packets.Packet{At: exptest.At(at), Proto: packets.ICMPv6, Src: roam.ILV{L64: 1, NID: scene.NID("mn")}.Addr(),
		Dst: roam.ILV{L64: 9, NID: scene.NID("cn1")}.Addr(), Data: []byte{156, 0, 0, 0, byte(len(set)), 1, 0, 0}}
	if ack {
		p.Src, p.Dst, p.Data[5] = p.Dst, p.Src, 2
	}
	for i, l := range set {
		p.Data = append(binary.BigEndian.AppendUint64(p.Data, uint64(l)), 0, byte(10*(i+1)), 0, 9)
	}
	return p
}

// shape is where an arrival is and when.
func (x *script) shape(at time.Duration) (time.Duration, string) {
	far := paths[x.scenario]
	link, came := "net1", at+x.rtt(far[0])/2
	if at >= moves {
		link, came = "net2", at+x.rtt(far[1])/2
	}
	for _, h := range [][2]time.Duration{{x.from(), x.from() + x.hold}, x.hole} {
		if came >= h[0] && came < h[1] {
			came = h[1]
		}
	}
	return came, link
}

// from is where the gap of the handoff is looked for.
func (x *script) from() time.Duration {
	if x.kind == cut {
		return planned
	}
	return moves
}

// pass makes the records of the flow.
func (x *script) pass(t testing.TB) *pass {
	length := x.env.Params.Seconds("flow_s")
	far, peer, mobile := paths[x.scenario], []packets.Packet{begun(true, 0)}, []packets.Packet{begun(false, x.mss)}
	for range x.syns {
		mobile = append(mobile, begun(false, x.mss))
	}
	seq, lost, n := int64(0), x.lost, 0
	last := length + (x.rtt(far[0])-x.rtt(far[1]))/2 // sent so late, a segment arrives at the end
	arrive := func(at time.Duration, link string, seq int64, size int) {
		mobile = append(mobile, segment(at, link, seq, size))
	}
	resent := func(at time.Duration, seq int64, size, pieces int) {
		came, link := x.shape(at)
		for i := range pieces {
			peer = append(peer, segment(at, "eth0", seq+int64(i*size), size))
		}
		arrive(came, link, seq, size*pieces)
	}
	for at := 10 * ms; at < length+500*ms; n++ {
		slow := far[0] && at < planned || far[1] && at >= planned
		pause := map[bool]time.Duration{false: 4 * ms, true: 8 * ms}[slow]
		if x.dense && at < planned {
			pause = pause * 96 / 100
		}
		if x.thin > 0 && n%x.thin == 0 {
			at += pause
			continue
		}
		if x.short > 0 && at > last-time.Duration(x.short)*pause {
			break
		}
		peer = append(peer, segment(at, "eth0", seq, piece))
		came, link := x.shape(at)
		if at >= x.from()+x.hold && lost > 0 {
			lost--
			resent(at+ms, seq, piece, 1)
		} else {
			arrive(came, link, seq, piece)
		}
		if !x.window {
			p := ack(0, int(seq)+piece)
			p.At = exptest.At(at + ms)
			peer = append(peer, p)
		}
		seq += piece
		at += pause
	}
	for i := range x.again + 2*x.merged {
		at, pieces := 9*time.Second+time.Duration(i)*16*ms, 1
		if i >= x.again {
			if pieces = 2; (i-x.again)%2 == 1 {
				continue
			}
		}
		resent(at, int64(i*piece), piece/2, pieces)
	}
	tr := x.trace(length)
	p := &pass{Trace: tr, mobile: packets.Merge(mobile, x.signals()), peer: packets.Merge(peer), failure: x.failure,
		rtoMs: x.rto, algo: x.algorithm, dropped: x.dropped}
	if err := p.assemble(); err != nil {
		t.Fatal(err)
	}
	x.overtake(p)
	return p
}

// overtake swaps arrivals after the handoff, and reads the captures anew.
func (x *script) overtake(p *pass) {
	for k := range x.late {
		at := exptest.At(10*time.Second + time.Duration(k)*100*ms)
		i := slices.IndexFunc(p.mobile, func(q packets.Packet) bool { return q.Payload == piece && q.At.After(at) })
		j := i + 1 + slices.IndexFunc(p.mobile[i+1:], func(q packets.Packet) bool { return q.Payload == piece })
		p.mobile[i].At, p.mobile[j].At = p.mobile[j].At, p.mobile[i].At
	}
	p.mobile = packets.Merge(p.mobile)
	_ = p.assemble() // it did before
}

// signals are the updates: two of a soft handoff, otherwise one.
func (x *script) signals() (list []packets.Packet) {
	if x.mute {
		return nil
	}
	sets := [][]byte{{2, 1}, {2}}
	at := []time.Duration{moves, leaves + ms}
	if x.kind != soft {
		sets = sets[1:]
	}
	for i, set := range sets {
		round := time.Duration(x.delay * float64(x.rtt(paths[x.scenario][1])))
		list = append(list, message(at[i], false, set...))
		if x.delay >= 0 {
			list = append(list, message(at[i]+round, true, set...))
		}
	}
	for range x.updates {
		list = append(list, message(moves+ms, false, sets[0]...))
	}
	if x.delay < 0 {
		return list
	}
	// A refresh is none of them.
	last := sets[len(sets)-1]
	return append(list, message(10*time.Second, false, last...), message(10*time.Second+ms, true, last...))
}

// trace is the schedule as it was done.
func (x *script) trace(length time.Duration) *scene.Trace {
	step := func(at time.Duration, op scene.Op, link, from string) scene.Done {
		return scene.Done{Step: scene.Step{At: at, Op: op, Link: link, From: from}, At: exptest.At(at)}
	}
	t := &scene.Trace{Start: exptest.Origin, End: exptest.At(length), Events: map[string][]node.Event{},
		Drops: map[string]uint64{"cut": 3, x.drops: 1}}
	t.Steps = []scene.Done{step(planned, scene.Attach, "net2", "net1"), step(leaves, scene.Detach, "net1", "")}
	if x.kind == cut {
		t.Steps = []scene.Done{step(planned, scene.Swap, "net2", "net1")}
		t.Adverts = []scene.Advert{{At: exptest.At(planned - ms), Link: "net2"}, {At: exptest.At(moves), Link: "net2"}}
		t.Events["mn"] = []node.Event{{Time: exptest.At(moves + x.says), Kind: "locator-added",
			To: []node.LinkLocator{{Link: "net2"}}}}
	}
	return t
}

// outcome extracts the figures.
func (x *script) outcome(t testing.TB) outcome {
	c := &cell{env: x.env, scenario: x.scenario, kind: x.kind, control: &cc.Control{Name: x.variant, Algorithm: x.variant}}
	o, err := c.judge(x.pass(t))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var errFlow = errors.New("iperf3: the connection was reset")
