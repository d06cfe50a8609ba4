package keyfile

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/nidkey"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const keep = time.Hour

const none roam.NID = 0 // no daemon runs

// TestRotate: the host has a new key and NID, the old ones are kept for a time, and a daemon that runs
// under the old NID has the old key.
func TestRotate(t *testing.T) {
	cfg := inDir(t)
	if _, _, err := Rotate(cfg, now, keep, none); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	next, old, err := Rotate(cfg, now, keep, none)
	if err != nil || old.Key != first || old.NID != first.NID || !old.Until.Equal(now.Add(keep)) || next == first {
		t.Fatalf("rotated to %v from %+v, %v", next, old, err)
	}
	if info, err := os.Stat(OldPath(cfg)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file of the old key %v, %v", info, err)
	}
	if nid, ok := NID(cfg); !ok || nid != next.NID {
		t.Errorf("NID %v, %t; want %v", nid, ok, next.NID)
	}
	for nid, want := range map[nidkey.Key]nidkey.Key{first: first, next: next} {
		if k, err := Of(cfg, nid.NID, now); err != nil || *k != want {
			t.Errorf("under %v: %v, %v", nid.NID, k, err)
		}
	}
	if k, err := Of(cfg, first.NID+1, now); !errors.Is(err, ErrRestart) {
		t.Errorf("under an NID that the host never had: %v, %v", k, err)
	}
	if nid, had := Former(cfg, first.NID); had {
		t.Errorf("under the old NID the former one is %v", nid)
	}
	again, same, err := Rotate(cfg, now.Add(time.Minute), 2*keep, none)
	if err != nil || again != next || same != old {
		t.Errorf("rotated again while the first one lasts: %v, %+v, %v", again, same, err)
	}
	if was, err := Revoke(cfg); !was || err != nil {
		t.Errorf("revoke: %t, %v", was, err)
	}
	if _, err := Of(cfg, first.NID, now); !errors.Is(err, ErrRestart) {
		t.Errorf("revoked, under the old NID: %v", err)
	}
	if was, err := Revoke(cfg); was || err != nil {
		t.Errorf("revoke again: %t, %v", was, err)
	}
	_, second, err := Rotate(cfg, now, keep, none)
	if err != nil || second.Key != next {
		t.Errorf("the next rotation replaces %v, %v", second, err)
	}
	if o, err := ReadOld(cfg, now.Add(keep)); o != nil || err != nil {
		t.Errorf("after its time: %v, %v", o, err)
	}
	nid, _ := NID(cfg)
	for _, c := range []struct {
		after       time.Duration
		went, there bool
	}{{keep - time.Second, false, true}, {keep, true, false}, {keep, false, false}} {
		if went, err := Expire(cfg, second.NID+1, now.Add(2*keep)); went || err != nil {
			t.Errorf("that of another identifier: went %t, %v", went, err)
		}
		went, err := Expire(cfg, second.NID, now.Add(c.after))
		if _, there := Former(cfg, nid); err != nil || went != c.went || there != c.there {
			t.Errorf("expired after %v: went %t, there %t, %v", c.after, went, there, err)
		}
	}
}

// TestRotateWithoutRestart: while the daemon runs under the NID before a rotation, its key is the one that the peers
// know, however long ago the time of the rotation ended.
func TestRotateWithoutRestart(t *testing.T) {
	cfg := inDir(t)
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := Rotate(cfg, now, keep, first.NID)
	if err != nil {
		t.Fatal(err)
	}
	later := now.Add(10 * keep)
	k, old, err := Rotate(cfg, later, keep, first.NID)
	if err != nil || k != next || old.Key != first || old.NID != first.NID || !old.Until.Equal(later.Add(keep)) {
		t.Errorf("without a restart: %v from %+v, %v", k, old, err)
	}
	if k, err := Of(cfg, first.NID, later); err != nil || *k != first {
		t.Errorf("the daemon's key: %v, %v", k, err)
	}
	later = later.Add(10 * keep)
	k, old, err = Rotate(cfg, later, keep, next.NID)
	if err != nil || k == next || old.Key != next || old.NID != next.NID {
		t.Errorf("after a restart: %v from %+v, %v", k, old, err)
	}
}

// TestRotateKilled: a process that ends between two steps leaves a host with a NID and the key of
// that NID, and the next rotation finishes.
func TestRotateKilled(t *testing.T) {
	cfg := inDir(t)
	if err := os.WriteFile(NIDPath(cfg), []byte("0011-22ff-0000-0001\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	first, err := New(cfg) // bound to an NID that is not its hash
	if err != nil {
		t.Fatal(err)
	}
	next, old, err := Rotate(cfg, now, keep, none)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]nidkey.Key{"before the new key": first, "before the new NID": next} {
		if err := os.WriteFile(Path(cfg), key.File(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(NIDPath(cfg), []byte("0011-22ff-0000-0001\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if k, err := Of(cfg, old.NID, now); err != nil || *k != first {
			t.Errorf("%s: the key is %v, %v", name, k, err)
		}
		k, o, err := Rotate(cfg, now, keep, none)
		if nid, _ := NID(cfg); err != nil || o != old || nid != k.NID || k == first {
			t.Errorf("%s: finished with %v, %+v, %v", name, k, o, err)
		}
	}
}

func TestRotateRefused(t *testing.T) {
	cfg := inDir(t)
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	fixed := cfg
	fixed.Host.NID = config.NIDChoice{Source: config.NIDFixed, Value: 5}
	if _, _, err := Rotate(fixed, now, keep, none); !errors.Is(err, ErrFixedNID) {
		t.Errorf("a configured NID: %v", err)
	}
	undrawn := inDir(t)
	if _, err := New(undrawn); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(NIDPath(undrawn)); err != nil {
		t.Fatal(err)
	}
	if k, _, err := Rotate(undrawn, now, keep, none); err == nil {
		t.Errorf("without an NID rotated to %v", k)
	}
	_, old, err := Rotate(cfg, now, keep, none)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(OldPath(cfg))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := os.WriteFile(OldPath(cfg), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadOld(cfg, now)
		if err == nil || !strings.Contains(err.Error(), "roam key revoke") {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
	}
	for part, c := range map[string]struct{ instead, says string }{
		oldHead: {strings.ToUpper(oldHead), "begin"}, "nid ": {"NID ", "begin"}, "until ": {"UNTIL ", "begin"},
		"nid " + old.NID.String(): {"nid 1-2-3", "line 2"}, "until 2030": {"until 30", "line 3"},
	} {
		changed := strings.Replace(string(whole), part, c.instead, 1)
		if err := os.WriteFile(OldPath(cfg), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := ReadOld(cfg, now)
		if !errors.Is(err, nidkey.ErrFile) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("with %q in place of %q it reads as %v, %v", c.instead, part, o, err)
		}
	}
	if err := os.WriteFile(OldPath(cfg), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if o, err := ReadOld(cfg, now); err != nil || *o != old {
		t.Errorf("reads as %v, %v", o, err)
	}
	if err := os.Chmod(OldPath(cfg), 0o640); err != nil {
		t.Fatal(err)
	}
	_, err = ReadOld(cfg, now)
	if !errors.Is(err, ErrOthers) || !strings.Contains(err.Error(), "chmod 600 "+OldPath(cfg)) {
		t.Errorf("readable by others: %v", err)
	}
}

// TestOldKeyThatIsDamaged: with an old key that cannot be read there is no further rotation, nothing is removed but by
// `roam key revoke`, and a daemon that runs under the present identifier has its key.
func TestOldKeyThatIsDamaged(t *testing.T) {
	cfg := inDir(t)
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	next, old, err := Rotate(cfg, now, keep, none)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(OldPath(cfg))
	if err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(whole), "private ", "privat ", 1)
	if err := os.WriteFile(OldPath(cfg), []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, o, err := Rotate(cfg, now, keep, none); !errors.Is(err, nidkey.ErrFile) {
		t.Errorf("rotated to %v from %+v, %v", k, o, err)
	}
	if k, err := Of(cfg, first.NID, now); !errors.Is(err, nidkey.ErrFile) {
		t.Errorf("under the old identifier: %v, %v", k, err)
	}
	if k, err := Of(cfg, next.NID, now); err != nil || *k != next {
		t.Errorf("under the present one: %v, %v", k, err)
	}
	if went, err := Expire(cfg, old.NID, now.Add(2*keep)); went || !errors.Is(err, nidkey.ErrFile) {
		t.Errorf("expired: %t, %v", went, err)
	}
	if b, err := os.ReadFile(OldPath(cfg)); err != nil || string(b) != damaged {
		t.Errorf("the file is %q, %v", b, err)
	}
	if nid, had := Former(cfg, next.NID); had {
		t.Errorf("its identifier is %v", nid)
	}
	if err := errors.Join(os.Remove(OldPath(cfg)), os.Mkdir(OldPath(cfg), 0o700),
		os.WriteFile(OldPath(cfg)+"/x", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if was, err := Revoke(cfg); was || err == nil {
		t.Errorf("revoked what cannot be removed: %t, %v", was, err)
	}
}

// TestOf: the key under an identifier that no rotation has given.
func TestOf(t *testing.T) {
	cfg := inDir(t)
	k, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(NIDPath(cfg))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(name string, cfg config.Config, nid roam.NID, want error) {
		t.Helper()
		own, err := Of(cfg, nid, now)
		if !errors.Is(err, want) || want == nil && *own != k {
			t.Errorf("%s: %v, %v; want %v", name, own, err, want)
		}
	}
	write := func(path string, b []byte, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, b, mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(NIDPath(cfg), []byte("0011-22ff-0000-0001\n"), 0o644)
	expect("another identifier in the file", cfg, k.NID, ErrRestart)
	write(NIDPath(cfg), []byte("no identifier\n"), 0o644)
	expect("none in the file", cfg, k.NID+1, nil)
	write(NIDPath(cfg), drawn, 0o644)
	old := Old{Key: k, NID: k.NID + 1, Until: now.Add(keep)}
	old.Key.Modifier[0] ^= 1
	write(OldPath(cfg), fmt.Appendf(nil, "%s\nnid %v\nuntil %s\n%s", oldHead, old.NID, old.Until.Format(time.RFC3339),
		old.File()), 0o600)
	fixed := cfg
	fixed.Host.NID = config.NIDChoice{Source: config.NIDFixed, Value: old.NID}
	expect("a configured identifier, that of an old key", fixed, old.NID, nil)
	write(Path(cfg), k.File(), 0o640)
	expect("a file that others can read", cfg, k.NID, ErrOthers)
	if _, _, err := Rotate(cfg, now, keep, none); !errors.Is(err, ErrOthers) {
		t.Errorf("rotated a key that others can read: %v", err)
	}
	if err := os.Remove(Path(cfg)); err != nil {
		t.Fatal(err)
	}
	if own, err := Of(cfg, k.NID, now); own != nil || err != nil {
		t.Errorf("no key: %v, %v", own, err)
	}
}

// TestRotateDiskFails: a step that is not written is an error, and the next rotation goes on from there. What is
// complete is not written again.
func TestRotateDiskFails(t *testing.T) {
	cfg := inDir(t)
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []func(config.Config) string{OldPath, Path, NIDPath} {
		unblock := blocked(t, path(cfg))
		k, o, err := Rotate(cfg, now, keep, none)
		if err == nil || !strings.Contains(err.Error(), path(cfg)+".new") {
			t.Errorf("%s is not written: %v, %+v, %v", path(cfg), k, o, err)
		}
		if k, err := Of(cfg, first.NID, now); err != nil || *k != first {
			t.Errorf("%s is not written: the key is %v, %v", path(cfg), k, err)
		}
		unblock()
	}
	next, _, err := Rotate(cfg, now, keep, none)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{OldPath(cfg), Path(cfg), NIDPath(cfg)} {
		defer blocked(t, path)()
	}
	if k, _, err := Rotate(cfg, now, keep, none); err != nil || k != next {
		t.Errorf("a rotation that is complete: %v, %v", k, err)
	}
}
