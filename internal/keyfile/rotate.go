package keyfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/durable"
	"roam/nidkey"
)

// Errors of a rotation.
var (
	ErrNoKey    = errors.New("this host has no key")
	ErrFixedNID = errors.New("the node identifier is configured (host.nid), and a new key wants a new one")
	ErrRestart  = errors.New("this host has another node identifier and key by now: restart roamd")
)

// Old is the key that a rotation has replaced. It vouches for its successor, and is the key of a
// daemon that still runs under its NID.
type Old struct {
	nidkey.Key
	NID   roam.NID // that the host had; Key.NID is the hash, which need not be the same
	Until time.Time
}

// OldPath returns the path of the file that keeps it:
//
//	roam-old-key 1
//	nid <the NID that the host had>
//	until <RFC 3339>
//
// and the text of a key file.
func OldPath(cfg config.Config) string { return filepath.Join(cfg.Host.StateDir, "key.old") }

const oldHead = "roam-old-key 1"

// ReadOld reads the replaced key; nil: there is none, or its time is over.
func ReadOld(cfg config.Config, now time.Time) (*Old, error) {
	o, err := readOld(cfg)
	if o == nil || !now.Before(o.Until) {
		return nil, err
	}
	return o, nil
}

// readOld reads the replaced key, also when its time is over; nil: there is none.
func readOld(cfg config.Config) (*Old, error) {
	path := OldPath(cfg)
	b, err := private(path)
	if b == nil {
		return nil, err
	}
	o, err := parseOld(string(b))
	if err != nil {
		return nil, fmt.Errorf("read old key: %s: %w; `roam key revoke` removes it", path, err)
	}
	return &o, nil
}

// Former returns the Node Identifier that the host had before its last rotation, also when the time
// of its key is over, as sessions of it may live; false: it had none, or the key was revoked.
func Former(cfg config.Config, nid roam.NID) (roam.NID, bool) {
	b, _ := private(OldPath(cfg)) // what cannot be read is no old key
	o, err := parseOld(string(b))
	return o.NID, err == nil && o.NID != nid
}

func parseOld(text string) (o Old, err error) {
	f := strings.SplitN(text, "\n", 4)
	if len(f) != 4 || f[0] != oldHead || !strings.HasPrefix(f[1], "nid ") || !strings.HasPrefix(f[2], "until ") {
		return o, fmt.Errorf("it does not begin with %q, nid and until: %w", oldHead, nidkey.ErrFile)
	}
	if o.NID, err = roam.ParseNID(f[1][len("nid "):]); err != nil {
		return o, fmt.Errorf("line 2: %w: %w", err, nidkey.ErrFile)
	}
	if o.Until, err = time.Parse(time.RFC3339, f[2][len("until "):]); err != nil {
		return o, fmt.Errorf("line 3: %w: %w", err, nidkey.ErrFile)
	}
	o.Key, err = nidkey.ParseFile([]byte(f[3]))
	return o, err
}

// Rotate gives the host a new key and the NID that is its hash; the key so far vouches for it
// until keep has passed. While an earlier rotation lasts, Rotate returns that one, after it has
// finished what a crash may have left of it. running is the NID of the daemon that runs: while
// that is the one before an earlier rotation, no peer knows the new key, so the key that the peers
// know vouches again when its time is over.
func Rotate(cfg config.Config, now time.Time, keep time.Duration, running roam.NID) (nidkey.Key, Old, error) {
	k, err := Read(cfg)
	switch {
	case err != nil:
		return nidkey.Key{}, Old{}, err
	case k == nil:
		return nidkey.Key{}, Old{}, ErrNoKey
	case cfg.Host.NID.Source != config.NIDAuto:
		return nidkey.Key{}, Old{}, ErrFixedNID
	}
	nid, ok := NID(cfg)
	if !ok {
		return nidkey.Key{}, Old{}, fmt.Errorf("rotate key: %s cannot be read: start roamd once", NIDPath(cfg))
	}
	old, err := readOld(cfg)
	if err != nil {
		return nidkey.Key{}, Old{}, err
	}
	// Each step leaves a host that works: until the last one it has the old NID and key.
	if old == nil || !now.Before(old.Until) {
		if old == nil || old.NID != running {
			old = &Old{Key: *k, NID: nid}
		}
		old.Until = now.Add(keep).UTC().Truncate(time.Second)
		head := fmt.Sprintf("%s\nnid %v\nuntil %s\n", oldHead, old.NID, old.Until.Format(time.RFC3339))
		if err := durable.Replace(OldPath(cfg), append([]byte(head), old.File()...), 0o600); err != nil {
			return nidkey.Key{}, Old{}, fmt.Errorf("rotate key: %w", err)
		}
	}
	if k.Public == old.Public {
		next, err := nidkey.New(rand.Reader)
		if err != nil {
			return nidkey.Key{}, Old{}, err
		}
		if err := durable.Replace(Path(cfg), next.File(), 0o600); err != nil {
			return nidkey.Key{}, Old{}, fmt.Errorf("rotate key: %w", err)
		}
		k = &next
	}
	if nid != k.NID {
		if err := durable.Replace(NIDPath(cfg), []byte(k.NID.String()+"\n"), 0o644); err != nil {
			return nidkey.Key{}, Old{}, fmt.Errorf("rotate key: node identifier: %w", err)
		}
	}
	return *k, *old, nil
}

// Revoke removes the replaced key, so that it no longer vouches; false: there is none.
func Revoke(cfg config.Config) (bool, error) {
	err := os.Remove(OldPath(cfg))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("revoke key: %w", err)
	}
	return true, nil
}

// Expire removes the replaced key of an identifier if its time is over; false: there is none, it may still
// vouch, or it is that of another one.
func Expire(cfg config.Config, former roam.NID, now time.Time) (bool, error) {
	b, err := private(OldPath(cfg))
	if b == nil {
		return false, err
	}
	if o, err := parseOld(string(b)); err != nil || o.NID != former || now.Before(o.Until) {
		return false, err
	}
	return Revoke(cfg)
}

// Of returns the key of a host that runs under a Node Identifier: the replaced one as long as it
// runs under that one's. nil: it has none.
func Of(cfg config.Config, nid roam.NID, now time.Time) (*nidkey.Key, error) {
	k, err := Read(cfg)
	if err != nil {
		return nil, err
	}
	kept, ok := NID(cfg)
	if cfg.Host.NID.Source != config.NIDAuto || kept == nid && (k == nil || k.NID == nid) {
		return k, nil
	}
	old, err := ReadOld(cfg, now)
	if err != nil {
		return nil, err
	}
	if old != nil && old.NID == nid {
		return &old.Key, nil
	}
	if ok && kept != nid {
		return nil, fmt.Errorf("read key: %w", ErrRestart)
	}
	return k, nil
}
