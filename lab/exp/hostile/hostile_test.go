package hostile

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/result"
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

func TestAnswered(t *testing.T) {
	by := map[string]network{}
	for _, n := range networks {
		by[n.name] = n
	}
	fine := outcome{State: "established", Acked: "options", InUse: "net1"}
	udp := outcome{State: "established", Acked: "udp", InUse: "net1", UsedUDP: true}
	for _, c := range []struct {
		network string
		o       outcome
		want    bool
	}{
		{"clean", fine, true}, {"clean", udp, false}, {"options", udp, true}, {"options", fine, false},
		{"updates", outcome{State: "established", Acked: "udp", InUse: "net1"}, true}, {"updates", udp, false},
		{"firewallpeer", udp, true}, {"firewallpeer", outcome{State: "established", Acked: "udp", InUse: "net1"}, false},
		{"firewallpeer", fine, false}, {"oneway", fine, false}, {"oneway", outcome{State: "established", InUse: "net2"}, true},
		{"label", outcome{State: "plain", InUse: "net1"}, false},
	} {
		if got := c.o.answered(by[c.network]); got != c.want {
			t.Errorf("%s %+v: %v, want %v", c.network, c.o, got, c.want)
		}
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

// What was not asked for is not measured, and what went wrong is no.
func TestReport(t *testing.T) {
	env := &exp.Env{Result: result.New("hostile-paths"), View: live.New(&strings.Builder{})}
	report(env, networks[:1], []outcome{{Name: "clean", ILNP: true, SetupMs: 20, TCP: true, UDP: false, Why: "reset"}})
	m := env.Result.Metrics
	if m["clean_setup"] != 1 || m["clean_survives"] != 0 || env.Result.Unmeasured["options_setup"] == "" {
		t.Errorf("%v, %v", m, env.Result.Unmeasured)
	}
	reportAttacks(env, []attack{{Name: "alone", Alone: true, Rate: 1e6, RTTMs: 20, Received: 100, Sent: 27650}})
	if got := m["alone_share"]; got < 0.499 || got > 0.501 {
		t.Errorf("share of what is allowed: %v", got)
	}
}
