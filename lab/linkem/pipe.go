package linkem

import (
	"bytes"
	"math"
	"math/rand/v2"
	"time"
)

// never is the due time of an empty pipe.
const never = time.Duration(math.MaxInt64)

// maxFlight bounds the bytes on the wire of one direction: 4 s at 1 Gb/s. A
// faster and longer wire needs more memory than an emulator should take.
const maxFlight = 512 << 20

// pipe is one direction of a link in virtual time: the arithmetic of queue, transmitter and
// wire, without effects. Times count from an epoch of the caller. push adds frames, pop
// returns them in due order. Calls may be late: the transmitter decides for the time when a
// frame was due.
type pipe struct {
	p            Params
	loss, jitter *rand.Rand // separate, so that one does not shift the other
	dup          *rand.Rand
	free         func([]byte)
	lost         func([]byte)        // called with each frame in DropLoss or DropDown; must not keep it
	spilled      func([]byte)        // called with each frame in DropQueue or DropError; must not keep it
	clone        func([]byte) []byte // copies a buffer into one for free

	control, data ring          // wait for the transmitter
	queued        int           // bytes in both
	busy          time.Duration // when the transmitter is free again
	wire          flight
	flying        int           // bytes on the wire
	last          time.Duration // latest due time given so far
	c             Counters
}

// frame is a frame with the time that concerns it: of arrival while it waits,
// of delivery while it flies.
type frame struct {
	buf  []byte // as read from the device
	size int    // bytes of the Ethernet frame
	at   time.Duration
	seq  uint64 // keeps frames of the same due time in order
}

// newPipe makes an idle pipe. free takes back the buffer of a frame that is
// dropped.
func newPipe(p Params, free func([]byte)) *pipe {
	q := &pipe{p: p, free: free, lost: func([]byte) {}, spilled: func([]byte) {}, clone: bytes.Clone}
	q.seed()
	return q
}

func (q *pipe) seed() {
	q.loss = rand.New(rand.NewPCG(q.p.Seed, 1))
	q.jitter = rand.New(rand.NewPCG(q.p.Seed, 2))
	q.dup = rand.New(rand.NewPCG(q.p.Seed, 3))
}

// set changes the properties. Frames on the wire keep their due time, queued frames are
// transmitted at the new rate; a cut drops both.
func (q *pipe) set(now time.Duration, p Params) {
	q.advance(now)
	reseed := p.Seed != q.p.Seed
	q.p = p
	if reseed {
		q.seed()
	}
	if p.Cut {
		q.flush()
	}
}

// idle reports whether a frame would pass at once. Then the caller may deliver it itself,
// after calling lose.
func (q *pipe) idle() bool {
	return q.p.Delay == 0 && q.p.Jitter == 0 && q.p.Rate == 0 && q.p.Duplicate == 0 && !q.p.Cut &&
		q.waiting() == 0 && q.wire.len() == 0
}

// count takes note of a frame from the sending device.
func (q *pipe) count(size int) {
	q.c.Frames++
	q.c.Bytes += uint64(size)
}

// lose decides by chance whether the wire loses the next frame.
func (q *pipe) lose(buf []byte) bool {
	if q.p.Loss == 0 || q.loss.Float64() >= q.p.Loss {
		return false
	}
	q.c.DropLoss++
	q.lost(buf)
	return true
}

// push adds a frame of size bytes that arrives now. The pipe owns buf until pop returns it
// or free gets it.
func (q *pipe) push(now time.Duration, buf []byte, size int, control bool) {
	q.count(size)
	if q.p.Cut {
		q.drop(buf)
		return
	}
	q.advance(now)
	f := frame{buf: buf, size: size, at: now}
	switch {
	case q.p.Rate == 0 && q.waiting() == 0:
		q.launch(now, f)
	case q.full(size):
		q.c.DropQueue++
		q.spilled(buf)
		q.free(buf)
	default:
		if control && q.p.ControlFirst {
			q.control.push(f)
		} else {
			q.data.push(f)
		}
		q.queued += size
		q.advance(now) // an idle transmitter begins at once
	}
}

// full reports whether the queue cannot hold size more bytes. It always holds one frame:
// otherwise a bound below a frame's size would stop the link.
func (q *pipe) full(size int) bool {
	packets, nbytes := q.p.QueuePackets, q.p.QueueBytes
	if packets == 0 && nbytes == 0 {
		packets = DefaultQueue
	}
	if q.waiting() == 0 {
		return false
	}
	return packets > 0 && q.waiting() >= packets || nbytes > 0 && q.queued+size > nbytes
}

func (q *pipe) waiting() int { return q.control.len() + q.data.len() }

// advance transmits every frame whose turn is now or earlier.
func (q *pipe) advance(now time.Duration) {
	for q.waiting() > 0 && q.busy <= now {
		from := &q.control
		if from.len() == 0 {
			from = &q.data
		}
		f := from.pop()
		q.queued -= f.size
		q.busy = max(q.busy, f.at) + q.transmit(f.size)
		q.launch(q.busy, f)
	}
}

// transmit is the time that size bytes take at the rate.
func (q *pipe) transmit(size int) time.Duration {
	if q.p.Rate == 0 {
		return 0
	}
	return time.Duration(float64(size) * 8 * float64(time.Second) / float64(q.p.Rate))
}

// launch puts a frame on the wire at a moment that may lie ahead.
func (q *pipe) launch(at time.Duration, f frame) {
	if q.lose(f.buf) {
		q.free(f.buf)
		return
	}
	if q.p.Duplicate > 0 && q.dup.Float64() < q.p.Duplicate {
		q.c.Duplicated++
		dup := f
		dup.buf = q.clone(f.buf)
		q.fly(at, dup)
	}
	q.fly(at, f)
}

// fly gives a frame that is not lost its time of delivery.
func (q *pipe) fly(at time.Duration, f frame) {
	if q.flying+len(f.buf) > maxFlight {
		q.c.DropQueue++
		q.free(f.buf)
		return
	}
	d := q.p.Delay
	if j := q.p.Jitter; j > 0 {
		d = max(0, d-j+time.Duration(q.jitter.Int64N(2*int64(j)+1)))
	}
	f.at = at + d
	if !q.p.Reorder {
		f.at = max(f.at, q.last)
	}
	q.last = max(q.last, f.at)
	q.flying += len(f.buf)
	q.wire.push(f)
}

// next returns the time of the next call of pop, or never. It may be early for a frame that
// still waits for the transmitter, but is never late.
func (q *pipe) next() time.Duration {
	t := never
	if q.wire.len() > 0 {
		t = q.wire.head().at
	}
	if q.waiting() > 0 {
		t = min(t, q.busy+max(0, q.p.Delay-q.p.Jitter))
	}
	return t
}

// pop returns the next frame that is due by now. The caller owns its buffer.
func (q *pipe) pop(now time.Duration) (frame, bool) {
	q.advance(now)
	if q.wire.len() == 0 || q.wire.head().at > now {
		return frame{}, false
	}
	f := q.wire.pop()
	q.flying -= len(f.buf)
	return f, true
}

// drop loses a frame to a cut.
func (q *pipe) drop(buf []byte) {
	q.c.DropDown++
	q.lost(buf)
	q.free(buf)
}

// flush drops all that waits and flies.
func (q *pipe) flush() {
	for q.control.len() > 0 {
		q.drop(q.control.pop().buf)
	}
	for q.data.len() > 0 {
		q.drop(q.data.pop().buf)
	}
	for q.wire.len() > 0 {
		q.drop(q.wire.pop().buf)
	}
	// The transmitter drops its current frame, and no frame on the wire is left that a
	// later one must follow.
	q.queued, q.flying, q.busy, q.last = 0, 0, 0, 0
}
