package main

import (
	"testing"
	"time"
)

func TestMillis(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "-", 0.123: "0.12 ms", 9.987: "9.99 ms", 20.149: "20.1 ms", 150.4: "150 ms", 9999: "9999 ms", 12345: "12.3 s",
	} {
		if got := millis(ms); got != want {
			t.Errorf("millis(%v) = %q, want %q", ms, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 400 * time.Millisecond: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s",
		20*time.Minute + 5*time.Second: "20 min", 3*time.Hour + 12*time.Minute: "3 h 12 min", 50 * time.Hour: "2 d 2 h",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1400: "1.4 kB", 2_800_000_000: "2.8 GB",
		1 << 63: "9.2 EB"} {
		if got := nbytes(n); got != want {
			t.Errorf("bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999_999: "999999", 1_234_567: "1.2 M", 14_880_000: "14.9 M",
		1 << 63: "9.2 E"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestLeft(t *testing.T) {
	zero, some := 0.0, 90.0
	if left(nil) != "no limit" || left(&zero) != "over" || left(&some) != "1 min 30 s" {
		t.Errorf("left: %q, %q, %q", left(nil), left(&zero), left(&some))
	}
}
