package keyfile

import (
	"errors"
	"os"
	"strings"
	"testing"

	"roam/internal/config"
	"roam/nidkey"
)

func inDir(t *testing.T) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Host.StateDir = t.TempDir()
	return cfg
}

// TestNewHost: the NID of a host that has not started is the hash of its key.
func TestNewHost(t *testing.T) {
	cfg := inDir(t)
	if k, err := Read(cfg); k != nil || err != nil {
		t.Fatalf("without a file: %v, %v", k, err)
	}
	k, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if nid, ok := NID(cfg); !ok || nid != k.NID {
		t.Errorf("NID %v, %t; want %v", nid, ok, k.NID)
	}
	if info, err := os.Stat(Path(cfg)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file %v, %v", info, err)
	}
	if got, err := Read(cfg); err != nil || *got != k {
		t.Errorf("reads as %v, %v", got, err)
	}
	if c := Claim(&k, k.NID); !c.Hashed || c.Check(k.NID) != nil {
		t.Errorf("claim %v", c)
	}
	if _, err := New(cfg); !errors.Is(err, ErrExists) {
		t.Errorf("a second key: %v", err)
	}
}

// TestKnownHost: a host that has an NID keeps it.
func TestKnownHost(t *testing.T) {
	cfg := inDir(t)
	if err := os.WriteFile(NIDPath(cfg), []byte("0011-22ff-0000-0001\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if nid, ok := NID(cfg); !ok || nid != 0x0011_22ff_0000_0001 {
		t.Errorf("NID %v, %t", nid, ok)
	}
	if c := Claim(&k, 0x0011_22ff_0000_0001); c.Hashed || c.Public != k.Public {
		t.Errorf("claim %v", c)
	}
	if c := Claim(nil, 0x0011_22ff_0000_0001); c.Present() {
		t.Errorf("claim without a key: %v", c)
	}
	if own, err := Of(cfg, 0x0011_22ff_0000_0001, now); err != nil || *own != k {
		t.Errorf("the key under that NID: %v, %v", own, err)
	}
	cfg.Host.NID.Source = config.NIDFromAddress
	if nid, ok := NID(cfg); ok {
		t.Errorf("a host whose NID is that of an address has %v of a file", nid)
	}
	cfg = inDir(t)
	cfg.Host.NID = config.NIDChoice{Source: config.NIDFixed, Value: 5}
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(NIDPath(cfg)); err == nil {
		t.Error("a host with a configured NID got another one")
	}
	if nid, ok := NID(cfg); !ok || nid != 5 {
		t.Errorf("a configured NID is %v, %t", nid, ok)
	}
}

// TestRefused: errors name the file, and say what to do.
func TestRefused(t *testing.T) {
	cfg := inDir(t)
	k, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text []byte
		mode os.FileMode
		want error
		says string
	}{
		"readable by others": {k.File(), 0o604, ErrOthers, "chmod 600"},
		"by the group":       {k.File(), 0o640, ErrOthers, "chmod 600"},
		"empty":              {nil, 0o600, nidkey.ErrFile, "roam key new"},
		"cut":                {k.File()[:60], 0o600, nidkey.ErrFile, "roam key new"},
		"another version":    {[]byte("roam-key 7\nx\n"), 0o600, nidkey.ErrVersion, "version"},
		"large":              {make([]byte, most+1), 0o600, nidkey.ErrFile, Path(cfg)},
	} {
		if err := os.WriteFile(Path(cfg), c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(Path(cfg), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Read(cfg)
		says := err != nil && strings.Contains(err.Error(), Path(cfg)) && strings.Contains(err.Error(), c.says)
		if !says || !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(os.Remove(Path(cfg)), os.Mkdir(Path(cfg), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(cfg); !errors.Is(err, nidkey.ErrFile) {
		t.Errorf("a directory: %v", err)
	}
}
