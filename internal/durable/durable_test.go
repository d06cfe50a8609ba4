package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var errPower = errors.New("power lost")

// volatile is a disk that loses power after a number of steps. Each byte
// written is a step. What was not synced is lost then, or is there: each
// test looks at both.
type volatile struct {
	left  int
	names map[string]*contents // as programs see them
	kept  map[string]*contents // as they are after a loss of power
}

type contents struct{ cached, kept []byte }

func (v *volatile) step() error {
	if v.left == 0 {
		return errPower
	}
	v.left--
	return nil
}

func (v *volatile) Create(name string, _ fs.FileMode) (file, error) {
	if err := v.step(); err != nil {
		return nil, err
	}
	c := &contents{}
	v.names[name] = c
	return &handle{v, c}, nil
}

func (v *volatile) Rename(from, to string) error {
	if err := v.step(); err != nil {
		return err
	}
	v.names[to] = v.names[from]
	delete(v.names, from)
	return nil
}

func (v *volatile) Remove(name string) error {
	if err := v.step(); err != nil {
		return err
	}
	delete(v.names, name)
	return nil
}

func (v *volatile) SyncDir(string) error {
	if err := v.step(); err != nil {
		return err
	}
	v.kept = map[string]*contents{}
	for name, c := range v.names {
		v.kept[name] = c
	}
	return nil
}

type handle struct {
	v *volatile
	c *contents
}

func (h *handle) Write(b []byte) (int, error) {
	for i, o := range b {
		if err := h.v.step(); err != nil {
			return i, err
		}
		h.c.cached = append(h.c.cached, o)
	}
	return len(b), nil
}

func (h *handle) Sync() error {
	if err := h.v.step(); err != nil {
		return err
	}
	h.c.kept = bytes.Clone(h.c.cached)
	return nil
}

func (h *handle) Close() error { return h.v.step() }

func TestPowerIsLostAtAnyStep(t *testing.T) {
	const path, before, after = "/d/record", "the old contents", "the new"
	for steps := range 100 {
		old := &contents{[]byte(before), []byte(before)}
		v := &volatile{steps, map[string]*contents{path: old}, map[string]*contents{path: old}}
		err := replace(v, path, []byte(after), 0o600)
		// The kernel writes names and contents when it likes: each may be there.
		for _, names := range []map[string]*contents{v.names, v.kept} {
			switch c := names[path]; {
			case c == nil:
				t.Fatalf("after %d steps the file is gone", steps)
			case string(c.kept) != before && string(c.kept) != after:
				t.Fatalf("after %d steps the file holds %q", steps, c.kept)
			case err == nil && string(c.kept) != after:
				t.Fatalf("after %d steps the file holds %q, and Replace has returned", steps, c.kept)
			}
		}
		if err == nil {
			return
		}
	}
	t.Fatal("Replace does not end")
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(path+".new", []byte("left by a crash, and longer"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := Replace(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file: %v", err)
	}
}

func TestReplaceSaysWhere(t *testing.T) {
	err := Replace(filepath.Join(t.TempDir(), "none", "record"), nil, 0o600)
	if err == nil || !strings.Contains(err.Error(), "none/record.new") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
