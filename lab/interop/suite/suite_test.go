package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMergedOptions(t *testing.T) {
	for _, c := range []struct{ own, more, want string }{
		{"", "", ""},
		{"", "nonce=always lu-order=old", "nonce=always lu-order=old"},
		{"checksum=ipv6", "checksum=rfc6741 nonce=always", "checksum=ipv6 nonce=always"},
	} {
		if got := merged(c.own, c.more); got != c.want {
			t.Errorf("%q and %q make %q, want %q", c.own, c.more, got, c.want)
		}
	}
}

// An agent serves a request, fails at it, or cannot serve it, which alone is not
// measured; the same holds without an agent.
func TestAgent(t *testing.T) {
	script := filepath.Join(t.TempDir(), "agent")
	text := "#!/bin/sh\ncase $1 in ping) echo 2;; reset) ;; tcp-echo) echo refused; exit 1;; move) echo \"$@\";; *) " +
		"exit 3;; esac\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	f := &foreign{Foreign: Foreign{L64s: scriptedL64, Agent: []string{script}}}
	ctx := t.Context()
	if n, err := f.ping(ctx, 8); n != 2 || err != nil {
		t.Errorf("ping: %d lost, %v", n, err)
	}
	if err := f.move(ctx, true); err != nil {
		t.Errorf("move: %v", err)
	}
	if err := f.echoTCP(ctx, 10); err == nil || errors.Is(err, errUnmeasured) ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("tcp-echo: %v", err)
	}
	if err := f.reboot(ctx); !errors.Is(err, errUnmeasured) {
		t.Errorf("reboot: %v", err)
	}
	f.Agent = nil
	if err := f.disable(ctx); !errors.Is(err, errUnmeasured) || !strings.Contains(err.Error(), "--agent") {
		t.Errorf("without an agent: %v", err)
	}
	f.L64s = f.L64s[:1]
	if err := f.move(ctx, false); !errors.Is(err, errUnmeasured) {
		t.Errorf("move with one locator: %v", err)
	}
}

// An unmeasured part never counts as passed, and a fault fails a case whatever else was
// measured.
func TestOutcomes(t *testing.T) {
	c := Case{Name: "x", Says: "something happens"}
	made := func(faults []string, err error) Outcome {
		w := &trial{world: &world{}, Case: c, metrics: map[string]float64{"gap_ms": 3}, faults: faults}
		return w.outcome(err)
	}
	for _, o := range []struct {
		Outcome
		verdict, why string
	}{
		{made(nil, nil), "pass", ""},
		{made([]string{"late"}, nil), "FAIL", "late"},
		{made(nil, errors.New("no connection")), "FAIL", "no connection"},
		{made([]string{"late"}, fmt.Errorf("%w: nobody to ask", errUnmeasured)), "not measured", "nobody to ask"},
	} {
		if o.Verdict() != o.verdict || o.Why != o.why {
			t.Errorf("%s, %q; want %s, %q", o.Verdict(), o.Why, o.verdict, o.why)
		}
	}
	passed := made(nil, nil)
	c.Name = "y"
	r := Result("mine", "a host", time.Now(), []Outcome{passed, made(nil, fmt.Errorf("%w: nobody", errUnmeasured))})
	if pass, fail, missed := r.Count(); pass != 1 || fail != 0 || missed != 1 || !r.Pass {
		t.Errorf("%d pass, %d fail, %d missed, pass %v", pass, fail, missed, r.Pass)
	}
}

// Losses are listed with their send times, but for the settling time. Those before the first answer are late
// as well: a busy machine is excused for them, up to its slack, and for no others.
func TestLosses(t *testing.T) {
	const busy = true
	lost := func(i, from, to int) bool { return i >= from && i < to }
	for _, c := range []struct {
		name   string
		lost   func(int) bool
		want   losses
		faults [2]int // on a quiet machine, and on a busy one
	}{
		{"none", func(i int) bool { return lost(i, 0, 10) }, losses{}, [2]int{0, 0}},
		{"in the flow", func(i int) bool { return lost(i, 0, 10) || lost(i, 60, 70) },
			losses{10, 0, "between 1.2 and 1.4 s"}, [2]int{1, 0}},
		{"more in the flow", func(i int) bool { return lost(i, 0, 10) || lost(i, 60, 90) },
			losses{30, 0, "between 1.2 and 1.8 s"}, [2]int{1, 1}},
		{"late", func(i int) bool { return lost(i, 0, 90) }, losses{40, 40, "between 1.0 and 1.8 s"}, [2]int{1, 0}},
		{"much too late", func(i int) bool { return lost(i, 0, 350) },
			losses{300, 300, "between 1.0 and 7.0 s"}, [2]int{1, 1}},
		{"never answered", func(i int) bool { return lost(i, 0, 400) },
			losses{350, 0, "between 1.0 and 8.0 s"}, [2]int{1, 1}},
	} {
		f := &datagrams{answered: map[uint64]time.Time{}}
		t0 := time.Now()
		for i := range 400 {
			f.sent = append(f.sent, t0.Add(time.Duration(i)*20*time.Millisecond))
			if !c.lost(i) {
				f.answered[uint64(i)] = f.sent[i].Add(5 * time.Millisecond)
			}
		}
		got := f.losses(t0)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		for i, load := range []bool{!busy, busy} {
			run := newTrial(nil, Case{}, load)
			if run.judgeLoss(got); len(run.faults) != c.faults[i] {
				t.Errorf("%s, busy %v: %q", c.name, load, run.faults)
			}
		}
	}
}

func TestFirstAnswer(t *testing.T) {
	t0 := time.Now()
	f := &datagrams{answered: map[uint64]time.Time{}, sent: []time.Time{t0, t0.Add(20 * time.Millisecond)}}
	if got := f.firstAnswer(t0); got >= 0 {
		t.Errorf("first answer after %v, but there was none", got)
	}
	f.answered[1] = t0.Add(25 * time.Millisecond)
	if got := f.firstAnswer(t0); got != 25*time.Millisecond {
		t.Errorf("first answer after %v", got)
	}
}
