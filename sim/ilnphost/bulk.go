package ilnphost

import (
	"math"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/tcpassist"
)

// Parameters of a bulk transfer.
const (
	bulkSegment = 1448 // bytes of data
	bulkFirst   = 10   // segments of the first window
	bulkBurst   = 8    // segments that leave at once, as segmentation offload has it
	cubicC      = 0.4
	cubicBeta   = 0.7
)

// Bulk is a transfer without end, by a sender as Linux has it: CUBIC with HyStart, SACK and RACK
// (RFC 9438, RFC 8985), and Eifel's undo where nothing was lost. It shows what a choice of
// paths makes of one connection, in time. Its connection is never closed.
type Bulk struct {
	from, to *Node
	key      ilnp.SessionKey
	ends     *tcpEnd // names the ports; its own state is not used

	next      int // sequence number of the next new segment
	end       int // segments to send; 0: without end
	sent      map[int]*bulkPart
	order     []*bulkPart  // of transmission, the oldest first
	lost      []int        // to be retransmitted
	delivered int          // segments
	there     map[int]bool // at the other end, behind a gap,
	gap       int          // which is this segment: all before it are there
	hidden    []hiddenPart // of those there, in order of arrival

	cwnd, ssthresh float64
	wmax           float64
	epoch          time.Time
	recover        int // recovery ends when all before this is acknowledged; 0: none
	undo           [2]float64
	again          int       // retransmissions of this recovery that were not shown to be spurious
	reorder        int       // quarters of the least round trip, beyond one, that segments may be late
	widened        time.Time // when it last became one more

	srtt, least time.Duration
	lastSent    time.Time // of the newest segment that was delivered
	rto         uint64
	paced       time.Time
	pace        int  // bytes a second at most; 0: without limit
	most        int  // segments of the window; 0: without limit
	anew        bool // the congestion control has begun anew, and knows of no loss
	waiting     bool
}

// bulkPart is one segment.
type bulkPart struct {
	bulk  *Bulk
	seq   int
	at    time.Time // of the last transmission
	tries int
	done  bool
	late  bool // it was taken for lost, and arrived
}

// hiddenPart is a segment that is there, which no acknowledgement has told yet.
type hiddenPart struct {
	*bulkPart
	sentAt time.Time
}

// Bulk begins a transfer to another node.
func (h *Node) Bulk(to *Node) *Bulk {
	b := newBulk(h.Dial(to, 0).ends[0])
	b.begin()
	return b
}

func newBulk(e *tcpEnd) *Bulk {
	e.bulk = &Bulk{
		from: e.host, to: e.peer.host, key: e.key, ends: e,
		sent: make(map[int]*bulkPart), there: make(map[int]bool), cwnd: bulkFirst, ssthresh: math.Inf(1),
	}
	return e.bulk
}

// setWindow sets the congestion window, as the daemon has it done, and reports whether that is done.
func (b *Bulk) setWindow(w tcpassist.Window) bool {
	done := b.recover == 0 && int(b.cwnd) >= w.Least
	if done {
		b.cwnd, b.ssthresh, b.wmax, b.epoch = float64(w.Segments), float64(w.Segments), 0, time.Time{}
		b.anew = true
	}
	if done || w.Most == 0 {
		b.most = w.Most
	}
	if done || w.Pace == 0 || w.PaceAnyway {
		b.pace = w.Pace
	}
	return done
}

// begin waits for the handshake, and for what the other end asks with.
func (b *Bulk) begin() {
	if b.ends.open && b.ends.wanted >= b.ends.peer.written {
		b.push()
		return
	}
	b.from.net.After(time.Millisecond, b.begin)
}

// Fetch has another node send that many bytes, as whole segments, along a connection that this one opens.
func (h *Node) Fetch(from *Node, bytes int) *Bulk {
	b := newBulk(h.Dial(from, 100).ends[1])
	b.end = (bytes + bulkSegment - 1) / bulkSegment
	b.begin()
	return b
}

// IsDone reports whether all bytes of a Fetch are acknowledged.
func (b *Bulk) IsDone() bool { return b.end > 0 && b.delivered == b.end }

// hasMore reports whether a segment waits to be sent, or to be retransmitted.
func (b *Bulk) hasMore() bool { return len(b.lost) > 0 || b.end == 0 || b.next < b.end }

// Delivered returns how many bytes have arrived.
func (b *Bulk) Delivered() int { return b.delivered * bulkSegment }

func (b *Bulk) inFlight() (n int) { return len(b.sent) - len(b.lost) }

// push sends what window and pacing permit.
func (b *Bulk) push() {
	now := b.from.net.Now()
	for b.inFlight() < int(b.cwnd) && b.hasMore() {
		if wait := b.paced.Sub(now); wait > 0 {
			if !b.waiting {
				b.waiting = true
				b.from.net.After(wait, func() { b.waiting = false; b.push() })
			}
			return
		}
		n := 0
		for n < bulkBurst && b.inFlight() < int(b.cwnd) && b.hasMore() {
			b.transmit(now)
			n++
		}
		if b.srtt > 0 {
			gain := 1.2
			if b.cwnd < b.ssthresh {
				gain = 2
			}
			b.paced = now.Add(time.Duration(float64(n) / (gain * b.cwnd) * float64(b.srtt)))
			if b.pace > 0 {
				least := time.Duration(n*bulkSegment) * time.Second / time.Duration(b.pace)
				b.paced = now.Add(max(b.paced.Sub(now), least))
			}
		}
	}
}

// transmit sends the next segment, lost ones first.
func (b *Bulk) transmit(now time.Time) {
	var p *bulkPart
	if len(b.lost) > 0 {
		p = b.sent[b.lost[0]]
		b.lost = b.lost[1:]
	} else {
		p = &bulkPart{bulk: b, seq: b.next}
		b.sent[b.next] = p
		b.next++
	}
	p.at = now
	p.tries++
	b.order = append(b.order, p)
	b.ends.next = b.ends.unacked + uint32(b.inFlight()*tcpSegmentSize) // for the judgement of queues
	b.ends.srtt, b.ends.least = b.srtt, b.least
	sentAt := now
	s := &segment{from: b.ends, seq: uint32(p.seq * bulkSegment), arrives: func() { b.arrived(p, sentAt) }}
	b.from.plane.send(b.key, Datagram{Size: 32 + bulkSegment, segment: s})
	b.arm()
}

// arrived has a segment acknowledged: each is, with all before the gap, by a segment that takes what path the other end
// chooses. That tells of the segment itself, too, unless the programs withhold it.
func (b *Bulk) arrived(p *bulkPart, sentAt time.Time) {
	b.there[p.seq] = true
	for b.there[b.gap] {
		delete(b.there, b.gap)
		b.gap++
	}
	gap := b.gap
	s := &segment{from: b.ends.peer, ack: uint32(gap * bulkSegment), block: len(b.there) > 0}
	s.arrives = func() {
		told := func(h hiddenPart) bool {
			isBefore := s.withheld.Came && int32(uint32(h.seq*bulkSegment)-s.withheld.Newest) < 0
			return h.seq < gap || s.block && (!s.withheld.Is || isBefore)
		}
		if h := (hiddenPart{p, sentAt}); s.withheld.Is && !told(h) {
			b.hidden = append(b.hidden, h)
		} else {
			b.acked(p, sentAt)
		}
		for i := slices.IndexFunc(b.hidden, told); i >= 0; i = slices.IndexFunc(b.hidden, told) {
			h := b.hidden[i]
			b.hidden = slices.Delete(b.hidden, i, i+1)
			b.acked(h.bulkPart, h.sentAt)
		}
	}
	b.to.plane.send(ilnp.SessionKey{Local: b.key.Remote, Remote: b.key.Local}, Datagram{Size: 44, segment: s})
}

func (b *Bulk) acked(p *bulkPart, sentAt time.Time) {
	now := b.from.net.Now()
	late := slices.Contains(b.lost, p.seq) || sentAt.Before(p.at) || p.done
	if late && !p.late {
		p.late = true
		b.spurious()
	}
	if p.done {
		return
	}
	p.done = true
	b.delivered++
	delete(b.sent, p.seq)
	b.lost = slices.DeleteFunc(b.lost, func(s int) bool { return s == p.seq })
	rtt := now.Sub(sentAt)
	if b.srtt == 0 {
		b.srtt, b.least = rtt, rtt
	}
	b.srtt, b.least = b.srtt+(rtt-b.srtt)/8, min(b.least, rtt)
	if sentAt.After(b.lastSent) {
		b.lastSent = sentAt
	}
	b.detect(now)
	if b.recover > 0 && !slices.ContainsFunc(b.order, func(q *bulkPart) bool { return !q.done && q.seq < b.recover }) {
		b.recover = 0
	}
	if b.recover == 0 {
		b.grow(now, rtt)
	}
	b.arm()
	b.push()
}

// detect takes segments for lost that were sent so long before one that has arrived.
func (b *Bulk) detect(now time.Time) {
	wait := min(time.Duration(1+b.reorder)*b.least/4, b.srtt)
	keep := b.order[:0]
	for _, q := range b.order {
		if q.done || slices.Contains(b.lost, q.seq) {
			continue
		}
		if b.lastSent.Sub(q.at) > wait {
			b.lose(now, q)
			continue
		}
		keep = append(keep, q)
	}
	b.order = keep
}

func (b *Bulk) lose(now time.Time, q *bulkPart) {
	b.lost = append(b.lost, q.seq)
	if b.again++; b.recover > 0 {
		return
	}
	b.undo, b.again = [2]float64{b.cwnd, b.ssthresh}, 1
	b.wmax, b.epoch, b.anew = b.cwnd, time.Time{}, false
	b.cwnd = max(2, b.cwnd*cubicBeta)
	b.ssthresh, b.recover = b.cwnd, b.next
}

// spurious takes that a retransmission was not needed. When none was, the window is as before.
func (b *Bulk) spurious() {
	if now := b.from.net.Now(); now.Sub(b.widened) >= b.srtt {
		b.reorder, b.widened = b.reorder+1, now
	}
	if b.again--; b.again <= 0 && b.undo[0] > 0 {
		b.cwnd, b.ssthresh, b.recover = max(b.cwnd, b.undo[0]), max(b.ssthresh, b.undo[1]), 0
		b.undo = [2]float64{}
	}
}

// grow opens the window by one segment that arrived.
func (b *Bulk) grow(now time.Time, rtt time.Duration) {
	defer func() {
		if b.most > 0 {
			b.cwnd = min(b.cwnd, float64(b.most))
		}
	}()
	if b.cwnd < b.ssthresh {
		b.cwnd++
		if late := min(max(b.least/8, 4*time.Millisecond), 16*time.Millisecond); b.srtt > b.least+late && b.cwnd > 16 {
			b.ssthresh = b.cwnd
		}
		return
	}
	if b.epoch.IsZero() {
		b.epoch = now
		b.wmax = max(b.wmax, b.cwnd)
	}
	if b.anew { // by a twentieth in a round trip, as Linux has it
		b.cwnd += 1. / 20
	}
	t := now.Sub(b.epoch).Seconds() - math.Cbrt(b.wmax*(1-cubicBeta)/cubicC)
	target := cubicC*t*t*t + b.wmax
	if target > b.cwnd {
		b.cwnd += min((target-b.cwnd)/b.cwnd, 0.5)
	} else {
		b.cwnd += 0.01 / b.cwnd
	}
}

// probe sends the newest segment again, so that the other end says what it has (tail loss probe, RFC 8985 §7).
func (b *Bulk) probe() {
	p := b.sent[b.next-1]
	if p == nil || slices.Contains(b.lost, p.seq) {
		return
	}
	at := b.from.net.Now()
	s := &segment{from: b.ends, arrives: func() { b.arrived(p, at) }}
	p.at = at
	p.tries++
	b.from.plane.send(b.key, Datagram{Size: 32 + bulkSegment, segment: s})
}

// arm sets the retransmission time-out, and that after which a probe is sent.
func (b *Bulk) arm() {
	b.rto++
	set := b.rto
	b.from.net.After(2*b.srtt+10*time.Millisecond, func() {
		if set == b.rto && len(b.hidden) > 0 && b.recover == 0 {
			b.probe()
		}
	})
	b.from.net.After(max(2*b.srtt, 200*time.Millisecond)+200*time.Millisecond, func() {
		if set != b.rto || len(b.sent) == 0 {
			return
		}
		b.lost, b.order = nil, nil
		for s := range b.sent {
			b.lost = append(b.lost, s)
		}
		slices.Sort(b.lost)
		b.ssthresh, b.cwnd, b.recover, b.epoch = max(2, b.cwnd*cubicBeta), 1, b.next, time.Time{}
		b.push()
	})
}

// SetQueue limits what waits for the rate of a host on a link, in bytes; 0: unlimited.
func (h *Node) SetQueue(link roam.LinkID, bytes int) {
	if at := h.at(link); at != nil {
		at.queue = bytes
		at.set(at.access)
	}
}
