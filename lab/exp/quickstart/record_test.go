package quickstart

import (
	"testing"
	"time"
)

// A recording has the lines of its span, with their times in it.
func TestRecordingHasItsSpan(t *testing.T) {
	at := time.Unix(1000, 0)
	r := &recorder{}
	for i, text := range []string{"before", "first", "second", "after"} {
		r.lines = append(r.lines, printed{at.Add(time.Duration(i) * time.Second), text})
	}
	got := r.between(at.Add(time.Second), at.Add(3*time.Second))
	if len(got.Lines) != 2 || got.Lines[0].Text != "first" || got.Lines[0].T != 0 || got.Lines[1].T != 1 {
		t.Errorf("lines %+v", got.Lines)
	}
}
