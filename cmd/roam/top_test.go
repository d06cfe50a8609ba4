package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

// live lets time pass in a world: at each wait of `roam top` the clock goes on, and the sessions
// are what step makes of them. After the last step the wait is interrupted.
func (w *world) live(steps ...func(list []control.Session)) {
	now, n := controltest.Now, 0
	w.now = func() time.Time { return now }
	w.wait = func(_ context.Context, d time.Duration) error {
		if n == len(steps) {
			return context.Canceled
		}
		now = now.Add(d)
		w.daemon.SessionList = slices.Clone(w.daemon.SessionList)
		steps[n](w.daemon.SessionList)
		n++
		return nil
	}
}

// busier adds packets of 1,000 bytes each way.
func busier(i int, sent, got uint64) func([]control.Session) {
	return func(list []control.Session) {
		s := &list[i]
		s.TxPackets, s.TxBytes = s.TxPackets+sent, s.TxBytes+1000*sent
		s.RxPackets, s.RxBytes = s.RxPackets+got, s.RxBytes+1000*got
	}
}

// plainPath gives the third session a path of which nothing but the round trip is known.
func plainPath(w *world) {
	s := &w.daemon.SessionList[2]
	s.Views = []control.PathView{{Path: s.Paths[0].Path, InUse: true, Why: "in use", RTTMS: 5.5}}
}

func TestTopGolden(t *testing.T) {
	for _, tc := range []struct {
		file string
		args []string
	}{
		{"top.txt", []string{"top", "--once", "--every", "2s"}},
		{"top-peer.json", []string{"top", "server", "--json"}},
	} {
		w := newWorld(t)
		plainPath(w)
		w.live(func(list []control.Session) {
			busier(0, 2500, 40)(list)
			busier(2, 10_000, 5000)(list)
		}, func(list []control.Session) { list[0].TxBytes, list[0].TxPackets = 0, 0 })
		status, out, errs := w.try(tc.args...)
		if status != cli.StatusOK || errs != "" {
			t.Errorf("%s: status %d, errors %q", tc.file, status, errs)
		}
		golden(t, tc.file, out)
	}
}

// TestTopJSONIsOneLineEach: a reader takes each line as it comes.
func TestTopJSONIsOneLineEach(t *testing.T) {
	w := newWorld(t)
	w.live(busier(0, 100, 0), busier(0, 50, 0), func(list []control.Session) { list[0].TxPackets = 0 })
	_, out, _ := w.try("top", "--json")
	var rates []float64
	for line := range strings.Lines(out) {
		var p picture
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		i := 0
		for p.Sessions[i].Name != "server.example" {
			i++
		}
		if s := p.Sessions[i].Sent; s != nil {
			rates = append(rates, s.BPS, s.PPS)
		}
		if p.IntervalS != 1 {
			t.Errorf("an interval of %v s", p.IntervalS)
		}
	}
	want := []float64{800e3, 100, 400e3, 50} // and none where the counter began anew
	if strings.Count(out, "\n") != 3 || len(rates) != len(want) {
		t.Fatalf("rates %v, want %v: %s", rates, want, out)
	}
	for i := range want {
		if rates[i] != want[i] {
			t.Errorf("rates %v, want %v", rates, want)
			break
		}
	}
}

// TestTopOnAScreen: one picture over the other, no more lines than fit, no colour that was not
// asked for. In a pipe there is no code at all.
func TestTopOnAScreen(t *testing.T) {
	w := newWorld(t)
	plainPath(w)
	step := func([]control.Session) {}
	w.live(step, step)
	_, piped, _ := w.try("top")
	if strings.Contains(piped, "\x1b") || strings.Count(piped, "3 sessions") != 2 {
		t.Errorf("in a pipe: %q", piped)
	}
	w.Height = 8
	w.live(step, step)
	_, out, _ := w.try("top")
	pictures := strings.Split(out, "\x1b[H")
	if len(pictures) != 3 {
		t.Fatalf("%d pictures, want 2: %q", len(pictures)-1, out)
	}
	for _, p := range pictures[1:] {
		if n := strings.Count(p, "\n"); n != w.Height-1 || !strings.HasSuffix(p, "one peer\x1b[K\n\x1b[J") {
			t.Errorf("%d lines of %d: %q", n, w.Height, p)
		}
	}
	if colours.MatchString(out) {
		t.Errorf("colours without being asked: %q", out)
	}
}

func TestTopEndsAndRefuses(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"top", "nobody"}, cli.StatusFailure, "no peer is called"},
		{[]string{"top", "--every", "1ms"}, cli.StatusUsage, "must be between"},
		{[]string{"top", "--every", "soon"}, cli.StatusUsage, "soon"},
		{[]string{"top", "a", "b"}, cli.StatusUsage, "no further argument"},
	} {
		if status, _, errs := w.try(tc.args...); status != tc.status || !strings.Contains(errs, tc.says) {
			t.Errorf("%v: status %d, %q", tc.args, status, errs)
		}
	}
	w.live(func([]control.Session) {
		w.daemon.Err = control.Errorf(control.CodeUnavailable, "%w", control.ErrNotRunning)
	})
	if status, _, errs := w.try("top"); status != cli.StatusNoDaemon {
		t.Errorf("the end of the daemon: status %d, %q", status, errs)
	}
	w = newWorld(t)
	w.live(func([]control.Session) {}, func([]control.Session) { w.daemon.SessionList = nil })
	status, out, errs := w.try("top", "server")
	if status != cli.StatusOK || !strings.Contains(out, "\n\n12:00:02  0 sessions") {
		t.Errorf("a peer that is forgotten: status %d, %q, %q", status, out, errs)
	}
}

// TestPauseIsInterrupted waits for as long as it is asked to, or until the context ends.
func TestPauseIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("pause ends with %v", err)
	}
	if err := pause(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
