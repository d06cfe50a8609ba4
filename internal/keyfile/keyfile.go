// Package keyfile keeps this host's key pair: a file in the state directory that its owner
// alone may read.
//
// It omits the format, which is package nidkey's. It is driven by internal/role/ilnphost and
// cmd/roam.
package keyfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"roam"
	"roam/internal/config"
	"roam/internal/durable"
	"roam/nidkey"

	"golang.org/x/sys/unix"
)

// most is more than a key file has, in bytes.
const most = 4096

// Errors that the functions of this package wrap.
var (
	ErrOthers = errors.New("others can read it")
	ErrExists = errors.New("there is a key already")
)

// Path returns the path of the key file.
func Path(cfg config.Config) string { return filepath.Join(cfg.Host.StateDir, "key") }

// NIDPath returns the path of the file with the Node Identifier that the first start made.
func NIDPath(cfg config.Config) string { return filepath.Join(cfg.Host.StateDir, "nid") }

// Read reads the key pair; nil: there is none. It refuses a file that others than its owner can
// read or write. Errors name the file.
func Read(cfg config.Config) (*nidkey.Key, error) {
	path := Path(cfg)
	b, err := private(path)
	if b == nil {
		return nil, err
	}
	k, err := nidkey.ParseFile(b)
	if err != nil {
		return nil, fmt.Errorf("read key: %s: %w; restore it from a copy, or remove it and run `roam key new`", path, err)
	}
	return &k, nil
}

// private reads a file that only its owner may read; nil: there is none, or it cannot be read.
func private(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	switch {
	case !info.Mode().IsRegular() || info.Size() > most:
		return nil, fmt.Errorf("read key: %s: %w", path, nidkey.ErrFile)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("read key: %s has the mode %#o: %w; run `chmod 600 %s`, and make a new key if "+
			"somebody may have read it", path, info.Mode().Perm(), ErrOthers, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return append([]byte{}, b...), nil // an empty file is not none
}

// New draws a key pair and keeps it, which takes about 0.1 s (2^20 steps of SHA-256). A host that has no Node
// Identifier yet, by its configuration neither, gets the one that is the hash of its key; any other keeps its own.
// Of several callers at once, also in several processes, one makes the key; the others get ErrExists once it is done.
func New(cfg config.Config) (nidkey.Key, error) {
	path := Path(cfg)
	if err := os.MkdirAll(cfg.Host.StateDir, 0o755); err != nil {
		return nidkey.Key{}, fmt.Errorf("new key: %w", err)
	}
	dir, err := os.Open(cfg.Host.StateDir)
	if err != nil {
		return nidkey.Key{}, fmt.Errorf("new key: %w", err)
	}
	defer dir.Close() // which unlocks it
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return nidkey.Key{}, fmt.Errorf("new key: lock %s: %w", cfg.Host.StateDir, err)
	}
	if _, err := os.Lstat(path); err == nil {
		return nidkey.Key{}, fmt.Errorf("new key: %s: %w", path, ErrExists)
	}
	if err := unix.Access(cfg.Host.StateDir, unix.W_OK); err != nil { // before the hash, which takes long
		return nidkey.Key{}, fmt.Errorf("new key: write to %s: %w", cfg.Host.StateDir, err)
	}
	k, err := nidkey.New(rand.Reader)
	if err != nil {
		return nidkey.Key{}, err
	}
	if err := durable.Replace(path, k.File(), 0o600); err != nil {
		return nidkey.Key{}, fmt.Errorf("new key: %w", err)
	}
	_, err = os.Lstat(NIDPath(cfg))
	if cfg.Host.NID.Source != config.NIDAuto || !errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err := durable.Replace(NIDPath(cfg), []byte(k.NID.String()+"\n"), 0o644); err != nil {
		return nidkey.Key{}, fmt.Errorf("new key: node identifier: %w", err)
	}
	return k, nil
}

// NID returns the Node Identifier that this host has by its configuration or by an earlier
// start; false: it has none yet, or takes that of an address.
func NID(cfg config.Config) (roam.NID, bool) {
	if cfg.Host.NID.Source == config.NIDFixed {
		return cfg.Host.NID.Value, true
	}
	if cfg.Host.NID.Source != config.NIDAuto {
		return 0, false
	}
	b, _ := os.ReadFile(NIDPath(cfg)) // what cannot be read is no identifier
	nid, err := roam.ParseNID(strings.TrimSpace(string(b)))
	return nid, err == nil
}

// Claim returns what a pairing line says of a key: that the Node Identifier is its hash, or the
// key alone.
func Claim(k *nidkey.Key, nid roam.NID) nidkey.Claim {
	switch {
	case k == nil:
		return nidkey.Claim{}
	case k.NID != nid:
		return nidkey.Claim{Public: k.Public}
	}
	return nidkey.Claim{Public: k.Public, Modifier: k.Modifier, Hashed: true}
}
