package hostile

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/lab/exp/exptest"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/udpflow"
)

// signal is a Locator Update of the mobile host, or its acknowledgement.
type signal struct {
	at  time.Duration
	ack bool
	udp bool
	set []byte // of networks
}

// air is what the mobile host's links carry: healthy records but for what a case alters.
type air struct {
	udp      bool // the form of control before the handoff, and inside
	echoUDP  bool // that of the answer to an echo inside
	deaf     bool // no control of the correspondent comes before the handoff
	plain    bool // none comes inside
	signals  []signal
	inUse    string           // link of the data at the end
	others   int              // every so many data packets go by the other link, of the mobile host's and of the others
	othersIn int              // and those to it
	own      string           // of a network that loses what comes in: link of what the mobile host sends
	strays   time.Duration    // last moment at which it sends something by the other link
	turn     time.Duration    // last moment at which the correspondent sends into the network
	away     bool             // nothing that it sends then is to the other network
	changed  [2]time.Duration // in duality: the last moment at which connections go over to another path
}

// newAir is what each claim needs.
func newAir(n network) air {
	const ms = time.Millisecond
	a := air{udp: n.udp, echoUDP: n.udp, inUse: "net1", others: 11, othersIn: 11,
		changed: [2]time.Duration{changed, changed - 100*ms}}
	if n.late {
		a.own, a.strays, a.turn = "net1", ending-lively-20*ms, ending-lively-20*ms
	}
	early, late := !n.acked, n.acked
	a.signals = []signal{
		{inside - time.Second, false, early, []byte{2}}, {inside - 900*ms, true, early, []byte{2}},
		{inside + 10*ms, false, false, []byte{1}}, {inside + 110*ms, false, true, []byte{1}},
		{inside + 130*ms, true, late, []byte{1}},
	}
	return a
}

// control is a control message between the two hosts, as a capture shows it.
func control(at time.Duration, link string, own, udp bool, body ...byte) packets.Packet {
	p := packets.Packet{At: exptest.At(at), Where: link, Proto: packets.ICMPv6, Nonce: true, Data: body,
		Src: roam.ILV{L64: 1, NID: scene.NID("mn")}.Addr(), Dst: roam.ILV{L64: 9, NID: scene.NID("cn1")}.Addr()}
	if !own {
		p.Src, p.Dst = p.Dst, p.Src
	}
	if udp {
		p.Proto, p.Nonce, p.SrcPort, p.DstPort = packets.UDP, false, 4444, 4444
		p.Data = append([]byte{packets.ICMPv6, 0, 0x8b, 4, 1, 2, 3, 4}, body...)
		p.Payload = len(p.Data)
	}
	return p
}

// update is the body of a Locator Update.
func update(s signal) []byte {
	b := []byte{156, 0, 0, 0, byte(len(s.set)), 1, 0, 0}
	if s.ack {
		b[5] = 2
	}
	for _, l := range s.set {
		b = append(binary.BigEndian.AppendUint64(b, uint64(l)), 0, 10, 0, 9)
	}
	return b
}

// segment is a packet of a connection, or of the UDP flow.
func segment(at time.Duration, link string, own bool, proto uint8, port uint16) packets.Packet {
	p := control(at, link, own, false)
	p.Proto, p.Nonce, p.SrcPort, p.DstPort, p.Payload, p.Data = proto, false, 40_000, port, 1000, make([]byte, 100)
	if !own {
		p.SrcPort, p.DstPort = port, 40_000
	}
	return p
}

// echo is the body of an echo request.
func echo() []byte { return []byte{128, 0, 0, 0} }

// wire makes the capture.
func (a air) wire(n network) (w wire) {
	const ms = time.Millisecond
	add := func(p packets.Packet) { w.list = append(w.list, p) }
	add(control(100*ms, "net1", true, a.udp, echo()...))
	if !a.deaf {
		add(control(120*ms, "net1", false, a.udp, echo()...))
	}
	for _, s := range a.signals {
		link := map[bool]string{true: "net1", false: "net2"}[s.at >= inside]
		if !a.plain || s.at < inside || !s.ack {
			add(control(s.at, link, !s.ack, s.udp, update(s)...))
		}
	}
	if !a.plain {
		add(control(inside+200*ms, "net1", false, !a.echoUDP, echo()...))
		add(control(inside+300*ms, "net1", false, a.echoUDP, echoReply, 0, 0, 0))
	}
	links := [2]string{"net1", "net2"}
	i := 0
	for at := inside - time.Second; at < ending; at += 20 * ms {
		i++
		for way := range 2 {
			for k, port := range []uint16{7001, 7002, udpPort} {
				link, proto := links[1], uint8(packets.TCP)
				if port == udpPort {
					proto = packets.UDP
				}
				every := [2]int{a.others, a.othersIn}[way]
				switch {
				case n.duality && (at < inside || k == 2 && i%2 == 0):
					link = links[0]
				case n.duality && k < 2 && at <= a.changed[way]:
					link = links[i%2]
				case n.duality:
					link = links[k%2]
				case at >= inside:
					if link = a.inUse; i%every == 0 {
						link = map[string]string{"net1": "net2", "net2": "net1"}[link]
					}
				}
				p := segment(at, a.late(n, link, way, at), way == 0, proto, port)
				if !n.late || way == 0 || at < inside {
					add(p)
				} else {
					w.sent = append(w.sent, p)
					if p.Where == "net2" {
						add(p)
					}
				}
			}
		}
	}
	w.list = packets.Merge(w.list)
	return w
}

// late is the link of a packet of data in a network that loses what comes in, and link in others.
func (a air) late(n network, link string, way int, at time.Duration) string {
	isOther := way == 0 && at <= a.strays && at/(20*time.Millisecond)%5 == 0
	switch {
	case !n.late || at < inside:
		return link
	case way == 0 && isOther == (a.own == "net1"):
		return "net2"
	case way == 0 || at <= a.turn:
		return "net1"
	case a.away:
		return ""
	}
	return "net2"
}

// wireFaults are those of the captures of a network that is left for another.
func wireFaults(t testing.TB, n network, add planted) {
	const ms = time.Millisecond
	if n.late {
		lateFaults(t, add)
		return
	}
	other := map[string]string{"net1": "net2", "net2": "net1"}
	add("data on another link", "answer", "", func(x *record) { x.air.inUse = other[x.air.inUse] })
	add("data out on another link, too", "answer", "", func(x *record) { x.air.others = 9 })
	add("data in on another link, too", "answer", "", func(x *record) { x.air.othersIn = 9 })
	add("another encapsulation", "answer", "", func(x *record) {
		x.air.echoUDP = !n.udp
		x.air.signals[4].udp = x.air.signals[4].udp || !n.udp
	})
	if !n.acked && n.name != "clean" {
		return
	}
	add("acknowledged another way", "answer", "", func(x *record) { x.air.signals[4].udp = !n.acked })
	add("acknowledged before the network", "answer", "", func(x *record) { x.air.signals = x.air.signals[:2] })
	add("never acknowledged", "answer", "", func(x *record) {
		x.air.signals = append(x.air.signals, signal{ending - ms, false, true, []byte{1}})
	})
	add("another set acknowledged", "answer", "", func(x *record) { x.air.signals[4].set = []byte{2} })
}

// lateFaults are those of a network that loses what comes in.
func lateFaults(t testing.TB, add planted) {
	const ms = time.Millisecond
	add("the living direction is left", "answer", "", func(x *record) { x.air.own = "net2" })
	add("some of the living direction is elsewhere at the end", "answer", "", func(x *record) { x.air.strays = ending })
	add("some of the dead direction keeps to it at the end", "answer", "", func(x *record) {
		x.air.turn = ending - lively
	})
	// What is sent at that moment may be lost, and nothing after it.
	add("the dead direction keeps to it", "answer", "", func(x *record) { x.air.turn = ending })
	add("what is sent goes nowhere", "answer", "", func(x *record) { x.air.away = true })
	turn := newAir(network{late: true}).turn
	at := func(d time.Duration) *udpflow.Flow {
		return udpFlow(t, func(o *exptest.Datagram) { o.Lost = o.At == d })
	}
	add("one lost before", "", "", func(x *record) { x.down = at(turn - 10*ms) })
	add("one lost out after it", "lost", "", func(x *record) { x.up = at(turn + 10*ms) })
	add("one lost in after it", "lost", "", func(x *record) { x.down = at(turn + 10*ms) })
	add("a socket drops one after it", "", "", func(x *record) {
		x.down = udpFlow(t, func(o *exptest.Datagram) { o.Dropped = o.At == turn+10*ms })
	})
	add("never a packet into it, and one lost out at once", "lost", "", func(x *record) {
		x.air.turn, x.up = 0, at(inside+10*ms)
	})
}

// The wire tells of the two hosts alone, and of the first link until the handoff.
func TestILNPOnTheWire(t *testing.T) {
	const ms = time.Millisecond
	good := []packets.Packet{control(ms, "net1", true, false, echo()...), control(2*ms, "net1", false, true, echo()...)}
	other := control(2*ms, "net1", false, false, echo()...)
	other.Src = roam.ILV{L64: 9, NID: 77}.Addr()
	plain := segment(2*ms, "net1", false, packets.UDP, udpPort)
	for name, c := range map[string]struct {
		second packets.Packet
		want   bool
	}{
		"both":          {good[1], true},
		"another host":  {other, false},
		"plain":         {plain, false},
		"another link":  {control(2*ms, "net2", false, true, echo()...), false},
		"afterwards":    {control(inside, "net1", false, true, echo()...), false},
		"only one end":  {control(2*ms, "net1", true, true, echo()...), false},
		"data, a nonce": {nonced(plain), true},
	} {
		w := wire{list: slices.Clone(append(good[:1:1], c.second))}
		if got := w.ilnp(exptest.At(inside)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (wire{list: good[1:]}).ilnp(exptest.At(inside)) {
		t.Error("only the other end")
	}
}

func nonced(p packets.Packet) packets.Packet {
	p.Nonce = true
	return p
}

// A reaction is what came after the host entered, by its first link.
func TestReacted(t *testing.T) {
	const ms = time.Millisecond
	entered, alone, end := exptest.At(inside), exptest.At(inside+ms), exptest.At(ending)
	sent := control(inside+10*ms, "net1", true, false, update(signal{set: []byte{1}})...)
	acked := func(link string, udp bool) packets.Packet {
		return control(inside+20*ms, link, false, udp, update(signal{ack: true, set: []byte{1}})...)
	}
	theirUpdate := control(inside+ms, "net1", false, true, update(signal{set: []byte{1}})...)
	reply := func(at time.Duration, own, udp bool) packets.Packet {
		return control(at, "net1", own, udp, echoReply, 0, 0, 0)
	}
	for name, c := range map[string]struct {
		list    []packets.Packet
		ilnp    bool
		usedUDP bool
		acked   string
	}{
		"nothing":                    {nil, false, false, "not"},
		"only ours":                  {[]packets.Packet{sent, reply(inside+ms, true, true)}, false, false, "not"},
		"one of ours":                {[]packets.Packet{sent}, false, false, "not"},
		"an acknowledgement":         {[]packets.Packet{sent, acked("net1", false)}, true, false, "options"},
		"an acknowledgement in UDP":  {[]packets.Packet{sent, acked("net1", true)}, true, true, "udp"},
		"one by the other link":      {[]packets.Packet{sent, acked("net2", true)}, true, false, "udp"},
		"an update of the other end": {[]packets.Packet{theirUpdate}, true, false, "not"},
		"a reply in UDP":             {[]packets.Packet{reply(inside+ms, false, true)}, true, true, "not"},
		"a reply in both forms": {
			[]packets.Packet{reply(inside+ms, false, true), reply(inside+2*ms, false, false)}, true, false, "not",
		},
		"a reply before, one afterwards": {
			[]packets.Packet{reply(inside-ms, false, true), reply(ending+ms, false, true)}, false, false, "not",
		},
	} {
		r := wire{list: c.list}.reacted(entered, alone, end)
		if r.ILNP != c.ilnp || r.UsedUDP != c.usedUDP || r.Acked != c.acked {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The last connection of either end that goes over to its path decides.
func TestPinned(t *testing.T) {
	n := network{name: "tracked", duality: true}
	for _, at := range [][2]time.Duration{{changed, changed - time.Second}, {changed - time.Second, changed}} {
		a := newAir(n)
		a.changed = at
		var r reaction
		r.pinned(a.wire(n), exptest.At(inside), exptest.At(ending))
		late := r.Changed.Sub(exptest.At(changed))
		if late < 0 || late > 40*time.Millisecond || r.Spread != [2]string{"flow", "flow"} {
			t.Errorf("%v: %+v, off by %v", at, r, late)
		}
	}
	// Neither control nor packets without payload are data.
	empty := segment(inside, "net1", true, packets.TCP, 7001)
	empty.Payload = 0
	if _, ok := data(empty); ok {
		t.Error("an acknowledgement is data")
	}
	if _, ok := data(control(inside, "net1", true, true, echo()...)); ok {
		t.Error("control in UDP is data")
	}
	for proto, want := range map[uint8]bool{packets.TCP: true, packets.UDP: true, 50: false} {
		if way, ok := data(segment(inside, "net1", false, proto, 7001)); ok != want || want && way != 1 {
			t.Errorf("protocol %d: %d, %v", proto, way, ok)
		}
	}
}

// The daemon's answer stands beside: it is right in healthy records, and not where what the
// daemon says differs.
func TestOpinion(t *testing.T) {
	says := func(n network, alter func(*record)) float64 {
		x := healthy(t, n)
		alter(x)
		r := result.New("")
		x.outcome().answered(r, n)
		return r.Metrics["daemon_"+n.name+"_answer"]
	}
	late := node.Event{Time: exptest.At(inside + 40*time.Millisecond), Kind: "update-sent"}
	for _, n := range networks {
		if says(n, func(*record) {}) != 1 {
			t.Errorf("%s: not answered", n.name)
		}
		if !n.duality && says(n, func(x *record) { x.sessions[0].InUse = nil }) != 0 {
			t.Errorf("%s: answered on no link", n.name)
		}
		if !n.acked && n.name != "clean" {
			continue
		}
		for name, alter := range map[string]func(*record){
			"another form":           func(x *record) { x.events[2].Encapsulated = !n.acked },
			"before the network":     func(x *record) { x.events = x.events[:1] },
			"never":                  func(x *record) { x.events = append(x.events[:3:3], late) },
			"only told":              func(x *record) { x.events[2].Kind = "update-failed" },
			"nothing but the update": func(x *record) { x.events = x.events[1:2] },
		} {
			if says(n, alter) != 0 {
				t.Errorf("%s: %s, and answered", n.name, name)
			}
		}
	}
}
