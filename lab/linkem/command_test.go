package linkem

import (
	"strings"
	"testing"
	"time"
)

func TestParseParams(t *testing.T) {
	ab, ba, err := ParseParams(strings.Fields("delay=20ms jitter=1.5ms loss=1% ba:loss=0.25 duplicate=0.5% rate=10mbit "+
		"queue=64kB ab:queue=100 reorder=true ab:cut=true seed=7"), Params{}, Params{})
	if err != nil {
		t.Fatal(err)
	}
	want := Params{
		Delay:        20 * ms,
		Jitter:       1500 * time.Microsecond,
		Loss:         0.01,
		Duplicate:    0.005,
		Rate:         10e6,
		QueuePackets: 100,
		Reorder:      true,
		Cut:          true,
		Seed:         7,
	}
	if ab != want {
		t.Errorf("a to b: %+v, want %+v", ab, want)
	}
	want.Loss, want.QueuePackets, want.QueueBytes, want.Cut = 0.25, 0, 64000, false
	if ba != want {
		t.Errorf("b to a: %+v, want %+v", ba, want)
	}
	// Unnamed settings keep their values.
	if again, _, err := ParseParams([]string{"rate=0"}, ab, ba); err != nil || again.Delay != ab.Delay || again.Rate != 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestParseParamsRefuses(t *testing.T) {
	for _, s := range []string{"", "delay", "delay=20", "delay=-1ms", "loss=200%", "loss=x", "rate=fast", "queue=1.5",
		"speed=1", "both:delay=1ms", "cut=perhaps"} {
		if _, _, err := ParseParams(strings.Fields(s), Params{}, Params{}); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestParseChange(t *testing.T) {
	c, err := ParseChange("1.5s  ba:delay=3ms loss=1%")
	if err != nil || c.At != 1500*ms || c.Command != "ba:delay=3ms loss=1%" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, s := range []string{"", "down", "5 down", "-1s down", "1s", "1s sideways"} {
		if _, err := ParseChange(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}
