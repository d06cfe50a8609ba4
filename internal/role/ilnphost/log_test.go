package ilnphost

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/wire/ip6"
)

// keysOf returns the keys of a line of the log in JSON, those that stand there twice, twice.
func keysOf(t *testing.T, line []byte) (keys []string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(line))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value any
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// TestLogHasEachKeyOnce: whatever a line says, a reader of JSON gets all of it; times have their
// unit in the key, locators the form that the commands show.
func TestLogHasEachKeyOnce(t *testing.T) {
	at := []roam.LinkLocator{{Link: 1, L64: 0x2001_0db8_0001_0001}, {Link: 2, L64: 0x2001_0db8_0002_0001}}
	ev := ilnp.Event{
		Time: time.Unix(1000, 0), Kind: ilnp.UpdateReceived, Key: ilnp.SessionKey{Local: 1, Remote: 2}, From: at, To: at,
		Locators: []roam.L64{0x2001_0db8_0001_0001, 0x2001_0db8_0002_0001}, RTT: 20 * time.Millisecond, Duration: time.Second,
		Reason: "a reason",
	}
	shown := control.Event{
		Time: ev.Time, Kind: "update-received", Peer: 2, PeerName: "server",
		From: []control.LinkLocator{{Link: "wlan0", L64: at[0].L64}}, To: []control.LinkLocator{{Link: "wwan0",
			L64: at[1].L64}},
	}
	var log bytes.Buffer
	h := &Host{
		log: slog.New(slog.NewJSONHandler(&log, nil)), security: quota{most: securityLines, period: securityTime},
		chatter: quota{most: 10, period: time.Minute},
	}
	h.logEvent(slog.LevelInfo, ev, shown)
	h.logRefused(ev, shown)
	shown.DurationMS = 46.712345
	h.logMove(shown)
	h.logSecurity(ev.Time, "packets were refused", append([]any{"counter", "c", "meaning", "m", "packets", 3},
		describe(dataplane.Refusal{At: ev.Time, Proto: ip6.TCP, SrcPort: 1, DstPort: 2}, "wlan0")...)...)
	lines := bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n"))
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), &log)
	}
	for _, line := range lines {
		seen := map[string]bool{}
		for _, key := range keysOf(t, line) {
			if seen[key] {
				t.Errorf("%q twice: %s", key, line)
			}
			seen[key] = true
		}
	}
	for _, want := range []string{
		`"locators":"2001:db8:1:1::/64, 2001:db8:2:1::/64"`, `"rtt_ms":20`, `"duration_ms":1000`, `"from":"wlan0 2001:db8:1:1::/64"`,
		`"nid":"0000:0000:0000:0002"`,
	} {
		if !strings.Contains(string(lines[0]), want) {
			t.Errorf("lacks %s: %s", want, lines[0])
		}
	}
	if !strings.Contains(string(lines[2]), `"duration_ms":46.71,`) {
		t.Errorf("a move: %s", lines[2])
	}
}
