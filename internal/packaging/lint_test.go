package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/testutil"
)

// TestLintian: Debian's checker finds no error in either package.
func TestLintian(t *testing.T) {
	testutil.Need(t, "lintian")
	host := deb(t)
	lab, err := pack(dir, "v1.2.0-3-gabc123", "out", "roam-lab")
	if err != nil {
		t.Fatalf("%v: %s", err, lab)
	}
	for _, file := range []string{host, lab} {
		out, err := exec.Command("lintian", "--allow-root", "--no-cfg", "--fail-on", "error", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
}

// TestManualPages: the formatter warns of nothing in any page.
func TestManualPages(t *testing.T) {
	testutil.Need(t, "man")
	pages, err := filepath.Glob("../../docs/man/*.[1-8]")
	if err != nil || len(pages) < 5 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	for _, page := range pages {
		c := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
		c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
		var warnings strings.Builder
		c.Stderr = &warnings
		if err := c.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v: %s", page, err, warnings.String())
		}
	}
}
