package ilnp

import "time"

// outbox holds what the core wants done until Poll takes it, and counts the input that
// was refused.
type outbox struct {
	out      []Output
	head     int      // of out: what Poll has taken is before it
	rest     []func() // what is left to do of the input once the outputs so far were carried out, which a peer awaits
	rejected map[string]rejection
}

// Poll returns the next thing to do; false: nothing more until the next Handle.
func (o *outbox) Poll() (Output, bool) {
	for o.head == len(o.out) {
		o.out, o.head = o.out[:0], 0
		if !o.goOn() {
			return nil, false
		}
	}
	next := o.out[o.head]
	o.out[o.head] = nil
	o.head++
	return next, true
}

// goOn does the next thing that is left to do of earlier input, and reports whether there was one.
func (o *outbox) goOn() bool {
	if len(o.rest) == 0 {
		return false
	}
	f := o.rest[0]
	o.rest = o.rest[1:]
	f()
	return true
}

// finish does all that is left to do of earlier input: new input meets no session that is half made.
func (o *outbox) finish() {
	for o.goOn() {
	}
}

func (o *outbox) emit(next Output) { o.out = append(o.out, next) }

func (o *outbox) notify(e Event) { o.emit(Notify{Event: e}) }

// refusedEvery limits the events about refused input, by reason: a flood is
// counted, not told packet by packet (RFC 6741 §11.1 allows the limit).
const refusedEvery = time.Second

type rejection struct {
	count uint64
	told  time.Time
}

// refuse counts bad input and tells of it.
func (o *outbox) refuse(now time.Time, key SessionKey, reason string) {
	r := o.rejected[reason]
	r.count++
	if r.told.IsZero() || now.Sub(r.told) >= refusedEvery {
		r.told = now
		o.notify(Event{Time: now, Kind: Refused, Key: key, Reason: reason})
	}
	if o.rejected == nil {
		o.rejected = make(map[string]rejection)
	}
	o.rejected[reason] = r
}

// RejectedInput returns how often input was refused, by reason.
func (o *outbox) RejectedInput() RejectedInput {
	counts := make(RejectedInput, len(o.rejected))
	for reason, r := range o.rejected {
		counts[reason] = r.count
	}
	return counts
}
