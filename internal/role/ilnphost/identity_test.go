package ilnphost

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/keyfile"
)

// TestFirstStart: a host that has never started gets its key and the NID that is the hash of it, in 2^20 steps
// (docs/design/keys.md), says so, and keeps both; so does one whose first start ended between the two files.
func TestFirstStart(t *testing.T) {
	cfg := config.Default()
	cfg.Host.StateDir = filepath.Join(t.TempDir(), "state")
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	first, err := identity(t.Context(), cfg, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := keyfile.Read(cfg) // refuses a file that others can read
	if err != nil || k == nil {
		t.Fatalf("the key of a new host is %v, %v", k, err)
	}
	h := sha256.Sum256(slices.Concat([]byte("roam node identifier\x01\x01"), k.Modifier[:], k.Public[:]))
	for range 1 << 20 {
		h = sha256.Sum256(h[:])
	}
	h[0] &^= 0x03
	if want := roam.NID(binary.BigEndian.Uint64(h[:])); first != want || k.NID != want {
		t.Errorf("NID %v, that of the key %v, want %v", first, k.NID, want)
	}
	if !strings.Contains(text.String(), "2^20 steps") || !strings.Contains(text.String(), "took=") {
		t.Errorf("the daemon does not say what it does: %s", &text)
	}
	text.Reset()
	if again, err := identity(t.Context(), cfg, log, nil); err != nil || again != first || text.Len() > 0 {
		t.Errorf("second start: %v, %v, want %v; %s", again, err, first, &text)
	}
	if err := os.Remove(keyfile.NIDPath(cfg)); err != nil {
		t.Fatal(err)
	}
	if again, err := identity(t.Context(), cfg, log, nil); err != nil || again != first {
		t.Errorf("after a first start that wrote the key only: %v, %v, want %v", again, err, first)
	}
	if kept, ok := keyfile.NID(cfg); !ok || kept != first {
		t.Errorf("kept: %v, %t", kept, ok)
	}
}

// TestIdentifierIsKept: a host that has an NID, by its configuration or of before, gets no key unless it is asked
// to; files that hold none are not silently replaced.
func TestIdentifierIsKept(t *testing.T) {
	cfg := config.Default()
	cfg.Host.StateDir = t.TempDir()
	log := slog.New(slog.DiscardHandler)
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Host.NID = config.NIDChoice{Source: config.NIDFixed, Value: 77}
	if n, err := identity(t.Context(), cfg, log, nil); err != nil || n != 77 {
		t.Errorf("configured: %v, %v", n, err)
	}
	cfg.Host.NID = config.NIDChoice{}
	write(keyfile.NIDPath(cfg), "0011-22ff-0000-0001\n", 0o644)
	if n, err := identity(t.Context(), cfg, log, nil); err != nil || n != 0x0011_22ff_0000_0001 {
		t.Errorf("of before: %v, %v", n, err)
	}
	if k, err := keyfile.Read(cfg); k != nil || err != nil {
		t.Errorf("a host with an NID got the key %v, %v", k, err)
	}
	write(keyfile.NIDPath(cfg), "damaged\n", 0o644)
	if _, err := identity(t.Context(), cfg, log, nil); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("damaged file: %v, want what to do about it", err)
	}
	if err := os.Remove(keyfile.NIDPath(cfg)); err != nil {
		t.Fatal(err)
	}
	write(keyfile.Path(cfg), "", 0o644)
	if _, err := identity(t.Context(), cfg, log, nil); !errors.Is(err, keyfile.ErrOthers) {
		t.Errorf("a key that others can read: %v", err)
	}
	cfg.Host.StateDir = filepath.Join(t.TempDir(), "state") // which nobody can make, root neither
	if err := os.Symlink("nowhere", cfg.Host.StateDir); err != nil {
		t.Fatal(err)
	}
	_, err := identity(t.Context(), cfg, log, nil)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(control.Hint(err), "host.state_dir") {
		t.Errorf("no directory can be made: %v, %q", err, control.Hint(err))
	}
}

// meanwhile is a log whose first line has something happen.
type meanwhile struct {
	slog.Handler
	happens func() error
}

func (m meanwhile) Enabled(context.Context, slog.Level) bool  { return true }
func (m meanwhile) Handle(context.Context, slog.Record) error { return m.happens() }

// TestKeyNewIsFirst: where `roam key new` makes the key while the first start is about to, the host has that key.
func TestKeyNewIsFirst(t *testing.T) {
	cfg := config.Default()
	cfg.Host.StateDir = t.TempDir()
	isMade := true
	log := slog.New(meanwhile{slog.DiscardHandler, func() error {
		if err := os.WriteFile(keyfile.Path(cfg), []byte("a key"), 0o600); err != nil || !isMade {
			return err
		}
		return os.WriteFile(keyfile.NIDPath(cfg), []byte("0011-22ff-0000-0001\n"), 0o644)
	}})
	if n, err := identity(t.Context(), cfg, log, nil); err != nil || n != 0x0011_22ff_0000_0001 {
		t.Errorf("%v, %v", n, err)
	}
	cfg.Host.StateDir, isMade = t.TempDir(), false
	if n, err := identity(t.Context(), cfg, log, nil); !errors.Is(err, keyfile.ErrExists) {
		t.Errorf("it ended before it wrote the identifier: %v, %v", n, err)
	}
}

// TestIdentifierThatCannotBeHad: what the state directory or the addresses refuse is an error that names it.
func TestIdentifierThatCannotBeHad(t *testing.T) {
	cfg, log := config.Default(), slog.New(slog.DiscardHandler)
	cfg.Host.StateDir = t.TempDir()
	file := keyfile.NIDPath(cfg)
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := identity(t.Context(), cfg, log, nil); err == nil || !strings.Contains(err.Error(), "read node identifier") {
		t.Errorf("a file that cannot be read: %v, %v", n, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := keyfile.New(cfg); err != nil {
		t.Fatal(err)
	}
	next := file + ".new"
	if err := errors.Join(os.Remove(file), os.Mkdir(next, 0o700), os.WriteFile(next+"/x", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if n, err := identity(t.Context(), cfg, log, nil); err == nil || !strings.Contains(err.Error(), "keep node identifier") {
		t.Errorf("a file that cannot be written: %v, %v", n, err)
	}
}

// TestIdentifiersOfAHost: the one that it had before a rotation is its own too.
func TestIdentifiersOfAHost(t *testing.T) {
	h := &Host{cfg: config.Default(), nid: 1}
	if got := h.coreConfig(0).NIDs; !slices.Equal(got, []roam.NID{1}) {
		t.Errorf("without a rotation: %v", got)
	}
	h.former = 2
	if got := h.coreConfig(0).NIDs; !slices.Equal(got, []roam.NID{1, 2}) {
		t.Errorf("after one: %v", got)
	}
}

// Nonces and tokens come from the system's generator (RFC 6744 §§6, 7).
func TestNoncesAreUnpredictable(t *testing.T) {
	h := &Host{cfg: config.Default(), nid: 1}
	if h.coreConfig(0).Rand != rand.Reader {
		t.Error("the core does not draw from the system's generator")
	}
}
