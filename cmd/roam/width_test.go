package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
	"roam/naming"
	"roam/wire/xlate/decide"

	"github.com/spf13/cobra"
)

// The widest that a host plausibly has: names as long as the kernel and the DNS allow, prefixes
// without a zero, a year's uptime, every counter at its end.
const (
	wideLink   = "enx001122334455"
	wideNID    = roam.NID(0xfedc_ba98_7654_3211)
	wideReason = "the IPsec policy dir out src 2a02:8109:abcd:ef10::/60 dst ::/0 priority 4294967295"
	wideName   = "a-peer-with-a-rather-long-name.department-of-networks.university.example.org"
)

var wideAge = 366*24*time.Hour + 23*time.Hour

func wideL64(i int) roam.L64 { return roam.L64(0x2a02_8109_abcd_ef10 + uint64(i)) }

// widen replaces all that the daemon of a world answers.
func widen(t *testing.T, w *world) {
	t.Helper()
	healthy(w)
	d, since := w.daemon, controltest.Now.Add(-wideAge)
	long := wideAge.Seconds()
	path := func(i, j int) control.Path {
		return control.Path{Link: wideLink, Local: wideL64(i), Remote: wideL64(j)}
	}
	d.StatusValue.Plane.Uplinks = []string{wideLink, "wwan0123456789a", "enp130s0f1np100", "wlx001122334455"}
	d.StatusValue.UptimeS, d.StatusValue.NID = long, wideNID
	d.LocatorList = nil
	for i := range 3 {
		d.LocatorList = append(d.LocatorList, control.Locator{
			Link: wideLink, L64: wideL64(i), State: "expired", Disabled: i == 1, Since: since, PreferredS: &long,
		})
	}
	s := d.SessionList[0]
	s.NID, s.RemoteAlias, s.Dead = wideNID, wideNID, true
	s.Names = []string{wideName, "other." + wideName, "third." + wideName}
	s.Since, s.LastMove, s.LastMoveMS, s.RTTMS = since, since, 12345, 9999
	s.TxPackets, s.TxBytes, s.RxPackets, s.RxBytes = math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64
	s.Claims, s.Encapsulation, s.Spread = true, "udp", "length"
	s.Checksum, s.ChecksumICMP, s.UpdateForm, s.OptionOn = "rfc6741", "rfc6741", "linux", "always"
	s.Locators, s.Paths, s.Views = nil, nil, nil
	for i := range 4 {
		s.Locators = append(s.Locators, control.RemoteLocator{
			L64: wideL64(i), Preference: 65535, LifetimeS: &long, State: "expired",
		})
		s.Paths = append(s.Paths, control.SessionPath{Path: path(i, i+1), RTTMS: 1234, Share: float64(i) / 6, Long: true})
		loss := 1.0
		way := &control.PathDirection{RateBPS: 987.6e9, Loss: &loss, Life: "unknown"}
		s.Views = append(s.Views, control.PathView{
			Path: path(i, i+1), Why: "in use, less: it has a queue", Share: 1, RTTMS: 12345, LeastRTTMS: 12345, Out: way, In: way,
		})
	}
	s.InUse = &s.Paths[0].Path
	s.Obstructed = []control.Obstruction{{Path: path(0, 1), By: wideReason}}
	d.SessionList = []control.Session{s}
	d.PeerList[0].Names, d.PeerList[0].NID = s.Names, wideNID
	d.PeerList[0].Written = []control.Place{{File: "/etc/roam/" + wideName, Line: 123456}}
	d.PeerList[0].Options = []string{"nonce=always", "anywhere=yes", "checksum=rfc6741", "updates=draft",
		"icmp-checksum=rfc6741"}
	d.CounterList = nil
	for c := range decide.Counters {
		d.CounterList = append(d.CounterList, control.Counter{
			Name: decide.Counter(c).String(), Value: math.MaxUint64,
			Meaning: "a packet with a nonce that no session has, from a locator that no record of a peer lists",
		})
	}
	d.EventList = wideEvents(since)
	report, err := json.Marshal([]control.ObservedCount{{
		Link: wideLink, Direction: "out", Protocol: "mobility", Flags: []string{"nonce", "locator-update", "unreadable"},
		Checksum: "unnecessary", Packets: math.MaxUint64, Bytes: math.MaxUint64, PacketsPerS: 14.88e6,
	}})
	if err != nil {
		t.Fatal(err)
	}
	observer := control.RoleStatus{Name: "observer", State: control.RoleRunning}
	d.RoleList = []control.RoleReport{{RoleStatus: observer, Report: report}}
	observer.Facts = []control.RoleFact{
		{Name: "links", Value: strings.Join(d.StatusValue.Plane.Uplinks, " ")},
		{Name: "packets", Value: "18446744073709551615 (14880000/s)"},
	}
	d.StatusValue.Roles = []control.RoleStatus{observer}
}

// wideEvents has an event of every kind, with all that an event can have.
func wideEvents(since time.Time) (list []control.Event) {
	for i, kind := range control.KindNames() {
		at := []control.LinkLocator{{Link: wideLink, L64: wideL64(i)}, {Link: wideLink, L64: wideL64(i + 1)}}
		list = append(list, control.Event{
			Time: since.Add(time.Duration(i) * time.Second), Kind: kind, Peer: wideNID, PeerName: wideName, From: at, To: at,
			Locators: []roam.L64{wideL64(1), wideL64(2)},
			Path:     &control.Path{Link: wideLink, Local: wideL64(1), Remote: wideL64(2)},
			RTTMS:    9999, DurationMS: 9999, Reason: wideReason, Omitted: 12345,
			Lost: &control.LostPackets{Sent: math.MaxUint64, Received: math.MaxUint64},
		})
	}
	return list
}

var colours = regexp.MustCompile("\x1b\\[[0-9]*m")

// fits fails for each line with more characters than a terminal usually has.
func fits(t *testing.T, what, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimRight(colours.ReplaceAllString(line, ""), "\n")
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%s: %d characters: %s", what, n, line)
		}
	}
}

var shown = []string{
	"", "status", "session show", "session show " + wideName, "peer show", "locator show", "path show", "top --once",
	"counter show", "counter show --all", "observer show", "doctor", "doctor " + wideName, "explain " + wideName,
}

// TestEverythingFitsATerminal: 80 columns, in a pipe too, with and without colours.
func TestEverythingFitsATerminal(t *testing.T) {
	for _, args := range shown {
		for _, colour := range []bool{false, true} {
			w := newWorld(t)
			w.Colour = colour
			widen(t, w)
			status, out, errs := w.try(strings.Fields(args)...)
			if strings.Count(out, "\n") < 3 || errs != "" {
				t.Errorf("%s: status %d, %q, %q", args, status, out, errs)
			}
			fits(t, fmt.Sprintf("roam %s, colour %v", args, colour), out)
		}
	}
}

// TestAnswersFitATerminal is about verbs that change something, but for the lines that are to be copied.
func TestAnswersFitATerminal(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "roam.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "[host]\nstate_dir = %q\nrun_dir = %q\n", dir, dir), 0o644); err != nil {
		t.Fatal(err)
	}
	line, err := naming.FormatPairing(naming.Record{NID: 1 << 40, Names: []string{"host"},
		Locators: []naming.Locator{{L64: wideL64(0)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"key new", "key show", "key rotate", "key show", "key revoke", "add nid=1:2:3:4 l64=2001:db8:1:1 b", "rename b c",
		"remove b.example", "mode duality", "locator disable wlan0", "config check", "config reload", "version",
		"report --output " + filepath.Join(dir, "r.tar.gz"),
	} {
		w := newWorld(t)
		w.daemon.ExportLine = line
		status, out, errs := w.try(append([]string{"--config", conf}, strings.Fields(args)...)...)
		if status != cli.StatusOK || out == "" {
			t.Errorf("%s: status %d, %q, %q", args, status, out, errs)
		}
		fits(t, "roam "+args, strings.ReplaceAll(out, dir, "/var/lib/roam"))
	}
}

// TestNothingIsLostOnATerminal: whatever a narrow terminal shows is what a wide one shows.
func TestNothingIsLostOnATerminal(t *testing.T) {
	squeeze := strings.NewReplacer(" ", "", "\n", "")
	for _, args := range []string{"session show", "peer show", "locator show", "doctor", "explain " + wideName} {
		w := newWorld(t)
		widen(t, w)
		_, narrow, _ := w.try(strings.Fields(args)...)
		_, wide, _ := w.try(append(strings.Fields(args), "--wide")...)
		letters := func(s string) (n [256]int) {
			for _, b := range []byte(strings.NewReplacer("(", "", ")", "").Replace(squeeze.Replace(s))) {
				n[b]++
			}
			return n
		}
		if letters(narrow) != letters(wide) {
			t.Errorf("%s differs by more than its breaks:\n%s\n%s", args, narrow, wide)
		}
		if args == "session show" && narrow == wide {
			t.Error("--wide changes nothing")
		}
	}
}

// TestWideHasThePath: what a narrow overview leaves out is there.
func TestWideHasThePath(t *testing.T) {
	w := newWorld(t)
	const path = "wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64 (one of 2 paths)"
	if _, out, _ := w.try("--wide"); !strings.Contains(out, path) {
		t.Errorf("%s", out)
	}
	w.Width = 200
	if _, out, _ := w.try("counter"); strings.Count(out, "\n") != 3 {
		t.Errorf("a wide terminal breaks lines:\n%s", out)
	}
}

// TestHelpFitsATerminal looks at the help of every verb.
func TestHelpFitsATerminal(t *testing.T) {
	w := newWorld(t)
	root := w.root()
	root.InitDefaultHelpCmd()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" {
			return // its shells' texts are those of the library
		}
		var out strings.Builder
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fits(t, cmd.CommandPath()+" --help", out.String())
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// TestRefreshesAreFolded: a day of refreshes is two lines, and the move before them is still
// seen.
func TestRefreshesAreFolded(t *testing.T) {
	w := newWorld(t)
	own := []roam.L64{0x2001_0db8_0001_0001}
	for i := range 100 {
		for _, kind := range []string{control.KindUpdateSent, control.KindUpdateAcked} {
			w.daemon.EventList = append(w.daemon.EventList, control.Event{
				Time: controltest.Now.Add(time.Duration(i) * time.Minute), Kind: kind, Locators: own,
				Peer: 0x0211_22ff_0000_0002, PeerName: "server.example", RTTMS: float64(20 + i),
			})
		}
	}
	w.daemon.EventList[len(w.daemon.EventList)-2].Omitted = 900
	_, out, _ := w.try("explain", "server.example")
	for _, want := range []string{
		"session-established", "handoff-done", "acknowledgement came 20.8 ms\n",
		"12:00:00.000  update-sent          2001:db8:1:1::/64  (1000 times, last at\n                                   13:39:00.000)",
		"12:00:00.000  update-acked         2001:db8:1:1::/64  (100 times, last at\n                                   13:39:00.000)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, control.KindUpdateAcked); n != 2 {
		t.Errorf("%d lines of acknowledgements:\n%s", n, out)
	}
	status, out, _ := w.try("explain", "server.example", "--json")
	var all explanation
	if err := json.Unmarshal([]byte(out), &all); err != nil || status != cli.StatusOK || len(all.Events) != 206 {
		t.Errorf("JSON has %d events, %v", len(all.Events), err)
	}
}

// TestRunsEnd: what differs, and what happens between, is not folded away.
func TestRunsEnd(t *testing.T) {
	sent := func(l ...roam.L64) control.Event { return control.Event{Kind: control.KindUpdateSent, Locators: l} }
	acked := control.Event{Kind: control.KindUpdateAcked}
	moved := control.Event{Kind: "handoff-started"}
	var got []int
	list := []control.Event{sent(1), acked, sent(1), acked, sent(2), sent(1), moved, sent(1), moved, moved}
	for _, r := range runsOf(list) {
		got = append(got, r.times)
	}
	if want := "[2 2 1 1 1 1 1 1]"; fmt.Sprint(got) != want {
		t.Errorf("runs of %v, want %s", got, want)
	}
}
