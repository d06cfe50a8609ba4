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

// Losses are listed with their send times.
func TestLosses(t *testing.T) {
	f := &datagrams{answered: map[uint64]time.Time{}}
	t0 := time.Now()
	for i := range 100 {
		f.sent = append(f.sent, t0.Add(time.Duration(i)*20*time.Millisecond))
		if i < 10 || i >= 60 && i < 70 {
			continue
		}
		f.answered[uint64(i)] = f.sent[i].Add(5 * time.Millisecond)
	}
	if got := f.losses(t0.Add(time.Second)); got != (losses{10, "between 1.2 and 1.4 s"}) {
		t.Errorf("%+v", got)
	}
	if got := f.losses(t0); got.count != 20 {
		t.Errorf("%+v", got)
	}
	if got := f.firstAnswer(t0); got != 205*time.Millisecond {
		t.Errorf("first answer after %v", got)
	}
}
