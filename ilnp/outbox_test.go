package ilnp

import (
	"testing"
	"time"
)

// Outputs come out in the order in which they were wanted, each one once.
func TestOutboxOrder(t *testing.T) {
	var o outbox
	for round := range 3 {
		o.emit(Release{Key: SessionKey{Local: 1}})
		o.notify(Event{Kind: ModeChanged})
		if got, ok := o.Poll(); !ok || got != (Release{Key: SessionKey{Local: 1}}) {
			t.Fatalf("round %d: %+v, %v", round, got, ok)
		}
		o.emit(Release{Key: SessionKey{Local: 2}}) // while it is drained
		if got, _ := o.Poll(); got.(Notify).Event.Kind != ModeChanged {
			t.Fatalf("round %d: %+v", round, got)
		}
		if got, _ := o.Poll(); got != (Release{Key: SessionKey{Local: 2}}) {
			t.Fatalf("round %d: %+v", round, got)
		}
		if got, ok := o.Poll(); ok {
			t.Fatalf("round %d: %+v is left", round, got)
		}
	}
	if cap(o.out) > 8 {
		t.Errorf("room for %d outputs is kept", cap(o.out))
	}
}

// Refused input is counted each time, and told of once a second for each reason.
func TestOutboxRefusals(t *testing.T) {
	var o outbox
	for i := range 25 {
		now := epoch.Add(time.Duration(i) * 100 * time.Millisecond)
		o.refuse(now, theKey, reasonToken)
		if i == 0 {
			o.refuse(now, theKey, reasonQuote)
		}
	}
	told := map[string]int{}
	for next, ok := o.Poll(); ok; next, ok = o.Poll() {
		told[next.(Notify).Event.Reason]++
	}
	if told[reasonToken] != 3 || told[reasonQuote] != 1 {
		t.Errorf("told %v in 2.4 s", told)
	}
	if counts := o.RejectedInput(); counts[reasonToken] != 25 || counts[reasonQuote] != 1 || len(counts) != 2 {
		t.Errorf("counted %v", counts)
	}
}
