package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roam"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// TestManySessionsStream: the first session comes before the last one is read, and few are
// under way at any time, so neither end has all of them in memory.
func TestManySessionsStream(t *testing.T) {
	const sessions, underWay = 50_000, 5_000
	var made atomic.Int64
	f := controltest.New()
	one := f.SessionList[0]
	f.SessionList = nil
	f.MoreSessions = func(each func(control.Session) error) error {
		for i := range sessions {
			one.NID = roam.NID(i)
			made.Add(1)
			if err := each(one); err != nil {
				return err
			}
		}
		return nil
	}
	c, _ := serve(t, f)
	got, most := 0, int64(0)
	err := c.EachSession(t.Context(), func(s control.Session) error {
		if s.NID != roam.NID(got) {
			t.Fatalf("session %d has the identifier %v", got, s.NID)
		}
		got++
		most = max(most, made.Load()-int64(got))
		return nil
	})
	if err != nil || got != sessions {
		t.Errorf("%d of %d sessions, %v", got, sessions, err)
	}
	if most > underWay {
		t.Errorf("%d sessions were under way at once, want %d at most", most, underWay)
	}
}

// TestFirstSessionDoesNotWait: it comes while the second one is still to be read.
func TestFirstSessionDoesNotWait(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := controltest.New()
	one, came := f.SessionList[0], make(chan struct{})
	f.SessionList = nil
	f.MoreSessions = func(each func(control.Session) error) error {
		if err := each(one); err != nil {
			return err
		}
		select {
		case <-came:
		case <-ctx.Done():
			return ctx.Err()
		}
		return each(one)
	}
	c, _ := serve(t, f)
	n := 0
	err := c.EachSession(ctx, func(control.Session) error {
		if n++; n == 1 {
			close(came)
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%d sessions, %v", n, err)
	}
}

// TestSessionsEndEarly: a caller that has enough ends the list at both ends.
func TestSessionsEndEarly(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := controltest.New()
	one, ended := f.SessionList[0], make(chan error, 1)
	f.MoreSessions = func(each func(control.Session) error) error {
		for {
			if err := each(one); err != nil {
				ended <- err
				return err
			}
		}
	}
	c, _ := serve(t, f)
	enough := errors.New("enough")
	if err := c.EachSession(t.Context(), func(control.Session) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("the daemon goes on")
	}
}

// TestSessionsThatFail: a failure before the first session is a refusal; after it the list has no
// end, so no client takes a part for all.
func TestSessionsThatFail(t *testing.T) {
	f := controltest.New()
	f.Err = control.Errorf(control.CodeUnavailable, "not now")
	c, _ := serve(t, f)
	var refusal *control.Error
	_, err := control.Sessions(t.Context(), c)
	if !errors.As(err, &refusal) || refusal.Code != control.CodeUnavailable {
		t.Errorf("error %v", err)
	}
	f.Err = nil
	f.MoreSessions = func(func(control.Session) error) error { return errors.New("the engine has stopped") }
	var list []control.Session
	list, err = control.Sessions(t.Context(), c)
	const want = "read the daemon's answer to /v1/sessions"
	if err == nil || !strings.Contains(err.Error(), want) || len(list) > len(f.SessionList) {
		t.Errorf("%d sessions, error %v", len(list), err)
	}
}

// TestSessionsAreOneList: who reads the answer whole, as clients before did, gets a list.
func TestSessionsAreOneList(t *testing.T) {
	f := controltest.New()
	w := httptest.NewRecorder()
	control.Handler(f).ServeHTTP(w, httptest.NewRequest("GET", "/v1/sessions", nil))
	text, err := io.ReadAll(w.Result().Body)
	var list []control.Session
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) != len(f.SessionList) || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d sessions, %v: %s", len(list), err, text)
	}
}

// TestSummaryCounts counts each state, and an old daemon's list alike.
func TestSummaryCounts(t *testing.T) {
	f := &controltest.Fake{SessionList: []control.Session{
		{State: control.StateKnown}, {State: "initiated"}, {State: "initiated", Dead: true}, {State: "established"},
		{State: "established"}, {State: "established", Dead: true}, {State: "plain"},
	}}
	c, _ := serve(t, f)
	sum, err := c.Summary(t.Context())
	want := control.Summary{Known: 1, Initiated: 2, Established: 3, Plain: 1, Dead: 2}
	if err != nil || sum != want || sum.All() != 7 {
		t.Errorf("%+v, %v; want %+v", sum, err, want)
	}
}
