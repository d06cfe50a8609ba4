package linkem

import (
	"errors"
	"fmt"
	"time"
)

// Params are the properties of one direction of a link. The zero value is a
// perfect wire. A frame passes through a queue, then the transmitter (Rate),
// then the wire (Loss, Delay, Jitter), in that order.
type Params struct {
	// Delay is the time a frame spends on the wire.
	Delay time.Duration
	// Jitter varies Delay uniformly by up to this much in either direction, not below zero.
	// Frames keep their order unless Reorder is set: a frame that would overtake waits.
	Jitter time.Duration
	// Reorder lets a frame overtake another because of Jitter.
	Reorder bool
	// Loss is the probability, 0 to 1, that the wire loses a frame. Losses
	// are independent of each other.
	Loss float64
	// Duplicate is the probability, 0 to 1, that the wire delivers a frame twice, if it
	// does not lose it. Each copy has its own Jitter.
	Duplicate float64
	// Rate is the speed of the transmitter in bits per second, counted over
	// Ethernet frames without preamble and checksum; 0 is no limit.
	Rate int64
	// QueuePackets and QueueBytes bound the frames that wait for the transmitter, which
	// drops a frame that would exceed either. With both 0 the bound is DefaultQueue
	// packets. Without a Rate no frame waits.
	QueuePackets int
	QueueBytes   int
	// ControlFirst lets frames of class CS6 (RFC 4594 §3.1, network control) leave before
	// all other queued ones. They share the queue's bound.
	ControlFirst bool
	// Cut makes the direction lose everything unnoticed. Both ends notice Link.Down.
	Cut bool
	// Seed starts the random numbers of Loss, Duplicate and Jitter; the same seed gives
	// the same decisions for the same sequence of frames. A change of
	// parameters at run time starts them again only if it changes Seed.
	Seed uint64
}

// DefaultQueue is the bound of a queue, in packets, where none is given.
const DefaultQueue = 1000

// ErrParams is wrapped by errors about impossible properties.
var ErrParams = errors.New("impossible property of a link")

// Validate reports the first property that is out of range.
func (p Params) Validate() error {
	switch {
	case p.Delay < 0:
		return fmt.Errorf("%w: delay %v", ErrParams, p.Delay)
	case p.Jitter < 0:
		return fmt.Errorf("%w: jitter %v", ErrParams, p.Jitter)
	case !(p.Loss >= 0 && p.Loss <= 1): // also NaN
		return fmt.Errorf("%w: loss %v", ErrParams, p.Loss)
	case !(p.Duplicate >= 0 && p.Duplicate <= 1):
		return fmt.Errorf("%w: duplicate %v", ErrParams, p.Duplicate)
	case p.Rate < 0:
		return fmt.Errorf("%w: rate %d", ErrParams, p.Rate)
	case p.QueuePackets < 0 || p.QueueBytes < 0:
		return fmt.Errorf("%w: queue of %d packets, %d bytes", ErrParams, p.QueuePackets, p.QueueBytes)
	}
	return nil
}

// whole reports whether the direction may carry a GSO frame as one. Where
// frames are counted, timed or lost one by one, each must be a packet as it
// would be on a wire.
func (p Params) whole() bool { return p.Rate == 0 && p.Loss == 0 && p.Duplicate == 0 }

// Counters count the frames of one direction since the link was made. A GSO frame counts
// once.
type Counters struct {
	Frames, Bytes       uint64 // accepted from the sending device
	Delivered           uint64 // given to the receiving device
	DeliveredBytes      uint64
	Duplicated          uint64 // delivered once more than they were sent
	DropQueue           uint64 // did not fit into the queue
	DropLoss            uint64 // lost on the wire by chance
	DropDown            uint64 // sent or in flight while the link was cut, or the receiver down
	DropError           uint64 // refused by the receiving device
	QueueNow, FlightNow int    // frames waiting, and on the wire
}
