package keyfile

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
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

// TestNewTwiceAtOnce: of two that make the first key at once one does; the other gets to know that there is one.
func TestNewTwiceAtOnce(t *testing.T) {
	cfg := inDir(t)
	type made struct {
		key nidkey.Key
		err error
	}
	all := make(chan made)
	for range 2 {
		go func() {
			k, err := New(cfg)
			all <- made{k, err}
		}()
	}
	one, other := <-all, <-all
	if one.err != nil {
		one, other = other, one
	}
	kept, err := Read(cfg)
	if one.err != nil || !errors.Is(other.err, ErrExists) || err != nil || *kept != one.key {
		t.Fatalf("%v and %v; kept: %v", one.err, other.err, err)
	}
	if nid, ok := NID(cfg); !ok || nid != one.key.NID {
		t.Errorf("NID %v, %t; want %v", nid, ok, one.key.NID)
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
		"large":              {make([]byte, most+1), 0o600, nidkey.ErrFile, Path(cfg) + ": " + nidkey.ErrFile.Error()},
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

// blocked has the next replacement of a file fail until it is called.
func blocked(t *testing.T, path string) (unblock func()) {
	t.Helper()
	dir := path + ".new"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(dir+"/x", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskFails: an error of the disk is one of the function, that names the file.
func TestDiskFails(t *testing.T) {
	cfg := inDir(t)
	at := cfg.Host.StateDir + "/file"
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inFile := cfg
	inFile.Host.StateDir = at
	if k, err := Read(inFile); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), Path(inFile)) {
		t.Errorf("read in a file: %v, %v", k, err)
	}
	if k, err := New(inFile); err == nil || !strings.Contains(err.Error(), "mkdir "+at) {
		t.Errorf("new in a file: %v, %v", k, err)
	}
	if err := os.Symlink("/proc/self/mem", Path(cfg)); err != nil { // whose first byte cannot be read
		t.Fatal(err)
	}
	if k, err := Read(cfg); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), Path(cfg)) {
		t.Errorf("read a disk with a fault: %v, %v", k, err)
	}
	for _, path := range []func(config.Config) string{Path, NIDPath} {
		cfg := inDir(t)
		unblock := blocked(t, path(cfg))
		if k, err := New(cfg); err == nil || !strings.Contains(err.Error(), path(cfg)+".new") {
			t.Errorf("new, %s is not written: %v, %v", path(cfg), k, err)
		}
		unblock()
	}
}

// TestNewWithoutX25519: where X25519 is forbidden (GODEBUG=fips140=only) there is no new key, and no file.
func TestNewWithoutX25519(t *testing.T) {
	const only = "fips140=only"
	if os.Getenv("GODEBUG") != only {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNewWithoutX25519$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG="+only)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "\n--- PASS: TestNewWithoutX25519") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	cfg := inDir(t)
	if k, err := New(cfg); err == nil || !strings.Contains(err.Error(), "FIPS") {
		t.Errorf("new: %v, %v", k, err)
	}
	if _, err := os.Lstat(Path(cfg)); err == nil {
		t.Error("there is a key file")
	}
}
