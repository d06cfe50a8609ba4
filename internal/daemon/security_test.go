package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"roam/internal/dataplane"
	"roam/internal/engine"
)

// Forgeries are logged by reason and number, not packet by packet, and nothing
// else is (RFC 6741 §11.1).
func TestForgeriesAreLogged(t *testing.T) {
	var log bytes.Buffer
	d := &Daemon{opts: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, security: quota{most: securityLines, period: securityTime}}
	count := func(n uint64) []dataplane.Counter {
		return []dataplane.Counter{
			{Name: "rx_packets", Value: 1000 * n}, {Name: "drop_no_path", Value: n},
			{Name: "drop_two_nonces", Meaning: "more than one nonce", Value: 3 * n}, {Name: engine.ForgedError, Value: n},
		}
	}
	now := time.Unix(1000, 0)
	d.tellRefused(now, count(5))
	if log.Len() != 0 {
		t.Errorf("what was counted before the start is told: %s", &log)
	}
	d.tellRefused(now, count(7))
	d.tellRefused(now, count(7))
	out := log.String()
	if n := strings.Count(out, "\n"); n != 2 {
		t.Errorf("%d lines for two reasons that have grown:\n%s", n, out)
	}
	for _, want := range []string{"security: packets were refused", "drop_two_nonces", "packets=6", "without its nonce", "packets=2"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	log.Reset()
	for n := uint64(8); n < 500; n++ {
		d.tellRefused(now, count(n))
	}
	if n := strings.Count(log.String(), "\n"); n > securityLines {
		t.Errorf("a flood makes %d lines, want %d at most", n, securityLines)
	}
}
