package ilnphost

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
)

func TestInquiryHears(t *testing.T) {
	path := control.Path{Link: "wlan0", Local: 1, Remote: 2}
	event := func(kind ilnp.EventKind, change func(*control.Event)) control.Event {
		e := control.Event{Kind: kindName(kind), Peer: 7, Path: &path, RTTMS: 20}
		if change != nil {
			change(&e)
		}
		return e
	}
	for name, tc := range map[string]struct {
		event                      control.Event
		answered, final, nowOpened bool
	}{
		"an answer":        {event: event(ilnp.PathAnswered, nil), answered: true},
		"of another peer":  {event: event(ilnp.PathAnswered, func(e *control.Event) { e.Peer = 8 })},
		"on another path":  {event: event(ilnp.PathAnswered, func(e *control.Event) { e.Path = &control.Path{} })},
		"without a path":   {event: event(ilnp.PathAnswered, func(e *control.Event) { e.Path = nil })},
		"no ILNP there":    {event: event(ilnp.SessionFellBack, func(e *control.Event) { e.Reason = ilnp.WhyNoILNP }), final: true},
		"no answer so far": {event: event(ilnp.SessionFellBack, func(e *control.Event) { e.Reason = ilnp.WhyNoAnswer })},
		"established":      {event: event(ilnp.SessionEstablished, nil), nowOpened: true},
	} {
		q := inquiry{peer: 7, found: []control.ProbedPath{{Path: path}}}
		q.hear(tc.event)
		if q.found[0].Answered != tc.answered || q.final != tc.final || q.opened != tc.nowOpened || q.complete() != (tc.answered || tc.final) {
			t.Errorf("%s: %+v", name, q)
		}
	}
}

func TestInquiryEnds(t *testing.T) {
	q := inquiry{peer: 7, found: []control.ProbedPath{{}}}
	ended := make(chan control.Event)
	close(ended)
	q.listen(t.Context(), ended) // returns, as the daemon ends
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	q.listen(ctx, make(chan control.Event))
	if time.Since(began) >= probeWait {
		t.Error("waited although the asker has gone")
	}
}

func TestUpstream(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Host.StateDir, cfg.DNS.ResolvConf = dir, filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(cfg.DNS.ResolvConf, []byte("nameserver 192.0.2.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := upstreamOf(cfg); err != nil || len(got) != 1 || got[0].String() != "192.0.2.1:53" {
		t.Errorf("of the host: %v, %v", got, err)
	}
	cfg.DNS.Upstream = append(cfg.DNS.Upstream, cfg.DNS.Listen)
	if got, err := upstreamOf(cfg); err != nil || len(got) != 1 || got[0] != cfg.DNS.Listen {
		t.Errorf("of the configuration: %v, %v", got, err)
	}
}
