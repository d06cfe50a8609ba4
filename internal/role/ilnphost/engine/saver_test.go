package engine

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
)

// established makes an engine with one session whose correspondent has answered.
func established(t *testing.T) *Engine {
	t.Helper()
	e, _, first := attached(t, &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}, nil)
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.core.HandleObservation(time.Now(), ilnp.Observation{
		Trigger: ilnp.SeenNonce, Key: sessionKey, Nonce: theirNonce, Remote: roam.ILV{NID: peerNID, L64: there}, Local: roam.LinkLocator{Link: 7, L64: here},
	})
	e.drain(time.Now())
	return e
}

// TestRecordIsTheLastResort: a successor takes what its predecessor left for it, and
// the record on the disk when nothing is.
func TestRecordIsTheLastResort(t *testing.T) {
	for name, c := range map[string]struct {
		state, record []byte
		want          int
	}{
		"a file for a successor": {established(t).core.Export(), nil, 1},
		"a record alone":         {nil, established(t).core.Export(), 1},
		"a successor's garbage":  {[]byte("{"), established(t).core.Export(), 0}, // it has sessions that the record may lack
		"a record of garbage":    {nil, []byte("{"), 0},
		"neither":                {nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, b := range map[string][]byte{"state": c.state, "record": c.record} {
				if b == nil {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{ourNID}, Rand: chance{rand.New(rand.NewPCG(3, 4))}})
			if err != nil {
				t.Fatal(err)
			}
			o := &outside{}
			e := New(Config{Core: core, Plane: &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}, Network: o, Sender: o,
				SessionPrefix: roam.DefaultSessionPrefix, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
				StateFile: filepath.Join(dir, "state"), RecordFile: filepath.Join(dir, "record")})
			if err := e.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(core.Snapshot()); n != c.want {
				t.Errorf("%d sessions, want %d", n, c.want)
			}
		})
	}
}

// TestSaversWriteInTheirTime: a set-up writes nothing itself; the successor's file
// follows soon, the record later; and both follow a session that goes on unchanged.
func TestSaversWriteInTheirTime(t *testing.T) {
	e := established(t)
	type save struct{ file string }
	saves := make(chan save, 10)
	count := func(file string, b []byte) error {
		if !bytes.Contains(b, []byte(`"sessions":[{`)) {
			t.Errorf("%s is written without the session", file)
		}
		saves <- save{file}
		return nil
	}
	e.saver = saver{file: "state", after: saveAfter, write: count, done: make(chan written, 1)}
	e.recorder = saver{file: "record", after: recordAfter, write: count, done: make(chan written, 1)}
	e.cfg.SaveEvery = time.Minute
	e.sessionsChanged(time.Now())
	now := e.saved
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{saveAfter / 2, ""}, {2 * saveAfter, "state"}, {recordAfter / 2, ""}, {2 * recordAfter, "record"}} {
		e.save(now.Add(c.after))
		got := ""
		for _, s := range []*saver{&e.saver, &e.recorder} {
			if s.writing {
				got = (<-saves).file
				if err := s.written(<-s.done); err != nil {
					t.Error(err)
				}
			}
		}
		if got != c.want {
			t.Errorf("after %v %q is written, want %q", c.after, got, c.want)
		}
	}
	e.saveNowAndThen(now.Add(time.Minute - time.Second))
	if !e.saver.due(false).IsZero() {
		t.Error("saved again although nothing has changed")
	}
	e.saveNowAndThen(now.Add(time.Minute + time.Second))
	if e.saver.due(false).IsZero() || e.recorder.due(false).IsZero() {
		t.Error("a session that goes on unchanged is not saved again: a restart would take it for idle")
	}
	if err := e.saveLast(); err != nil || len(saves) != 2 {
		t.Errorf("%d files are written at the end, %v", len(saves), err)
	}
}

// TestSaveNow: both files are written without delay, and one that is being written is written again.
func TestSaveNow(t *testing.T) {
	e := established(t)
	saves, wait := make(chan string, 10), make(chan struct{})
	count := func(file string, _ []byte) error {
		saves <- file
		<-wait
		return nil
	}
	e.saver = saver{file: "state", after: saveAfter, write: count, done: make(chan written, 1)}
	e.recorder = saver{file: "record", after: recordAfter, write: count, done: make(chan written, 1)}
	now := time.Now()
	for range 2 {
		e.SaveNow(now)
	}
	for range 2 {
		for _, s := range []*saver{&e.saver, &e.recorder} {
			if !s.writing {
				t.Fatalf("%s is not written", s.file)
			}
		}
		got := map[string]bool{<-saves: true, <-saves: true}
		if !got["state"] || !got["record"] || len(saves) > 0 {
			t.Errorf("written are %v, and %d more", got, len(saves))
		}
		wait <- struct{}{}
		wait <- struct{}{}
		for _, s := range []*saver{&e.saver, &e.recorder} {
			if err := s.written(<-s.done); err != nil {
				t.Error(err)
			}
		}
		e.save(now)
	}
	if e.saver.writing || e.recorder.writing {
		t.Error("a third time")
	}
}

// withSessions makes an engine that has so many sessions more.
func withSessions(t *testing.T, n roam.NID) *Engine {
	t.Helper()
	e := established(t)
	for i := range n {
		key := ilnp.SessionKey{Local: ourNID, Remote: 1000 + i}
		at := []ilnp.RemoteLocator{{L64: there, Preference: 1, Lifetime: roam.Infinite}}
		e.core.AddPeer(time.Now(), ilnp.Peer{NID: key.Remote, Locators: at})
		e.core.HandleObservation(time.Now(), ilnp.Observation{Trigger: ilnp.SeenMiss, Key: key, LocalNID: ourNID})
	}
	e.drainInto(func(ilnp.Output) {})
	return e
}

// TestCopyTakesTurns: a copy of many sessions leaves the engine most of the time, and has what changes
// meanwhile.
func TestCopyTakesTurns(t *testing.T) {
	e := withSessions(t, 10*copyStep)
	files := make(chan []byte, 1)
	write := func(_ string, b []byte) error {
		files <- b
		return nil
	}
	e.saver = saver{file: "state", after: saveAfter, write: write, done: make(chan written, 1)}
	now := time.Now()
	e.savers.clock = func() time.Time { now = now.Add(copyFor); return now } // any look at the clock takes that long
	e.sessionsChanged(now)
	now = now.Add(saveAfter)
	steps := 0
	for ; !e.saver.writing; steps++ {
		began := now
		if e.save(now); e.saver.writing {
			break
		}
		if steps == 0 {
			e.core.RemovePeer(now, 1000)
			e.drainInto(func(ilnp.Output) {})
			e.sessionsChanged(now, ilnp.SessionKey{Local: ourNID, Remote: 1000})
		}
		due := e.saver.due(false)
		if took := now.Sub(began); due.Sub(now) < (stepShare-1)*copyFor || took > 3*copyFor {
			t.Fatalf("a step takes %v, the next one is %v later", took, due.Sub(now))
		}
		now = due
	}
	if steps < 8 {
		t.Errorf("the copy takes %d steps", steps)
	}
	if b := <-files; !bytes.Equal(b, e.core.Export()) {
		t.Errorf("written is %.300s", b)
	}
}

// TestSaveWaitsForLocatorUpdates: while a move is announced, nothing is copied, and the loop is not
// called for it; then it is. A save that must not wait does not, and none waits for ever.
func TestSaveWaitsForLocatorUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		wait  time.Duration // of the last look
		told  bool          // all correspondents, by then
		now   bool          // it must not wait
		saved bool
	}{
		"all have it":                   {saveAfter, true, false, true},
		"some are not":                  {saveAfter, false, false, false},
		"some are not, for long":        {saveAfter + roundWait, false, false, true},
		"some are not, and it must not": {0, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := withSessions(t, 600)
			write := func(string, []byte) error { return nil }
			e.saver = saver{file: "state", after: saveAfter, write: write, done: make(chan written, 1)}
			now := time.Now()
			clock := now
			e.clock = func() time.Time {
				clock = clock.Add(copyFor)
				return clock
			}
			e.sessionsChanged(now)
			e.core.SetLinkDisabled(now, 7, true)
			for c.told && e.core.Announcing() {
				at, _ := e.core.PollTimeout()
				e.core.HandleTimeout(at)
			}
			if e.core.Announcing() == c.told {
				t.Fatalf("%v that correspondents are told", e.core.Announcing())
			}
			if c.now {
				e.SaveNow(now)
			}
			end := now.Add(c.wait + time.Second) // a copy of so many takes several steps
			for {
				due, ok := e.saveDue(time.Time{}, false)
				if !ok || due.After(end) {
					break
				}
				now = due
				e.save(now)
				e.sessionsChanged(now) // what changes meanwhile is for the next save
				if e.saver.copying == nil && !e.saver.writing {
					t.Fatal("a save is due and does not begin: the loop turns without end")
				}
			}
			if e.saver.copying != nil {
				t.Error("a save that has begun does not end")
			}
			if e.saver.writing != c.saved {
				t.Errorf("%v that a save is written", e.saver.writing)
			}
		})
	}
}
