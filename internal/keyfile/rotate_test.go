package keyfile

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"roam/internal/config"
	"roam/nidkey"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const keep = time.Hour

// TestRotate: the host has a new key and NID, the old ones are kept for a time, and a daemon that runs
// under the old NID has the old key.
func TestRotate(t *testing.T) {
	cfg := inDir(t)
	if _, _, err := Rotate(cfg, now, keep); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	first, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	next, old, err := Rotate(cfg, now, keep)
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
	again, same, err := Rotate(cfg, now.Add(time.Minute), 2*keep)
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
	_, second, err := Rotate(cfg, now, keep)
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
	next, old, err := Rotate(cfg, now, keep)
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
		k, o, err := Rotate(cfg, now, keep)
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
	if _, _, err := Rotate(fixed, now, keep); !errors.Is(err, ErrFixedNID) {
		t.Errorf("a configured NID: %v", err)
	}
	undrawn := inDir(t)
	if _, err := New(undrawn); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(NIDPath(undrawn)); err != nil {
		t.Fatal(err)
	}
	if k, _, err := Rotate(undrawn, now, keep); err == nil {
		t.Errorf("without an NID rotated to %v", k)
	}
	_, old, err := Rotate(cfg, now, keep)
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
	for _, part := range []string{oldHead, "nid ", "until "} {
		changed := strings.Replace(string(whole), part, strings.ToUpper(part), 1)
		if err := os.WriteFile(OldPath(cfg), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if o, err := ReadOld(cfg, now); err == nil {
			t.Errorf("without %q it reads as %v", part, o)
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
