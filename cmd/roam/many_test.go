package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/control"
)

// many gives the daemon so many sessions, which it makes when asked.
func (w *world) many(sessions int, before func(n int)) {
	one := w.daemon.SessionList[0]
	w.daemon.SessionList = nil
	w.daemon.MoreSessions = func(each func(control.Session) error) error {
		for n := range sessions {
			before(n)
			one.NID, one.Names = roam.NID(n), []string{}
			if err := each(one); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestSessionShowStreams: text and JSON of a session are printed before the next one is read, and the
// list is the one that PrintJSON makes.
func TestSessionShowStreams(t *testing.T) {
	for _, args := range [][]string{{"session", "show"}, {"session", "show", "--json"}} {
		w := newWorld(t)
		late := 0
		w.many(5_000, func(n int) {
			if n > 0 && !strings.Contains(w.out.String()[max(0, w.out.Len()-5_000):], roam.NID(n-1).String()) {
				late++
			}
			if w.out.Len() > 1<<20 {
				w.out.Reset()
			}
		})
		if status, _, errs := w.try(args...); status != 0 || late > 0 {
			t.Errorf("%v: status %d, %s; %d were read too early", args, status, errs, late)
		}
	}
	w := newWorld(t)
	_, out, _ := w.try("session", "show", "--json")
	w.out.Reset()
	if err := w.PrintJSON(w.daemon.SessionList); err != nil || w.out.String() != out {
		t.Errorf("%v, the list is\n%s\nwant\n%s", err, out, &w.out)
	}
	w.daemon.SessionList = nil
	if _, out, _ := w.try("session", "show", "--json"); out != "[]\n" {
		t.Errorf("an empty list is %q", out)
	}
}

// TestStatusOfMany: of many peers the overview lists some and counts all, also where the daemon
// does not know sums yet.
func TestStatusOfMany(t *testing.T) {
	for _, old := range []bool{false, true} {
		w := newWorld(t)
		list, read := w.daemon.SessionList, 0
		for len(list) < 1_000 {
			list = append(list, list[0])
		}
		w.daemon.SessionList, w.daemon.NoSummary = list, old
		established := 0
		for _, s := range list {
			if s.State == "established" {
				established++
			}
		}
		status, out, errs := w.try("status")
		for range strings.Lines(out) {
			read++
		}
		flat := strings.Join(strings.Fields(out), " ")
		if status != 0 || read > fewPeers+30 || !strings.Contains(flat, "1000 peers in all, 50 of them above") ||
			!strings.Contains(flat, "; 1 without a path that works. `roam session show` lists all.") {
			t.Errorf("old daemon %v: status %d, %s, %d lines:\n%s", old, status, errs, read, out)
		}
		if !strings.Contains(flat, " established") || established < 900 {
			t.Errorf("%d established:\n%s", established, out)
		}
	}
	w := newWorld(t)
	w.many(fewPeers, func(int) {})
	if _, out, _ := w.try("status"); strings.Contains(out, "in all") {
		t.Errorf("%d peers are a sum:\n%s", fewPeers, out)
	}
}

// TestSessionWhoseCountsFail: the others are shown, and it says why it has none.
func TestSessionWhoseCountsFail(t *testing.T) {
	w := newWorld(t)
	w.daemon.SessionList[0].CountsError = "read traffic of session: no such slot"
	status, out, errs := w.try("session", "show")
	flat := strings.Join(strings.Fields(out), " ")
	first, _, _ := strings.Cut(out, "\n\n")
	const want = "counts    not known: read traffic of session: no such slot"
	if status != 0 || !strings.Contains(first, want) || strings.Contains(first, "  sent ") {
		t.Errorf("status %d, %s:\n%s", status, errs, first)
	}
	if !strings.Contains(flat, "sent ") || strings.Count(flat, "not known") != 1 {
		t.Errorf("the others:\n%s", out)
	}
	_, out, _ = w.try("session", "show", "--json")
	var list []control.Session
	err := json.Unmarshal([]byte(out), &list)
	if err != nil || list[0].CountsError == "" || list[1].CountsError != "" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUnknownPeerAmongMany: the hint lists a few names.
func TestUnknownPeerAmongMany(t *testing.T) {
	w := newWorld(t)
	w.many(1_000, func(int) {})
	status, _, errs := w.try("session", "show", "nobody")
	flat := strings.Join(strings.Fields(errs), " ")
	if status != 1 || len(errs) > 2_000 || !strings.Contains(flat, "and 980 more") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestListMayTakeLong: sessions that come extend the time for an answer, and a printer that waits for its
// reader does not use it up.
func TestListMayTakeLong(t *testing.T) {
	w := newWorld(t)
	w.many(3, func(int) {})
	fired := false
	limit := time.AfterFunc(time.Hour, func() { fired = true })
	p := patient{w.daemon, limit}
	err := p.EachSession(context.Background(), func(control.Session) error {
		if limit.Stop() {
			t.Error("the time runs while a session is printed")
		}
		return nil
	})
	if err != nil || !limit.Stop() || fired {
		t.Errorf("%v; the time does not run again after a session", err)
	}
}
