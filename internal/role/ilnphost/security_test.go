package ilnphost

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/role/ilnphost/engine"
	"roam/wire/ip6"
)

// Forgeries are logged by reason and number, with one of them in full and not
// packet by packet, and nothing else is (RFC 6741 §11.1).
func TestForgeriesAreLogged(t *testing.T) {
	var log bytes.Buffer
	h := &Host{log: slog.New(slog.NewTextHandler(&log, nil)), security: quota{most: securityLines, period: securityTime}}
	count := func(n uint64) []dataplane.Counter {
		return []dataplane.Counter{
			{Name: "rx_packets", Value: 1000 * n}, {Name: "drop_no_path", Value: n},
			{Name: "drop_two_nonces", Meaning: "more than one nonce", Value: 3 * n}, {Name: engine.ForgedError, Value: n},
		}
	}
	now := time.Unix(1000, 0)
	last := func(counter string) []any {
		if counter == engine.ForgedError {
			return nil
		}
		return describe(dataplane.Refusal{
			At: now, Remote: roam.ILV{L64: 0x2001_0db8_0000_000a, NID: 7}, Local: roam.ILV{L64: 0x2001_0db8_0000_000b, NID: 8},
			Proto: ip6.TCP, SrcPort: 4711, DstPort: 22,
		}, "wlan0")
	}
	h.tellRefused(now, count(5), last)
	if log.Len() != 0 {
		t.Errorf("what was counted before the start is told: %s", &log)
	}
	h.tellRefused(now, count(7), last)
	h.tellRefused(now, count(7), last)
	out := log.String()
	if n := strings.Count(out, "\n"); n != 2 {
		t.Errorf("%d lines for two reasons that have grown:\n%s", n, out)
	}
	for _, want := range []string{"security: packets were refused", "drop_two_nonces", "packets=6", "without its nonce", "packets=2",
		"one_at=1970-01-01T00:16:40Z", "interface=wlan0", "source=2001:db8:0:a::7", "destination=2001:db8:0:b::8", "protocol=6",
		"source_port=4711", "destination_port=22"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	log.Reset()
	for n := uint64(8); n < 500; n++ {
		h.tellRefused(now, count(n), last)
	}
	if n := strings.Count(log.String(), "\n"); n > securityLines {
		t.Errorf("a flood makes %d lines, want %d at most", n, securityLines)
	}
}

// What is no sign of an attack is not logged as one.
func TestFaultsAreNotSecurity(t *testing.T) {
	var log bytes.Buffer
	h := &Host{log: slog.New(slog.NewTextHandler(&log, nil)), security: quota{most: securityLines, period: securityTime},
		chatter: quota{most: securityLines, period: securityTime}}
	for _, c := range []struct {
		reason string
		want   bool
	}{{"malformed packet", false}, {"acknowledgement of an older update", false}, {"wrong nonce", true}} {
		log.Reset()
		ev := ilnp.Event{Time: time.Unix(1000, 0), Kind: ilnp.Refused, Key: ilnp.SessionKey{Local: 1, Remote: 7}, Reason: c.reason}
		h.logRefused(ev, control.Event{Kind: "refused", Peer: 7, PeerName: "server"})
		out := log.String()
		if strings.Contains(out, "security") != c.want || !strings.Contains(out, "peer=server") || !strings.Contains(out, c.reason) {
			t.Errorf("%s: %s", c.reason, out)
		}
	}
}
