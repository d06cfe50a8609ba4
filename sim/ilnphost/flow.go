package ilnphost

import (
	"cmp"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"
)

// Datagram is one numbered datagram of a flow.
type Datagram struct {
	Number  int
	Size    int
	flow    *Flow
	answer  bool     // from the receiver to the sender
	opening bool     // has the nonce, as a TCP SYN does
	sentTo  roam.L64 // the locator that it was sent to
	segment *segment // of TCP; nil: a datagram of a flow
}

// Flow is a stream of datagrams from one application to another; with Echo,
// each one is answered, as TCP would acknowledge it.
type Flow struct {
	From, To *Node
	Echo     bool
	Size     int    // bytes of each datagram; 0 is 1000
	Port     uint16 // of To; 0: as all others
	Opening  bool   // until the first answer, datagrams have the nonce, as a TCP SYN does
	Brief    bool   // datagrams are counted, not recorded: methods that list them return nothing
	Sent     int
	Answered int
	Came     time.Time // when the last datagram arrived; zero: none did
	Back     time.Time // when the last answer arrived
	arrivals []arrival
	key      ilnp.SessionKey // at the sender
	stopped  bool
}

type arrival struct {
	number   int
	sent, at time.Time
	by       roam.L64 // the receiver's locator that it was sent to
}

// Flow starts a stream that sends one datagram each interval until Stop.
func (h *Node) Flow(to *Node, interval time.Duration, echo bool) *Flow {
	return h.run(&Flow{From: h, To: to, Echo: echo}, interval)
}

// Stream starts a brief stream of datagrams of a size in bytes.
func (h *Node) Stream(to *Node, interval time.Duration, size int) *Flow {
	return h.run(&Flow{From: h, To: to, Size: size, Brief: true}, interval)
}

// Connect starts a stream with Echo whose first datagrams are repeated every
// second, with the nonce, until one is answered: a TCP connection.
func (h *Node) Connect(to *Node) *Flow {
	return h.run(&Flow{From: h, To: to, Echo: true, Opening: true}, time.Second)
}

// run starts a flow.
func (h *Node) run(f *Flow, interval time.Duration) *Flow {
	f.key = ilnp.SessionKey{Local: h.nid, Remote: f.To.nid}
	var next func()
	next = func() {
		if f.stopped {
			return
		}
		f.send()
		h.net.After(interval, next)
	}
	next()
	return f
}

// Stop ends the stream.
func (f *Flow) Stop() { f.stopped = true }

// send passes the next datagram to the sender's data plane.
func (f *Flow) send() {
	d := Datagram{Number: f.Sent, Size: cmp.Or(f.Size, 1000), flow: f, opening: f.Opening && f.Answered == 0}
	f.Sent++
	if !f.Brief {
		f.arrivals = append(f.arrivals, arrival{number: d.Number, sent: f.From.net.Now()})
	}
	if f.From.core == nil {
		f.From.sendPlain(f.To, d)
		return
	}
	f.From.plane.send(f.key, d)
}

// sendPlain sends as a host without ILNP: always from the address on its first link and by that
// link, or not at all.
func (h *Node) sendPlain(to *Node, d Datagram) {
	own, peer := h.began, to.began
	if own == nil || peer == nil {
		return
	}
	d.sentTo = peer.l64
	h.put(own.link, Packet{Src: roam.ILV{NID: h.nid, L64: own.l64}, Dst: roam.ILV{NID: to.nid, L64: peer.l64}, Data: d})
}

// Flow returns the stream that the datagram belongs to.
func (d Datagram) Flow() *Flow { return d.flow }

// came records the arrival of a datagram.
func (f *Flow) came(d Datagram, now time.Time, by roam.L64) {
	f.Came = now
	if f.Brief {
		return
	}
	if a := &f.arrivals[d.Number]; a.at.IsZero() {
		a.at, a.by = now, by
	}
}

// deliver delivers a datagram to its application.
func (h *Node) deliver(key ilnp.SessionKey, d Datagram) {
	if d.segment != nil && d.segment.arrives != nil {
		d.segment.arrives()
		return
	}
	if d.segment != nil {
		h.takeSegment(key, d.segment)
		return
	}
	if h.net.Delivered != nil {
		h.net.Delivered(h, key, d)
	}
	if d.answer {
		d.flow.Answered++
		d.flow.Back = h.net.Now()
		return
	}
	d.flow.came(d, h.net.Now(), d.sentTo)
	if d.flow.Echo {
		h.plane.send(key, Datagram{Number: d.Number, Size: 100, flow: d.flow, answer: true})
	}
}

// Received returns the number of distinct datagrams that arrived.
func (f *Flow) Received() int {
	n := 0
	for _, a := range f.arrivals {
		if !a.at.IsZero() {
			n++
		}
	}
	return n
}

// Lost returns how many datagrams that were sent within a span of time since Start have not
// arrived.
func (f *Flow) Lost(from, to time.Duration) int {
	n := 0
	for _, a := range f.arrivals {
		if sent := a.sent.Sub(sim.Start); sent >= from && sent < to && a.at.IsZero() {
			n++
		}
	}
	return n
}

// Gap returns the longest time between the arrivals of two distinct datagrams.
func (f *Flow) Gap() time.Duration {
	var times []time.Time
	for _, a := range f.arrivals {
		if !a.at.IsZero() {
			times = append(times, a.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	var gap time.Duration
	for i := 1; i < len(times); i++ {
		gap = max(gap, times[i].Sub(times[i-1]))
	}
	return gap
}

// FirstAfter returns when the first datagram that was sent at or after a time
// since Start arrived; false: none did.
func (f *Flow) FirstAfter(from time.Duration) (time.Duration, bool) {
	var first time.Time
	for _, a := range f.arrivals {
		if a.sent.Sub(sim.Start) >= from && !a.at.IsZero() && (first.IsZero() || a.at.Before(first)) {
			first = a.at
		}
	}
	return first.Sub(sim.Start), !first.IsZero()
}

// By returns how many datagrams that were sent within a span of time since Start arrived at
// each locator of the receiver.
func (f *Flow) By(from, to time.Duration) map[roam.L64]int {
	counts := make(map[roam.L64]int)
	for _, a := range f.arrivals {
		if sent := a.sent.Sub(sim.Start); sent >= from && sent < to && !a.at.IsZero() {
			counts[a.by]++
		}
	}
	return counts
}

// receive handles a packet from the wire, as a host with or without ILNP.
func (h *Node) receive(at *attachment, p Packet) {
	if at == nil || !at.carrier {
		return
	}
	h.seen(at.link, false, p)
	if h.script != nil {
		h.script(p)
		return
	}
	if h.core != nil {
		h.plane.receive(at, p)
		return
	}
	if p.Nonce.Present() {
		if h.unknown == Problem {
			h.problem(at, p)
		}
		return
	}
	if p.Control != nil {
		return
	}
	if d := p.Data; !d.answer {
		d.flow.came(d, h.net.Now(), p.Dst.L64)
		if d.flow.Echo {
			h.put(at.link, Packet{Src: p.Dst, Dst: p.Src, Data: Datagram{Number: d.Number, Size: 100, flow: d.flow, answer: true}})
		}
	}
}

// problem sends a Parameter Problem about an unknown option (RFC 8200 §4.2).
func (h *Node) problem(at *attachment, p Packet) {
	quoted := p.Control
	if quoted == nil {
		// The headers of the datagram as on the wire, as far as the receiver parses them.
		quoted, _ = ilnpwire.BuildEcho(p.Src, p.Dst, p.Nonce, true, 0, 0, nil)
	}
	b, err := ilnpwire.BuildError(p.Dst, p.Src, Nonce{}, ilnpwire.ErrorMessage{
		Type: ilnpwire.TypeParameterProblem, Code: ilnpwire.CodeUnknownOption, Param: 42, Quoted: quoted,
	})
	if err == nil {
		h.put(at.link, Packet{Src: p.Dst, Dst: p.Src, Control: b})
	}
}
