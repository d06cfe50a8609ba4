package multipath

import (
	"errors"
	"time"
)

// Traffic is a count of data along one direction of a path.
type Traffic struct{ Packets, Bytes uint64 }

// since returns what came after an older count.
func (t Traffic) since(old Traffic) Traffic {
	return Traffic{t.Packets - old.Packets, t.Bytes - old.Bytes}
}

// runsBack reports whether a count is less than an older one.
func (t Traffic) runsBack(old Traffic) bool { return t.Packets < old.Packets || t.Bytes < old.Bytes }

// PathReport is what the answer to one probe says of a path: what each end had sent along it,
// and what of that the other end had received. Counters of one path only ever grow, until
// their end begins anew with another epoch.
type PathReport struct {
	Sent  time.Time // when the probe left this host,
	Clock uint32    // when it reached the other end, in µs of that one's clock, modulo 2^32,
	Came  time.Time // and when its answer came

	Epoch    uint32 // of the other end's counters
	OwnEpoch uint32 // of this host's

	Left    Traffic // sent by this host when the probe left,
	LeftNow Traffic // and when the answer came: no more can have arrived
	Arrived Traffic // of that, received by the other end when the probe arrived

	PeerLeft Traffic // sent by the other end when it answered
	Got      Traffic // of that, received by this host when the answer came

	// Inexact says that the two ends count different things, such as frames before and after
	// segmentation: rates follow from such counts, but no loss unless the packets were alike.
	Inexact bool
}

// Errors of HandleReport. A report that is refused changes nothing that is known, but what
// follows is judged anew: its sender may have lost its counters, or may lie.
var (
	ErrReportBack  = errors.New("a count is less than an earlier one")
	ErrReportAbove = errors.New("more is reported as received than was sent")
	ErrReportClock = errors.New("the time of arrival does not lie between probe and answer")
)

// Life is whether data get through in one direction of a path.
type Life uint8

// The values of Life.
const (
	LifeUnknown Life = iota // too little was sent, or nothing was reported
	Lives                   // what was sent of late has arrived, at least in part
	Dead                    // several packets were sent and none has arrived, while reports did
)

// String returns the value in lower case.
func (l Life) String() string {
	if names := [...]string{"unknown", "lives", "dead"}; int(l) < len(names) {
		return names[l]
	}
	return "unknown"
}

// Direction is what is known of one direction of a path. All rates are bytes of data a second.
type Direction struct {
	At   time.Time // of the last report that counted; zero: nothing is known
	Sent float64   // rate at which the sender has sent of late (RateOver),
	Rate float64   // and at which that has arrived
	Most float64   // greatest Rate of the last ten to twenty seconds

	Overflows bool // packets of the last reports were lost at once, as a queue loses them that overflows

	Carries float64 // rate at which packets left the last queue, with headers of Ethernet, IPv6 and TCP; 0: there is none

	Loss      float64 // share of the packets of the last LossOver that did not arrive
	LossKnown bool    // enough packets were sent, and counted alike, for Loss to mean something

	Queue time.Duration // how much longer the last probe was under way than the fastest of the last minute or so
	Life  Life

	Missing uint64        // packets sent since the last report by which something had arrived,
	Still   time.Duration // and the time since a report first showed that, by the clock of the receiving end
}

// PathState is what is known of one path.
type PathState struct {
	RTT   time.Duration // of the last probe that was answered; 0: unknown
	Least time.Duration // the least of the last one to two minutes
	Out   Direction     // from this host
	In    Direction     // to this host
}

// Spans over which an Estimator looks back.
const (
	RateOver = 200 * time.Millisecond // at least
	LossOver = 5 * time.Second        // at most
	mostOver = 10 * time.Second       // of each of two windows: the greatest rate of both counts

	carriesLeast = 10 * time.Millisecond  // for which each probe has met a queue,
	carriesMost  = 400 * time.Millisecond // with so much between two of them at most,
	carriesQueue = 15 * time.Millisecond  // that is so long,
	carriesOf    = 16                     // and packets that came meanwhile

	overflowLeast = 32  // packets that a queue loses when it overflows,
	overflowPart  = 0.1 // and the part of those that were sent, of which as many arrive: else the path is dead
)
