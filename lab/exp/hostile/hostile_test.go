package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/workload/tcpflow"
)

// Each network has its claims, and each claim its network or attack.
func TestClaimsMeetNetworks(t *testing.T) {
	claims, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, c := range claims {
		left[c.Metric] = true
	}
	want := func(metric string) {
		if !left[metric] {
			t.Errorf("no claim is made of %s", metric)
		}
		delete(left, metric)
	}
	for _, n := range networks {
		for _, what := range []string{"_setup", "_survives", "_answer"} {
			want(n.name + what)
		}
		if n.told != "" {
			want(n.name + "_told")
		}
		if n.late {
			want(n.name + "_lost_after")
		}
		if n.duality {
			for _, what := range []string{"_tcp_stall_ms", "_tcp_gaps", "_udp_lost", "_udp_share_off"} {
				want(n.name + what)
			}
		}
		if strings.ContainsFunc(n.name, func(r rune) bool { return r < 'a' || r > 'z' }) || len(n.name) > 16 {
			t.Errorf("%s cannot name a topology", n.name)
		}
	}
	for _, p := range plans {
		want(p.name + "_share")
	}
	if len(left) > 0 {
		t.Errorf("claims of nothing: %v", left)
	}
}

func TestChosen(t *testing.T) {
	if list, err := chosen("options, icmp"); err != nil || len(list) != 2 || list[1].name != "icmp" {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := chosen("all"); err != nil || len(list) != len(networks) {
		t.Errorf("%d networks, %v", len(list), err)
	}
	if _, err := chosen("moon"); err == nil {
		t.Error("an unknown network was chosen")
	}
}

// What a claim waits for is what doctor says.
func TestDoctorSaysIt(t *testing.T) {
	files, err := filepath.Glob("../../../internal/doctor/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of doctor: %v", err)
	}
	var said strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			said.Write(regexp.MustCompile(`"\s*\+\s*"`).ReplaceAll(b, nil))
		}
	}
	for _, n := range networks {
		if !strings.Contains(said.String(), n.told) {
			t.Errorf("%s: doctor never says %q", n.name, n.told)
		}
	}
}

func TestAnswered(t *testing.T) {
	by := map[string]network{}
	for _, n := range networks {
		by[n.name] = n
	}
	fine := reaction{ILNP: true, Acked: "options", InUse: "net1"}
	udp := reaction{ILNP: true, Acked: "udp", InUse: "net1", UsedUDP: true}
	for _, c := range []struct {
		network string
		r       reaction
		want    bool
	}{
		{"clean", fine, true}, {"clean", udp, false}, {"options", udp, true}, {"options", fine, false},
		{"updates", reaction{ILNP: true, Acked: "udp", InUse: "net1"}, true}, {"updates", udp, false},
		{"firewallpeer", udp, true}, {"firewallpeer", reaction{ILNP: true, Acked: "udp", InUse: "net1"}, false},
		{"firewallpeer", fine, false}, {"oneway", fine, true},
		{"oneway", reaction{ILNP: true, InUse: "net2"}, false},
		{"tracked", wholeAt("flow", "flow", 1), true}, {"tracked", wholeAt("flow", "packet", 1), false},
		{"trackedboth", wholeAt("flow", "flow", 0), false}, {"trackedboth", fine, false},
		{"label", reaction{InUse: "net1"}, false},
	} {
		if got := c.r.answered(by[c.network]); got != c.want {
			t.Errorf("%s %+v: %v, want %v", c.network, c.r, got, c.want)
		}
	}
}

// wholeAt is a session whose TCP is spread so at the two ends, as told in that second.
func wholeAt(here, there string, second int64) reaction {
	r := reaction{ILNP: true, InUse: "net2", Spread: [2]string{here, there}}
	if second > 0 {
		r.Changed = time.Unix(second, 0)
	}
	return r
}

// A standstill before the change is one; what comes after it is no part of it.
func TestWhole(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }
	stream := func(spans ...[2]int) (s tcpflow.Stream) {
		for _, span := range spans {
			for ms := span[0]; ms < span[1]; ms += 20 {
				s = append(s, tcpflow.Read{At: at(ms).UnixNano(), Bytes: 1})
			}
		}
		return s
	}
	for i, c := range []struct {
		s    tcpflow.Stream
		gaps int
	}{
		{stream([2]int{0, 2100}, [2]int{3000, 6000}), 0},
		{stream([2]int{0, 2100}, [2]int{3000, 4000}, [2]int{4500, 6000}), 1},
		{stream([2]int{0, 2100}, [2]int{3000, 5800}), 1},
		{stream([2]int{0, 2100}), 1},
	} {
		w := &whole{Changed: at(2800)}
		w.judge([]tcpflow.Stream{stream([2]int{0, 6000}), c.s}, at(0), at(2000), at(6000))
		if len(w.GapsMs) != c.gaps || w.ControlMs > 40 || w.StallMs < 900 {
			t.Errorf("%d: %+v", i, w)
		}
	}
	w := whole{Datagrams: [2][2]int{{49, 51}, {53, 47}}}
	if off, ok := w.shareOff(); !ok || off < 2.999 || off > 3.001 {
		t.Errorf("%v points off, %v", off, ok)
	}
}

// At most so many cells are at work, each is done, and no error is lost.
func TestSideBySide(t *testing.T) {
	var now, most, done atomic.Int32
	boom := errors.New("boom")
	err := sideBySide(3, 10, func(i int) error {
		defer now.Add(-1)
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		runtime.Gosched()
		done.Add(1)
		if i == 3 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || done.Load() != 10 || most.Load() > 3 {
		t.Errorf("%v, %d done, %d at a time", err, done.Load(), most.Load())
	}
}

// A network that was not requested is not measured, and a failed one is a "no".
func TestReport(t *testing.T) {
	var shown strings.Builder
	env := &exp.Env{Result: result.New("hostile-paths"), View: live.New(&shown)}
	report(env, networks[:1], []outcome{{Name: "clean", ILNP: true, SetupMs: 20, TCP: true, UDP: false, Why: "reset"}})
	m := env.Result.Metrics
	if m["clean_setup"] != 1 || m["clean_survives"] != 0 || env.Result.Unmeasured["options_setup"] == "" {
		t.Errorf("%v, %v", m, env.Result.Unmeasured)
	}
	if row := env.Result.Tables[0].Rows[0]; row[3] != "lives" || row[4] != "dead" || row[7] != "options" {
		t.Errorf("%q", row)
	}
	if !strings.Contains(shown.String(), "clean: reset") {
		t.Errorf("the view shows %q", shown.String())
	}
	report(env, networks[:1], []outcome{{Name: "clean", Wire: reaction{UsedUDP: true}}})
	row := env.Result.Tables[3].Rows[0]
	if row[3] != "dead" || row[7] != "UDP" || strings.Count(shown.String(), "clean: ") != 1 {
		t.Errorf("%q, and the view shows %q", row, shown.String())
	}
	w := whole{Changed: time.Unix(1, 0), GapsMs: []float64{120}}
	if row := w.row("x"); row[3] != "by connection" || row[4] != "[120] ms" {
		t.Errorf("%q", row)
	}
	w = whole{}
	if row := w.row("x"); row[3] != "none" || row[4] != "none" {
		t.Errorf("%q", row)
	}
	reportAttacks(env, []attack{{Name: "alone", Alone: true, Rate: 1e6, RTTMs: 20, Received: 100, Sent: 27650}})
	if got := m["alone_share"]; got < 0.499 || got > 0.501 {
		t.Errorf("share of what is allowed: %v", got)
	}
}

// Of a network that cuts late, the report says where data go both ways, and where captures lost packets that nothing
// is known of the time after the cut.
func TestReportOfLateCuts(t *testing.T) {
	for _, late := range []bool{true, false} {
		env := &exp.Env{Result: result.New("hostile-paths"), View: live.New(&strings.Builder{})}
		list := []network{{name: "x", late: late}}
		report(env, list, []outcome{{Name: "x", Missed: 3, Wire: reaction{InUse: "net1", To: "net2"}}})
		want := map[bool]string{true: "net1 out, net2 in", false: "net1"}[late]
		if row := env.Result.Tables[0].Rows[0]; row[len(row)-1] != want {
			t.Errorf("late %v: in use %q, want %q", late, row[len(row)-1], want)
		}
		if _, isMissed := env.Result.Unmeasured["x_lost_after"]; isMissed != late {
			t.Errorf("late %v: not measured %v", late, env.Result.Unmeasured)
		}
	}
}
