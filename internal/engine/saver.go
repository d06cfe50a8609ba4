package engine

import (
	"fmt"
	"os"
	"time"

	"roam/ilnp"
)

// Sessions are saved saveAfter a change at the earliest; where there are many,
// so that the engine stands still for the copy no more than one part in
// copyShare of the time, and somebody writes no more than one in writeShare.
const (
	saveAfter  = 100 * time.Millisecond
	copyShare  = 20
	writeShare = 4
)

// saver keeps the file of the sessions up to date without holding up the
// engine: that copies them, another goroutine writes them down.
type saver struct {
	file    string
	at      time.Time // when to save; zero: nothing has changed
	pause   time.Duration
	writing bool
	copied  time.Duration // what the copy took
	done    chan written
}

// written is the outcome of one save.
type written struct {
	took time.Duration
	err  error
}

// soon is called when there is something to save.
func (s *saver) soon() {
	if s.at.IsZero() {
		s.at = time.Now().Add(max(s.pause, saveAfter))
	}
}

// due returns when to call begin; zero: never.
func (s *saver) due() time.Time {
	if s.writing {
		return time.Time{}
	}
	return s.at
}

// begin copies the sessions and has them written.
func (s *saver) begin(core *ilnp.Core) {
	began := time.Now()
	state := core.State()
	s.at, s.writing, s.copied = time.Time{}, true, time.Since(began)
	go func() {
		began := time.Now()
		err := write(s.file, state.Bytes())
		s.done <- written{time.Since(began), err}
	}()
}

// written takes the outcome.
func (s *saver) written(w written) error {
	s.writing = false
	s.pause = max(copyShare*s.copied, writeShare*w.took)
	return w.err
}

// last saves what there is at the end.
func (s *saver) last(core *ilnp.Core) error {
	if s.writing {
		<-s.done
	}
	return write(s.file, core.Export())
}

// write writes what a successor needs: it holds nonces, hence mode 0600.
func write(file string, state []byte) error {
	tmp := file + ".new"
	if err := os.WriteFile(tmp, state, 0o600); err != nil {
		return fmt.Errorf("write sessions: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return fmt.Errorf("replace saved sessions: %w", err)
	}
	return nil
}
