package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"roam/ilnp"
	"roam/internal/durable"
	"roam/internal/loop"
)

// Sessions are saved for a successor saveAfter a change at the earliest, and
// recorded for the next boot recordAfter one, as that costs a write of the disk.
// Where there are many, the engine stands still for the copy no more than one part
// in copyShare of the time, for no more than copyFor at once, and somebody writes no more than one
// in writeShare. A copy that is under way gets one part in stepShare.
//
// While a move is announced to the peers, each session is about to change, so that a save would be
// obsolete when it is written, and it takes processor time from the Locator Updates. So it waits
// until all of them were sent, roundWait at most.
const (
	saveAfter   = 100 * time.Millisecond
	recordAfter = 5 * time.Second
	copyShare   = 20
	copyFor     = 2 * time.Millisecond
	copyStep    = 16 // sessions
	stepShare   = 5
	writeShare  = 4
	roundWait   = 10 * time.Second
)

// saver keeps a file of the sessions up to date without holding up the
// engine: that copies them, another goroutine writes them down.
type saver struct {
	file    string // "": none
	after   time.Duration
	write   func(file string, state []byte) error
	at      time.Time     // when to save; zero: nothing has changed
	latest  time.Time     // until when it waits for Locator Updates
	copying *ilnp.Copying // under way; nil: none
	next    time.Time     // when it goes on
	until   time.Time     // it waits for Locator Updates no longer than that
	pause   time.Duration
	writing bool
	copied  time.Duration // what the last copy took, or the present one so far
	done    chan written
}

// written is the outcome of one save.
type written struct {
	took time.Duration
	err  error
}

// soon is called when there is something to save.
func (s *saver) soon(now time.Time) {
	if s.at.IsZero() && s.file != "" {
		s.at = now.Add(max(s.pause, s.after))
		s.latest = s.at.Add(roundWait)
	}
}

// due returns when to call step, if a move is being announced or not; zero: never.
func (s *saver) due(announcing bool) time.Time {
	at, latest := s.at, s.latest
	switch {
	case s.writing:
		return time.Time{}
	case s.copying != nil:
		at, latest = s.next, s.until
	}
	if announcing && !at.IsZero() && at.Before(latest) {
		return latest
	}
	return at
}

// step copies the next sessions, and has all written when it has copied the last ones.
func (s *saver) step(core *ilnp.Core, clock loop.Clock) {
	began := clock()
	if s.copying == nil {
		s.copying, s.at, s.until, s.copied = core.CopyState(), time.Time{}, s.latest, 0
	}
	done := s.copying.Some(copyStep)
	for !done && clock().Sub(began) < copyFor {
		done = s.copying.Some(copyStep)
	}
	if !done {
		now := clock()
		took := now.Sub(began)
		s.copied, s.next = s.copied+took, now.Add((stepShare-1)*took)
		return
	}
	state := s.copying.State()
	s.copying, s.writing, s.copied = nil, true, s.copied+clock().Sub(began)
	go func() {
		began := clock()
		err := s.write(s.file, state.Bytes())
		s.done <- written{clock().Sub(began), err}
	}()
}

// written takes the outcome.
func (s *saver) written(w written) error {
	s.writing = false
	s.pause = max(copyShare*s.copied, writeShare*w.took)
	return w.err
}

// last saves what there is at the end.
func (s *saver) last(state []byte) error {
	if s.writing {
		<-s.done
	}
	if s.file == "" {
		return nil
	}
	return s.write(s.file, state)
}

// savers keep both files of the sessions: that for a successor, and that for the time
// after the next boot.
type savers struct {
	*base
	saver, recorder saver
	saved           time.Time // when a save was last asked for
}

func newSavers(b *base) savers {
	return savers{
		base:     b,
		saver:    saver{file: b.cfg.StateFile, after: saveAfter, write: write, done: make(chan written, 1)},
		recorder: saver{file: b.cfg.RecordFile, after: recordAfter, write: record, done: make(chan written, 1)},
	}
}

// sessionsChanged has them saved soon, these ones as they are then.
func (v *savers) sessionsChanged(now time.Time, keys ...ilnp.SessionKey) {
	for _, s := range []*saver{&v.saver, &v.recorder} {
		s.soon(now)
		for _, k := range keys {
			if s.copying != nil {
				s.copying.Changed(k)
			}
		}
	}
	v.saved = now
}

// SaveNow saves the sessions at once: after a change that would be another one if the file of before were
// read. It is for the engine's goroutine.
func (v *savers) SaveNow(now time.Time) {
	for _, s := range []*saver{&v.saver, &v.recorder} {
		if s.file != "" {
			s.copying, s.at, s.latest = nil, now, now // a copy that is under way has what was before
		}
	}
	v.saved = now
	v.save(now)
}

// saveNowAndThen saves the sessions although none has changed: when each was
// last used has.
func (v *savers) saveNowAndThen(now time.Time) {
	if v.cfg.SaveEvery > 0 && now.Sub(v.saved) >= v.cfg.SaveEvery && len(v.entries) > 0 {
		v.sessionsChanged(now)
	}
}

// saveLast saves the sessions at the end.
func (v *savers) saveLast() error {
	state := v.core.Export()
	return errors.Join(v.saver.last(state), v.recorder.last(state))
}

// saveDue returns when the next save is due, if before at.
func (v *savers) saveDue(at time.Time, ok bool) (time.Time, bool) {
	for _, s := range []*saver{&v.saver, &v.recorder} {
		if due := s.due(v.core.Announcing()); !due.IsZero() && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// save goes on with the saves that are due.
func (v *savers) save(now time.Time) {
	for _, s := range []*saver{&v.saver, &v.recorder} {
		if due := s.due(v.core.Announcing()); !due.IsZero() && !now.Before(due) {
			s.step(v.core, v.clock)
		}
	}
}

// record writes what the next boot needs.
func record(file string, state []byte) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = durable.Replace(file, state, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record sessions: %w", err)
	}
	return nil
}

// write writes what a successor needs: it holds nonces, hence mode 0600. No loss
// of power is to be outlived, so nothing waits for the disk.
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
