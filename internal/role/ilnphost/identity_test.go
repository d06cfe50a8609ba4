package ilnphost

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/internal/config"
)

// Identifiers that are drawn are of local scope and name one node (RFC 6741
// §2.3, RFC 4291 §2.5.1), none is reserved, and no two are the same.
func TestDrawnIdentifiers(t *testing.T) {
	seen := map[roam.NID]bool{}
	for range 10_000 {
		n := drawNID()
		if n>>56&3 != 0 {
			t.Fatalf("%v has the universal or the group bit", n)
		}
		// Of RFC 5453's, only the subnet-router anycast has both bits zero.
		if n == 0 {
			t.Fatal("the subnet-router anycast identifier was drawn")
		}
		if seen[n] {
			t.Fatalf("%v was drawn twice", n)
		}
		seen[n] = true
	}
}

// An identifier is drawn once and outlives the daemon and all networks; a file
// that does not hold one is not silently replaced.
func TestIdentifierIsKept(t *testing.T) {
	cfg := config.Default()
	cfg.Host.StateDir = filepath.Join(t.TempDir(), "state")
	first, err := identity(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := identity(cfg); err != nil || again != first {
		t.Errorf("second start: %v, %v, want %v", again, err, first)
	}
	cfg.Host.NID = config.NIDChoice{Source: config.NIDFixed, Value: 77}
	if n, err := identity(cfg); err != nil || n != 77 {
		t.Errorf("configured: %v, %v", n, err)
	}
	cfg.Host.NID = config.NIDChoice{}
	file := filepath.Join(cfg.Host.StateDir, "nid")
	if err := os.WriteFile(file, []byte("damaged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := identity(cfg); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("damaged file: %v, want what to do about it", err)
	}
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	if n, err := identity(cfg); err == nil || !strings.Contains(err.Error(), "read node identifier") {
		t.Errorf("a file that cannot be read: %v, %v", n, err)
	}
	next := file + ".new"
	if err := errors.Join(os.Remove(file), os.Mkdir(next, 0o700), os.WriteFile(next+"/x", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if n, err := identity(cfg); err == nil || !strings.Contains(err.Error(), "keep node identifier") {
		t.Errorf("a file that cannot be written: %v, %v", n, err)
	}
	cfg.Host.NID.Source, cfg.Uplinks.Include = config.NIDFromAddress, []string{"no-such-link"}
	if n, err := identity(cfg); err == nil || !strings.Contains(err.Error(), "set host.nid") {
		t.Errorf("that of an address, without one: %v, %v", n, err)
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
