package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each fault can be planted, once, and the test that is to catch it exists: what it was made for may have
// changed.
func TestFaultsCanBePlanted(t *testing.T) {
	root, words, files := filepath.Join("..", "..", ".."), map[string]bool{}, map[string]string{}
	read := func(path string) string {
		if _, known := files[path]; !known {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			files[path] = string(b)
		}
		return files[path]
	}
	for _, f := range all() {
		if words[f.what] || f.what == "" {
			t.Errorf("%q stands twice, or says nothing", f.what)
		}
		words[f.what] = true
		if n := strings.Count(read(filepath.Join(root, f.file)), f.old); n != 1 || f.old == f.now {
			t.Errorf("%s: %s: the text to replace stands there %d times, or nothing changes", f.file, f.what, n)
		}
		tests, err := filepath.Glob(filepath.Join(root, f.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, path := range tests {
			found = found || strings.Contains(read(path), "func "+f.test+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s: %s: there is no %s in %s", f.file, f.what, f.test, f.pkg)
		}
	}
	if n := len(words); n < 70 {
		t.Errorf("%d faults", n)
	}
}
