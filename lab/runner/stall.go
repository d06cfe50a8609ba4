package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/workload"
)

// stallLimitMs is the length of a stall of the machine from which a run counts
// as disturbed.
const stallLimitMs = 20

// watcher is a running stall monitor.
type watcher struct {
	cmd  *exec.Cmd
	in   io.Closer
	read chan struct{} // closed at the end of its output

	mu     sync.Mutex
	stalls []result.Stall
	last   []byte // the line with the totals
}

// watchStalls starts the stall monitor, which finds the owners of stalls if it is told to:
// this process is the emulator's, and has started all others.
func watchStalls(ctx context.Context, owners bool) (*watcher, error) {
	args := []string{"stall-monitor", strconv.Itoa(stallLimitMs)}
	if owners {
		args = append(args, strconv.Itoa(os.Getpid()))
	}
	argv, err := workload.Agent(args...)
	if err != nil {
		return nil, err
	}
	w := &watcher{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), read: make(chan struct{})}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("open standard input of stall monitor: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard output of stall monitor: %w", err)
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start stall monitor: %w", err)
	}
	go w.listen(out)
	return w, nil
}

// listen reads the lines of the stall monitor until it ends.
func (w *watcher) listen(out io.Reader) {
	defer close(w.read)
	s := bufio.NewScanner(out)
	s.Buffer(nil, 64<<20) // the last line holds every stall of hours
	for s.Scan() {
		var stall result.Stall
		w.mu.Lock()
		if json.Unmarshal(s.Bytes(), &stall) == nil && stall.Ms > 0 {
			w.stalls = append(w.stalls, stall)
		}
		w.last = append(w.last[:0], s.Bytes()...)
		w.mu.Unlock()
	}
}

// within returns the longest stall that reached into a span, 0 for none. A stall that the
// daemon under test made is none: it must not have a cell measured again.
func (w *watcher) within(in exp.Span) (worst float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stalls {
		if s.Excuses() && span(s).Meets(in) {
			worst = max(worst, s.Ms)
		}
	}
	return worst
}

// weigh keeps the stalls during which something was measured, and says whether any disturbed
// the run.
func weigh(s *result.StallMonitor, kept *exp.Tally, engine string) {
	s.Repeats, s.Cells = kept.Repeats, kept.Disturbed
	s.Keep(func(stall result.Stall) bool { return kept.Counts(span(stall)) })
	s.Disturbed = engine == exp.Netns && (len(s.Cells) > 0 || s.Excused())
}

// span is when a stall was.
func span(s result.Stall) exp.Span {
	return exp.Span{From: s.At.Add(-time.Duration(s.Ms * float64(time.Millisecond))), To: s.At}
}

// stop ends the stall monitor and returns its report.
func (w *watcher) stop() (s result.StallMonitor, err error) {
	_ = w.in.Close()
	<-w.read
	if err := w.cmd.Wait(); err != nil {
		return s, fmt.Errorf("run stall monitor: %w", err)
	}
	if err := json.Unmarshal(w.last, &s); err != nil {
		return s, fmt.Errorf("decode figures of stall monitor: %w", err)
	}
	return s, nil
}
