package packaging

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"roam/internal/testutil"
)

// `make uninstall` removes all that `make install` copies. Both are run on a
// copy of what they need, with binaries that are none.
func TestUninstallRemovesWhatInstallCopied(t *testing.T) {
	testutil.Need(t, "make")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	source, dest := t.TempDir(), t.TempDir()
	for _, name := range []string{"Makefile", "docs", "packaging"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin/roam", "bin/roamd", "bin/roam-lab"} {
		file := filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(target string) []string {
		t.Helper()
		// -o: the binaries are new enough.
		out, err := exec.Command("make", "-C", source, "-o", "build", target, "DESTDIR="+dest,
			"PREFIX=/usr/local").CombinedOutput()
		if err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
		return filesBelow(t, dest)
	}
	installed := run("install")
	for _, want := range []string{
		"usr/local/bin/roam", "usr/local/sbin/roamd", "usr/local/bin/roam-lab", "usr/local/share/man/man8/roam.8",
		"usr/local/share/man/man8/roam-lab.8",
		"usr/local/share/bash-completion/completions/roam", "usr/local/share/zsh/site-functions/_roam-lab",
		"usr/local/share/fish/vendor_completions.d/roam.fish",
		"usr/local/share/man/man5/roam.conf.5", "etc/systemd/system/roamd.service",
	} {
		if !slices.Contains(installed, want) {
			t.Errorf("install does not copy %s; it does %v", want, installed)
		}
	}
	if left := run("uninstall"); len(left) > 0 {
		t.Errorf("uninstall leaves %v", left)
	}
}

// filesBelow lists the files below a directory, from there.
func filesBelow(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
