package sim

import (
	"slices"
	"testing"
	"time"
)

func TestEventsComeInOrder(t *testing.T) {
	n := New(1)
	var got []int
	for _, v := range []int{30, 10, 20, 11, 0, 12, 13} { // 11 to 13 at one time
		n.After(time.Duration(v/10*10)*time.Millisecond, func() { got = append(got, v) })
	}
	n.After(10*time.Millisecond, func() { n.After(5*time.Millisecond, func() { got = append(got, 15) }) })
	n.Run(25 * time.Millisecond)
	if want := []int{0, 10, 11, 12, 13, 15, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n.Elapsed() != 25*time.Millisecond {
		t.Errorf("%v passed, want 25ms", n.Elapsed())
	}
	if n.RunUntil(time.Millisecond, func() bool { return len(got) == 8 }) {
		t.Error("an event of the future has happened")
	}
	if !n.RunUntil(time.Hour, func() bool { return len(got) == 8 }) || n.Elapsed() != 30*time.Millisecond {
		t.Errorf("condition met at %v, want 30ms", n.Elapsed())
	}
}
