package ilnphost

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
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
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{7}, Rand: rand.Reader})
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
