package metrics

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func snapshot() Snapshot {
	h := &Histogram{}
	for _, d := range []time.Duration{500 * time.Microsecond, 20 * time.Millisecond,
		20*time.Millisecond + 1, time.Minute} {
		h.Observe(d)
	}
	return Snapshot{
		Version: `1.2 "x"`, NID: "0011:22ff:0000:0001", Mode: "soft", Attach: "tcx", Adopted: true,
		StartSeconds: 1772366400.5, Starts: 2, Sessions: map[string]uint64{"established": 3, "plain": 0}, Dead: 1,
		Locators: []Locator{{Link: "wlan0", L64: "2001:db8:1:1::/64", State: "active"}},
		Uplinks:  []Uplink{{Link: "wlan0", RxPackets: 1, RxBytes: 1500, TxPackets: 2, TxBytes: 3000}},
		Paths: []Paths{
			{Link: "wlan0", InUse: 3, Avoided: 1, RTT: 0.025, Least: 0.02, OutRate: 1e6, OutLoss: 0.01},
			{Link: "wwan0", Left: 2},
		},
		Handoffs:  map[string]uint64{"new locator": 4},
		UpdateRTT: h, UpdatesSent: 9, SkippedLines: 2,
		Counters: []Counter{{Name: "drop_wrong_nonce", Meaning: `a\b`, Value: 12}},
		Refused:  []Counter{{Name: "core_x", Meaning: "wrong nonce", Value: 7}},
	}
}

func write(t *testing.T, s Snapshot) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	text := write(t, snapshot())
	for _, want := range []string{
		`roam_info{version="1.2 \"x\"",nid="0011:22ff:0000:0001",mode="soft",attach="tcx"} 1`,
		"roam_start_time_seconds 1.7723664005e+09",
		"# TYPE roam_starts_total counter\nroam_starts_total 2",
		`roam_sessions{state="established"} 3`, `roam_sessions{state="plain"} 0`,
		`roam_locator{link="wlan0",l64="2001:db8:1:1::/64",state="active",disabled="false"} 1`,
		`roam_handoffs_total{trigger="new locator"} 4`,
		`roam_mode{mode="soft"} 1`, `roam_mode{mode="duality"} 0`,
		`roam_uplink_packets_total{link="wlan0",direction="in"} 1`,
		`roam_uplink_packets_total{link="wlan0",direction="out"} 2`,
		`roam_uplink_bytes_total{link="wlan0",direction="in"} 1500`,
		`roam_uplink_bytes_total{link="wlan0",direction="out"} 3000`,
		`roam_paths{link="wlan0",state="in use"} 3`, `roam_paths{link="wlan0",state="avoided"} 1`,
		`roam_paths{link="wwan0",state="left"} 2`,
		"# TYPE roam_path_rtt_seconds gauge\nroam_path_rtt_seconds{link=\"wlan0\"} 0.025",
		`roam_path_least_rtt_seconds{link="wlan0"} 0.02`,
		`roam_path_bytes_per_second{link="wlan0",direction="out"} 1e+06`,
		`roam_path_loss_ratio{link="wlan0",direction="out"} 0.01`, `roam_path_loss_ratio{link="wlan0",direction="in"} 0`,
		`roam_update_rtt_seconds_bucket{le="0.001"} 1`,
		`roam_update_rtt_seconds_bucket{le="0.02"} 2`,
		`roam_update_rtt_seconds_bucket{le="0.05"} 3`,
		`roam_update_rtt_seconds_bucket{le="10"} 3`,
		`roam_update_rtt_seconds_bucket{le="+Inf"} 4`,
		"roam_update_rtt_seconds_count 4",
		"roam_handoff_seconds_count 0",
		"# HELP roam_drop_wrong_nonce_total a\\\\b\n# TYPE roam_drop_wrong_nonce_total " +
			"counter\nroam_drop_wrong_nonce_total 12",
		"# TYPE roam_skipped_lines gauge\nroam_skipped_lines 2",
		`roam_refused_total{reason="wrong nonce"} 7`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("lacks %q in\n%s", want, text)
		}
	}
	families := regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(text, -1)
	seen := make(map[string]bool)
	for _, f := range families {
		if seen[f[1]] {
			t.Errorf("family %s is there twice", f[1])
		}
		seen[f[1]] = true
	}
}

// TestEveryLineHasTheForm holds the text to the grammar of the format.
func TestEveryLineHasTheForm(t *testing.T) {
	line := regexp.MustCompile(
		`^(# (HELP|TYPE) [a-z_0-9]+ .+|[a-z_0-9]+(\{[a-z0-9_]+="(\\.|[^"\\])*"(,[a-z0-9_]+="(\\.|[^"\\])*")*\})? [-+0-9.eInf]+)$`)
	for _, s := range []Snapshot{{}, snapshot()} {
		for l := range strings.Lines(write(t, s)) {
			if !line.MatchString(strings.TrimSuffix(l, "\n")) {
				t.Errorf("%q has not the form of the format", l)
			}
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteTellsOfItsReader(t *testing.T) {
	if err := Write(broken{}, snapshot()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v, want the writer's", err)
	}
}

// TestManualNamesEveryFamily compares with docs/howto/metrics.md.
func TestManualNamesEveryFamily(t *testing.T) {
	b, err := os.ReadFile("../../docs/howto/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, f := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(write(t, Snapshot{}), -1) {
		if !strings.Contains(string(b), "`"+f[1]) {
			missing = append(missing, f[1])
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("docs/howto/metrics.md lacks %v", missing)
	}
}
