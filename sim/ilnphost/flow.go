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
	answer  bool     // goes back
	opening bool     // carries the nonce, as a TCP SYN does
	sentTo  roam.L64 // the locator that it was sent to
	segment *segment // of TCP, in place of a datagram of a flow; nil: it is one
}

// Flow is a stream of datagrams from one application to another; with Echo,
// each one is answered, as TCP would acknowledge it.
type Flow struct {
	From, To *Node
	Echo     bool
	Size     int  // bytes of each datagram; 0 is 1000
	Opening  bool // until the first answer, datagrams carry the nonce, as a TCP SYN does
	Brief    bool // single datagrams are not remembered: what asks for numbers or times of them sees none
	Sent     int
	Answered int
	Came     time.Time // the last one that arrived; zero: none did
	Back     time.Time // the last answer that arrived
	arrivals []arrival
	key      ilnp.SessionKey // at the sender
	stopped  bool
}

type arrival struct {
	number   int
	sent, at time.Time
	by       roam.L64 // the locator of the receiver that it came to
}

// Flow starts a stream of datagrams, one each interval, until it is stopped.
func (h *Node) Flow(to *Node, interval time.Duration, echo bool) *Flow {
	return h.run(&Flow{From: h, To: to, Echo: echo}, interval)
}

// Stream starts a stream of datagrams of a size in bytes, which are not
// remembered one by one.
func (h *Node) Stream(to *Node, interval time.Duration, size int) *Flow {
	return h.run(&Flow{From: h, To: to, Size: size, Brief: true}, interval)
}

// Connect starts a stream with Echo whose first datagrams are repeated every
// second, with the nonce, until one is answered: a TCP connection.
func (h *Node) Connect(to *Node) *Flow {
	return h.run(&Flow{From: h, To: to, Echo: true, Opening: true}, time.Second)
}

// run starts a flow that its caller has described.
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

// send hands the next datagram to the sender's data plane.
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

// sendPlain sends as a host without ILNP does that began on its first link: from
// there and by there, or not at all.
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

// came notes that a datagram arrived.
func (f *Flow) came(d Datagram, now time.Time, by roam.L64) {
	f.Came = now
	if f.Brief {
		return
	}
	if a := &f.arrivals[d.Number]; a.at.IsZero() {
		a.at, a.by = now, by
	}
}

// deliver gives a datagram to its application.
func (h *Node) deliver(key ilnp.SessionKey, d Datagram) {
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

// Received returns how many different datagrams arrived.
func (f *Flow) Received() int {
	n := 0
	for _, a := range f.arrivals {
		if !a.at.IsZero() {
			n++
		}
	}
	return n
}

// Lost returns how many of the datagrams sent within a span of time since
// Start did not arrive so far.
func (f *Flow) Lost(from, to time.Duration) int {
	n := 0
	for _, a := range f.arrivals {
		if sent := a.sent.Sub(sim.Start); sent >= from && sent < to && a.at.IsZero() {
			n++
		}
	}
	return n
}

// Gap returns the longest time between two arrivals of different datagrams.
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

// By returns how many datagrams sent within a span of time since Start arrived
// at each locator of the receiver.
func (f *Flow) By(from, to time.Duration) map[roam.L64]int {
	counts := make(map[roam.L64]int)
	for _, a := range f.arrivals {
		if sent := a.sent.Sub(sim.Start); sent >= from && sent < to && !a.at.IsZero() {
			counts[a.by]++
		}
	}
	return counts
}

// receive takes a packet from the wire, as a host with or without ILNP.
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

// problem answers an option that the host does not know (RFC 8200 §4.2).
func (h *Node) problem(at *attachment, p Packet) {
	quoted := p.Control
	if quoted == nil {
		// The datagram as it would stand on the wire, as far as it matters.
		quoted, _ = ilnpwire.BuildEcho(p.Src, p.Dst, p.Nonce, true, 0, 0, nil)
	}
	b, err := ilnpwire.BuildError(p.Dst, p.Src, Nonce{}, ilnpwire.ErrorMessage{
		Type: ilnpwire.TypeParameterProblem, Code: ilnpwire.CodeUnknownOption, Param: 42, Quoted: quoted,
	})
	if err == nil {
		h.put(at.link, Packet{Src: p.Dst, Dst: p.Src, Control: b})
	}
}
