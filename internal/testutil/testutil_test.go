package testutil

import (
	"testing"
	"time"
)

func TestWaitSeesALateCondition(t *testing.T) {
	looks := 0
	if !Wait(time.Second, func() bool { looks++; return looks == 3 }) {
		t.Fatal("condition that became true was not seen")
	}
}

func TestWaitGivesUp(t *testing.T) {
	if Wait(10*time.Millisecond, func() bool { return false }) {
		t.Fatal("condition that never was true was reported")
	}
}

func TestNeedSkipsByName(t *testing.T) {
	t.Setenv(ExpectAll, "")
	var skipped bool
	t.Run("inner", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Need(t, "/no/such/file")
	})
	if !skipped {
		t.Fatal("missing file did not skip the test")
	}
}

func TestHas(t *testing.T) {
	for name, want := range map[string]bool{
		"/proc/self":        true,
		"/no/such/file":     false,
		"sh":                true,
		"no-such-tool-here": false,
	} {
		if got := has(name); got != want {
			t.Errorf("has(%q) = %v, want %v", name, got, want)
		}
	}
}
