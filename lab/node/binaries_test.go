package node

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInstalledRoamd lies in the sbin beside roam's bin, unless a build has one
// beside roam.
func TestInstalledRoamd(t *testing.T) {
	prefix := t.TempDir()
	bin, installed := filepath.Join(prefix, "bin"), filepath.Join(prefix, "sbin", "roamd")
	beside := filepath.Join(bin, "roamd")
	for _, step := range []struct{ make, want string }{{"", beside}, {installed, installed}, {beside, beside}} {
		if step.make != "" {
			if err := os.MkdirAll(filepath.Dir(step.make), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(step.make, nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if got := In(bin); got.Roamd != step.want || got.Roam != filepath.Join(bin, "roam") {
			t.Errorf("with %q: %+v, want %s", step.make, got, step.want)
		}
	}
}
