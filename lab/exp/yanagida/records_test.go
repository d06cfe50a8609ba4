package yanagida

import (
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/scene"
)

const (
	ms      = time.Millisecond
	every   = 10 * ms // between two packets of one way
	attach  = 30 * ms // from the carrier of a link to the update that lists it
	lengths = 1258    // of a packet, as the IPv6 header says it
)

// network is the prefix of each link.
var network = map[string]roam.L64{"net1": l1, "net2": l2, "net3": 0x20010db8_00030000}

// script makes the captures of one pass, as the schedule asks for.
type script struct {
	cell  cell
	more  int     // length of a packet beyond the usual
	swing float64 // by how much the share of a link is off in every other bucket
	held  bool    // the first data of a new link wait for the acknowledgement
	s     *seen
	last  int // number of the last packet of either way
}

// weight is the share that each link should have at a moment.
func (x *script) weight(at time.Duration) map[string]float64 {
	set := map[string]float64{"net1": 1}
	shared := x.cell.mode == "duality"
	for _, st := range x.cell.plan.Steps {
		ready := st.At + attach + 5*ms
		if x.held {
			ready += x.cell.rtt
		}
		switch {
		case st.Op == scene.Attach && at >= ready:
			if !shared {
				clear(set)
			}
			set[st.Link] = 1
		case st.Op == scene.Enable && at >= ready:
			set[st.Link] = 1
		case st.Op == scene.Disable && at >= st.At:
			delete(set, st.Link)
		}
	}
	sign := 1 - 2*float64(int(at/bucket)%2)
	i := 0
	for _, l := range links {
		if set[l] > 0 {
			set[l] = 1/float64(len(set)) + x.swing*sign*float64(i-(len(set)-1)/2)*2/float64(max(1, len(set)-1))
			if len(set) == 2 {
				set[l] = 0.5 + x.swing*sign*float64(1-2*i)
			}
			i++
		}
	}
	return set
}

// choose picks the link of the next packet: that which lags most behind its share.
func choose(credit, weight map[string]float64) string {
	best := ""
	for _, l := range links {
		if weight[l] == 0 {
			credit[l] = 0
			continue
		}
		credit[l] += weight[l]
		if best == "" || credit[l] > credit[best] {
			best = l
		}
	}
	credit[best]--
	return best
}

// packet is number n of one way at a moment, as captured on an interface.
func (x *script) packet(at time.Duration, where, link string, n int, inward bool) packets.Packet {
	p := packets.Packet{At: exptest.At(at), Where: where,
		Src: addr(network[link], "mn").Addr(), Dst: addr(lc, "cn1").Addr(), Proto: packets.UDP,
		SrcPort: 40_000, DstPort: portOut, Payload: 1250, Length: lengths + x.more,
		Data: binary.BigEndian.AppendUint32(make([]byte, numberAt), uint32(n))}
	if x.cell.tcp {
		p.Proto, p.Seq = packets.TCP, math.MaxUint32-1000+uint32(n)*1250 // which wraps
	}
	if inward {
		p.Src, p.Dst, p.SrcPort, p.DstPort = p.Dst, p.Src, portIn, 40_000
	}
	return p
}

// run makes the records.
func (x *script) run() *seen {
	pl, delay := x.cell.plan, x.cell.rtt/2
	s := &seen{cell: x.cell, prefix: map[string]string{}, trace: &scene.Trace{Start: exptest.Origin,
		End: exptest.At(pl.Length), Drops: map[string]uint64{"cut": 9}}}
	x.s = s
	for l, prefix := range network {
		s.prefix[roam.ILV{L64: prefix}.Addr().String()] = l
	}
	credit := [2]map[string]float64{{}, {}}
	for at := -100 * ms; at < pl.Length+x.cell.rtt+100*ms; at += every {
		x.last++
		l := choose(credit[0], x.weight(at))
		s.mn = append(s.mn, x.packet(at, l, l, x.last, false))
		s.cn = append(s.cn, x.packet(at+delay, "eth0", l, x.last, false))
		l = choose(credit[1], x.weight(at-delay-2*ms)) // the peer follows the update
		s.cn = append(s.cn, x.packet(at, "eth0", l, x.last, true))
		s.mn = append(s.mn, x.packet(at+delay, l, l, x.last, true))
	}
	x.signal(-50*ms, "net1", "net1")
	var set []string // the preferred link first
	set = append(set, "net1")
	for _, st := range pl.Steps {
		s.trace.Steps = append(s.trace.Steps, scene.Done{Step: st, At: exptest.At(st.At)})
		switch st.Op {
		case scene.Attach, scene.Enable:
			set = slices.Insert(set, 0, st.Link)
			x.signal(st.At+attach, set[0], set...)
		case scene.Detach, scene.Disable:
			set = slices.DeleteFunc(set, func(l string) bool { return l == st.Link })
			x.signal(st.At+ms, set[0], set...)
		}
	}
	x.sort()
	return s
}

// clone returns a copy whose records can be altered, but for the bytes of packets.
func (x *script) clone() *script {
	y, s, t := *x, *x.s, *x.s.trace
	s.mn, s.cn, s.queued = slices.Clone(s.mn), slices.Clone(s.cn), slices.Clone(s.queued)
	t.Steps = slices.Clone(t.Steps)
	y.s, s.trace = &s, &t
	return &y
}

// signal adds a Locator Update from a link, and its acknowledgement, to both captures. It
// lists links; in mobility the first is preferred.
func (x *script) signal(at time.Duration, where string, set ...string) {
	for _, ack := range []bool{false, true} {
		from, to := at, at+x.cell.rtt/2
		if ack {
			from, to = at+x.cell.rtt/2, at+x.cell.rtt
			x.s.cn = append(x.s.cn, x.message(from, "eth0", where, true, set...))
			x.s.mn = append(x.s.mn, x.message(to, where, where, true, set...))
			continue
		}
		x.s.mn = append(x.s.mn, x.message(from, where, where, false, set...))
		x.s.cn = append(x.s.cn, x.message(to, "eth0", where, false, set...))
	}
}

// message is a Locator Update or its acknowledgement as captured.
func (x *script) message(at time.Duration, where, link string, ack bool, set ...string) packets.Packet {
	p := x.packet(at, where, link, 0, ack)
	p.Proto, p.Payload, p.SrcPort, p.DstPort = packets.ICMPv6, 0, 0, 0
	p.Data = []byte{156, 0, 0, 0, byte(len(set)), map[bool]byte{false: 1, true: 2}[ack], 0, 0}
	for i, l := range set {
		preference := byte(10)
		if x.cell.mode == "soft" {
			preference += byte(10 * i)
		}
		p.Data = append(binary.BigEndian.AppendUint64(p.Data, uint64(network[l])), 0, preference, 0, 9)
	}
	return p
}

func (x *script) sort() {
	x.s.mn, x.s.cn = packets.Merge(x.s.mn), packets.Merge(x.s.cn)
}

// ends returns the captures of the sender and of the receiver of one way.
func (x *script) ends(inward bool) (sender, receiver *[]packets.Packet) {
	if inward {
		return &x.s.cn, &x.s.mn
	}
	return &x.s.mn, &x.s.cn
}

// isData reports whether a packet is data of one way.
func isData(p packets.Packet, inward bool) bool {
	return p.Payload > 0 && (inward && p.SrcPort == portIn || !inward && p.DstPort == portOut)
}

// number is that of the packet sent at a moment.
func number(at time.Duration) int { return int((at+100*ms)/every) + 1 }

// find returns where the data of a number is in a capture.
func find(list []packets.Packet, inward bool, n int) int {
	return slices.IndexFunc(list, func(p packets.Packet) bool {
		return isData(p, inward) && binary.BigEndian.Uint32(p.Data[numberAt:]) == uint32(n)
	})
}

// lose takes a packet from the receiver's capture.
func (x *script) lose(inward bool, at time.Duration) {
	_, got := x.ends(inward)
	i := find(*got, inward, number(at))
	*got = slices.Delete(*got, i, i+1)
}

// spill lets the emulator have no room for a packet.
func (x *script) spill(inward bool, at time.Duration) {
	_, got := x.ends(inward)
	x.s.queued = append(x.s.queued, (*got)[find(*got, inward, number(at))])
	x.lose(inward, at)
}

// hold lets the arrivals within a span come together at its end.
func (x *script) hold(inward bool, from, length time.Duration) {
	_, got := x.ends(inward)
	for i, p := range *got {
		if isData(p, inward) && !p.At.Before(exptest.At(from)) && p.At.Before(exptest.At(from+length)) {
			(*got)[i].At = exptest.At(from + length)
		}
	}
	x.sort()
}

// overtake swaps n pairs of arrivals.
func (x *script) overtake(inward bool, at time.Duration, n int) {
	_, got := x.ends(inward)
	for k := range n {
		i, j := find(*got, inward, number(at)+10*k), find(*got, inward, number(at)+10*k+1)
		(*got)[i].At, (*got)[j].At = (*got)[j].At, (*got)[i].At
	}
	x.sort()
}

// resend sends n packets twice, and both arrive.
func (x *script) resend(inward bool, at time.Duration, n int) {
	for _, list := range x.both(inward) {
		for k := range n {
			i := find(*list, inward, number(at)+10*k)
			*list = slices.Insert(*list, i+1, (*list)[i])
		}
	}
}

func (x *script) both(inward bool) [2]*[]packets.Packet {
	a, b := x.ends(inward)
	return [2]*[]packets.Packet{a, b}
}

// reroute has the data that arrive on a link within a span take another one.
func (x *script) reroute(from, to time.Duration, link, by string) {
	for _, list := range []*[]packets.Packet{&x.s.mn, &x.s.cn} {
		for i := range *list {
			p := &(*list)[i]
			if p.Payload == 0 || p.At.Before(exptest.At(from)) || !p.At.Before(exptest.At(to)) {
				continue
			}
			for _, a := range []*netip.Addr{&p.Src, &p.Dst} {
				if *a == addr(network[link], "mn").Addr() {
					*a = addr(network[by], "mn").Addr()
				}
			}
			if p.Where == link {
				p.Where = by
			}
		}
	}
}

// silence ends the data of both ways at a moment.
func (x *script) silence(from time.Duration) {
	for _, list := range []*[]packets.Packet{&x.s.mn, &x.s.cn} {
		*list = slices.DeleteFunc(*list, func(p packets.Packet) bool { return p.Payload > 0 && p.At.After(exptest.At(from)) })
	}
}

// later moves the acknowledgements at a moment.
func (x *script) later(at, by time.Duration) {
	for i, p := range x.s.mn {
		if u, ok := p.Update(); ok && u.Ack && p.At.Equal(exptest.At(at)) {
			x.s.mn[i].At = p.At.Add(by)
		}
	}
	x.sort()
}
