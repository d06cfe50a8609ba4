package ilnphost

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/keyfile"
	"roam/internal/role/ilnphost/engine"
	"roam/internal/testutil"
	"roam/naming"
)

// newForgetful returns a keeper with an engine that has no network, and writes its state to a file.
func newForgetful(t *testing.T) (h *Host, state string) {
	t.Helper()
	h = newKeeper(t, "", "")
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{nodeC + 1}, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	state = filepath.Join(t.TempDir(), "state")
	h.engine = engine.New(engine.Config{Core: core, StateFile: state, Log: slog.New(slog.DiscardHandler)})
	h.log, h.records = slog.New(slog.DiscardHandler), map[roam.NID]naming.Record{9: {NID: 9}}
	return h, state
}

// TestRetirementIsSaved: nothing but the state file remembers a retired peer, so it is written at once.
func TestRetirementIsSaved(t *testing.T) {
	h, state := newForgetful(t)
	forget(h, time.Now(), h.engine.Core(), 9, true)
	testutil.Eventually(t, 10*time.Second, func() bool {
		_, err := os.Stat(state)
		return err == nil
	}, "the state is written")
	if len(h.records) > 0 {
		t.Error("the record is still there")
	}
}

// TestSpoiltLine: while a line has a fault that it did not have when it was read, nobody is forgotten and no record
// changes, but for what a command itself says.
func TestSpoiltLine(t *testing.T) {
	const bad, a, b = "what\n", "nid=1:2:3:4 a\nnid=1:2:3:4 anywhere=yes a\n", "nid=1:2:3:5 b\n"
	const peers = "nid=1:2:3:6 c\n"
	const nodeD = nodeC + 1
	add := func(b book) (book, error) { return b.add(naming.Record{NID: nodeD, Names: []string{"d"}}, false) }
	remove := func(b book) (book, error) { return b.remove(nodeC), nil }
	for name, c := range map[string]struct {
		hosts      string
		change     func(book) (book, error)
		gone, news []roam.NID
	}{
		"as before":                 {bad + a + b, add, nil, []roam.NID{nodeD}},
		"a bad option":              {bad + a + "nid=1:2:3:5 bogus=1 b\n", add, nil, []roam.NID{nodeD}},
		"a bad identifier":          {bad + a + "nid=1:2:3 b\n", add, nil, []roam.NID{nodeD}},
		"in place of another fault": {a + "nid=1:2:3:5 bogus=1 b\n", add, nil, []roam.NID{nodeD}},
		"a part of a record": {
			bad + "nid=1:2:3:4 a\nnid=1:2:3:4 y=n a\n" + b, add, nil, []roam.NID{nodeD},
		},
		"a command takes one out":    {a + "nid=1:2:3 b\n", remove, []roam.NID{nodeC}, nil},
		"a line is deleted":          {"# more\n what # bad\n" + a, add, []roam.NID{nodeB}, []roam.NID{nodeD}},
		"so is that with a fault":    {a, add, []roam.NID{nodeB}, []roam.NID{nodeD}},
		"a line says something else": {"nid=1:2:3:4 a\n" + b, add, nil, []roam.NID{nodeA, nodeD}},
	} {
		h := &Host{records: make(map[roam.NID]naming.Record)}
		before := bookOf(bad+a+b, peers)
		for _, r := range before.Records {
			h.records[r.NID] = r
		}
		h.skipped = before.Faults
		now := bookOf(c.hosts, peers)
		next, err := c.change(now)
		if err != nil {
			t.Fatal(err)
		}
		next.before = now.Hosts
		gone, records := differences(h, next, false)
		var news []roam.NID
		for _, r := range records {
			news = append(news, r.NID)
		}
		if !slices.Equal(gone, c.gone) || !slices.Equal(news, c.news) {
			t.Errorf("%s: forgets %v, makes known %v; want %v, %v", name, gone, news, c.gone, c.news)
		}
	}
}

// TestFormerKeyGoes: with the former identifier its key goes, which would bring it back at the next start.
func TestFormerKeyGoes(t *testing.T) {
	h, _ := newForgetful(t)
	first, err := keyfile.New(h.cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if _, _, err := keyfile.Rotate(h.cfg, now, time.Hour, 0); err != nil {
		t.Fatal(err)
	}
	var log said
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	h.nid, h.former = 7, first.NID
	forgetFormer(h, now.Add(2*time.Hour))
	if _, err := os.Stat(keyfile.OldPath(h.cfg)); !os.IsNotExist(err) || h.former != 0 || log.has("stays") {
		t.Errorf("the file of the old key: %v; former %v; log %s", err, h.former, log.text.String())
	}
	if err := os.WriteFile(keyfile.OldPath(h.cfg), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.former = first.NID
	forgetFormer(h, now.Add(2*time.Hour))
	if !log.has("the key of the former node identifier stays") || h.former != 0 {
		t.Errorf("a damaged file of the old key: former %v; log %s", h.former, log.text.String())
	}
}
