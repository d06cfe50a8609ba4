package main

import (
	"testing"

	"roam/internal/cli"
	"roam/internal/control"
)

// ruled gives the first session one path for all packets, and two that only rules use, one of either end.
func ruled(w *world) {
	s := &w.daemon.SessionList[0]
	path := s.Paths[0].Path
	backup, answers := path, s.Paths[1].Path
	backup.Link, backup.Local = "wwan0", 0x2001_0db8_0002_0001
	s.Paths, s.Spread = []control.SessionPath{{Path: path, Share: 1}}, "packet"
	way := func(bps float64) *control.PathDirection {
		return &control.PathDirection{SentBPS: bps, RateBPS: bps, Life: "lives"}
	}
	s.Views = []control.PathView{
		{Path: path, InUse: true, Why: "in use", Share: 1, RTTMS: 24.3, LeastRTTMS: 20.1, Out: way(0), In: way(0)},
		{
			Path: backup, InUse: true, Why: "in use, only for rules 1 and 2 (20 %)", RTTMS: 41.5, LeastRTTMS: 40.2,
			Rules: []control.RuleShare{{Rule: 1, Share: 1}, {Rule: 2, Share: 0.2}}, Out: way(19.6e6), In: way(150e3),
		},
		{
			Path: answers, InUse: true, Why: "in use, for answers to the peer's rules", RTTMS: 68.4,
			Out: way(64e3), In: way(2e6),
		},
	}
	w.daemon.SessionList = w.daemon.SessionList[:1]
	w.daemon.LocatorList[1].Disabled = false
}

// TestPathsOfRulesGolden: paths that only rules use are in use everywhere, and what they carry is theirs.
func TestPathsOfRulesGolden(t *testing.T) {
	for file, args := range map[string][]string{
		"path-rules.txt":    {"path", "show"},
		"path-rules.json":   {"path", "show", "--json"},
		"top-rules.txt":     {"top", "--once", "--every", "2s"},
		"session-rules.txt": {"session", "show"},
		"status-rules.txt":  {"status"},
		"explain-rules.txt": {"explain", "server"},
	} {
		w := newWorld(t)
		ruled(w)
		w.live(busier(0, 5000, 600))
		status, out, errs := w.try(args...)
		if status != cli.StatusOK || errs != "" {
			t.Errorf("%s: status %d, errors %q", file, status, errs)
		}
		golden(t, file, out)
	}
}
