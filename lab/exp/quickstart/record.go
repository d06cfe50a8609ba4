package quickstart

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"

	"roam/lab/result"
)

// recorder keeps what `roam monitor` prints on the mobile host, as a user sees it.
type recorder struct {
	mu    sync.Mutex
	lines []printed
}

// printed is a line and when it came.
type printed struct {
	at   time.Time
	text string
}

// record starts `roam monitor`, which ends with ctx.
func (a *round) record(ctx context.Context) (*recorder, error) {
	cmd := a.net.Mobile().Node.Cmd(ctx, "monitor")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open output of monitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start monitor: %w", err)
	}
	r := &recorder{}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			r.mu.Lock()
			r.lines = append(r.lines, printed{time.Now(), s.Text()})
			r.mu.Unlock()
		}
		_ = cmd.Wait()
	}()
	return r, nil
}

// between returns the lines of a span as a recording.
func (r *recorder) between(from, to time.Time) result.Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := result.Recording{Title: "roam monitor during a soft handoff", Command: "roam monitor"}
	for _, l := range r.lines {
		if !l.at.Before(from) && l.at.Before(to) {
			out.Lines = append(out.Lines, result.Line{T: l.at.Sub(from).Seconds(), Text: l.text})
		}
	}
	return out
}

// recordings are what the recorder saw of the first handoff: from the new link's carrier until
// shortly after the old one was cut.
func (t *trace) recordings() []result.Recording {
	list := t.handoffs()
	if t.monitor == nil || len(list) == 0 {
		return nil
	}
	const around = 700 * time.Millisecond
	return []result.Recording{t.monitor.between(list[0].up.Add(-around), list[0].cut.Add(around))}
}
