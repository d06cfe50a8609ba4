package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"roam/internal/testutil"
)

// dir holds the package and the binaries in it.
var dir string

// built is the package of this tree, made once.
var built = sync.OnceValues(func() (string, error) {
	var err error
	dir, err = os.MkdirTemp("", "roam-deb")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir+"/bin/", "./cmd/roam", "./cmd/roamd",
		"./cmd/roam-lab")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return string(out), err
	}
	return pack(dir, "v1.2.0-3-gabc123", "out")
})

// pack makes the package of the binaries in dir/bin, or another of them.
func pack(dir, version, out string, other ...string) (string, error) {
	args := append([]string{version, architecture(), filepath.Join(dir, "bin"), filepath.Join(dir, out)}, other...)
	c := exec.Command("../../packaging/deb/build", args...)
	// Speed matters here, size does not.
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1772366400", "ROAM_DEB_OPTIONS=-Zgzip -z1")
	b, err := c.CombinedOutput()
	return strings.TrimSpace(string(b)), err
}

func TestMain(m *testing.M) {
	status := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(status)
}

func architecture() string {
	if runtime.GOARCH == "arm" {
		return "armhf"
	}
	return runtime.GOARCH
}

func deb(t *testing.T) string {
	t.Helper()
	testutil.Need(t, "dpkg-deb")
	file, err := built()
	if err != nil {
		t.Fatalf("%v: %s", err, file)
	}
	return file
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	b, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, b)
	}
	return string(b)
}

func TestContents(t *testing.T) {
	file := deb(t)
	if want := "roam_1.2.0+3.gabc123_" + architecture() + ".deb"; filepath.Base(file) != want {
		t.Errorf("the file is called %s, want %s", filepath.Base(file), want)
	}
	list := output(t, "dpkg-deb", "--contents", file)
	for _, want := range []string{
		"-rwxr-xr-x root/root ./usr/sbin/roamd", "-rwxr-xr-x root/root ./usr/bin/roam",
		"-rw-r--r-- root/root ./usr/lib/systemd/system/roamd.service",
		"-rw-r--r-- root/root ./usr/share/man/man8/roam.8.gz", "-rw-r--r-- root/root ./usr/share/man/man8/roamd.8.gz",
		"-rw-r--r-- root/root ./usr/share/man/man5/roam.conf.5.gz",
		"-rw-r--r-- root/root ./usr/share/man/man5/roam-hosts.5.gz",
		"-rw-r--r-- root/root ./usr/share/bash-completion/completions/roam",
		"-rw-r--r-- root/root ./usr/share/zsh/vendor-completions/_roam",
		"-rw-r--r-- root/root ./usr/share/fish/vendor_completions.d/roam.fish",
		"-rw-r--r-- root/root ./etc/roam/roam.conf", "-rw-r--r-- root/root ./etc/roam/hosts",
		"-rw-r--r-- root/root ./usr/share/doc/roam/copyright", "-rw-r--r-- root/root ./usr/share/doc/roam/changelog.gz",
		"-rw-r--r-- root/root ./usr/share/doc/roam/examples/hosts", "-rw-r--r-- root/root ./usr/share/doc/roam/tutorial.md",
	} {
		mode, rest, _ := strings.Cut(want, " ")
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(mode) + ` +\S+ .*` +
			regexp.QuoteMeta(strings.TrimPrefix(rest, "root/root ")) + `$`).MatchString(list) {
			t.Errorf("lacks %s in\n%s", want, list)
		}
	}
	if strings.Contains(list, "roam-lab") {
		t.Errorf("has something of the lab:\n%s", list)
	}
	for line := range strings.Lines(list) {
		if line[5] == 'w' || line[8] == 'w' || !strings.Contains(line, " root/root ") {
			t.Errorf("others may write it, or own it: %s", line)
		}
	}
}

// TestLab is the package of the experiments: it needs the other, which does not
// need it.
func TestLab(t *testing.T) {
	first := deb(t)
	file, err := pack(dir, "v1.2.0-3-gabc123", "out", "roam-lab")
	if err != nil || filepath.Base(file) != "roam-lab_1.2.0+3.gabc123_"+architecture()+".deb" {
		t.Fatalf("%v: %s", err, file)
	}
	var files []string
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", file)) {
		if name := strings.Fields(line)[5]; !strings.HasSuffix(name, "/") {
			files = append(files, name)
		}
	}
	want := []string{
		"./usr/bin/roam-lab", "./usr/share/bash-completion/completions/roam-lab", "./usr/share/doc/roam-lab/CHANGELOG.md",
		"./usr/share/doc/roam-lab/changelog.gz",
		"./usr/share/doc/roam-lab/copyright", "./usr/share/doc/roam-lab/lab.md",
		"./usr/share/fish/vendor_completions.d/roam-lab.fish",
		"./usr/share/lintian/overrides/roam-lab", "./usr/share/man/man8/roam-lab.8.gz", "./usr/share/zsh/vendor-completions/_roam-lab",
	}
	if slices.Sort(files); !slices.Equal(files, want) {
		t.Errorf("has %v\nwant %v", files, want)
	}
	if got := output(t, "dpkg-deb", "--field", file, "Depends"); !strings.HasPrefix(got, "roam (= 1.2.0+3.gabc123)") {
		t.Errorf("depends on %s", got)
	}
	for _, field := range []string{"Depends", "Recommends"} {
		if got := output(t, "dpkg-deb", "--field", first, field); strings.Contains(got, "roam-lab") {
			t.Errorf("%s of the package roam: %s", field, got)
		}
	}
	if out, err := pack(dir, "v1.2.0", "out", "roam-labs"); err == nil {
		t.Errorf("another package: %s", out)
	}
}

// TestDocumentsLinkToShippedPages follows the links of all pages of the package.
func TestDocumentsLinkToShippedPages(t *testing.T) {
	root := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb(t), root)
	docs := filepath.Join(root, "usr/share/doc/roam")
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)
	pages, links := 0, 0
	for _, pattern := range []string{"*.md", "design/*.md", "howto/*.md", "rfc/*.md"} {
		found, err := filepath.Glob(filepath.Join(docs, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			pages++
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				target := filepath.Join(filepath.Dir(page), m[1])
				links++
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s links to %s, which the package lacks", strings.TrimPrefix(page, docs+"/"), m[1])
				}
			}
		}
	}
	if pages < 20 || links < 150 {
		t.Errorf("%d pages with %d links, want those of docs, docs/design, docs/howto and docs/rfc", pages, links)
	}
	readme, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil || !strings.Contains(string(readme), "](tutorial.md)") ||
		!strings.Contains(string(readme), "](pictures/moves.svg)") || !strings.Contains(string(readme), "](CHANGELOG.md)") {
		t.Errorf("README.md lost links that it could keep (%v)", err)
	}
}

func TestControl(t *testing.T) {
	info := output(t, "dpkg-deb", "--info", deb(t))
	for _, want := range []string{
		"Package: roam\n", "Version: 1.2.0+3.gabc123\n", "Architecture: " + architecture() + "\n",
		"Section: net\n", "Description: ",
		"conffiles", "md5sums", "preinst", "postinst", "prerm", "postrm",
	} {
		if !strings.Contains(info, want) {
			t.Errorf("lacks %q:\n%s", want, info)
		}
	}
	if strings.Contains(info, "@") && regexp.MustCompile(`@[A-Z]+@`).MatchString(info) {
		t.Errorf("a blank was not filled in:\n%s", info)
	}
}

// TestReproducible makes the package a second time.
func TestReproducible(t *testing.T) {
	first := deb(t)
	second, err := pack(dir, "v1.2.0-3-gabc123", "again")
	if err != nil {
		t.Fatalf("%v: %s", err, second)
	}
	a, err1 := os.ReadFile(first)
	b, err2 := os.ReadFile(second)
	if err1 != nil || err2 != nil || !slices.Equal(a, b) {
		t.Errorf("the same sources give another package (%v, %v)", err1, err2)
	}
}

// TestFiles looks into the files of which the package fills in something.
func TestFiles(t *testing.T) {
	file, dir := deb(t), t.TempDir()
	output(t, "dpkg-deb", "--extract", file, dir)
	unit, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/system/roamd.service"))
	blank := regexp.MustCompile(`@[A-Z]+@`)
	if err != nil || blank.Match(unit) || !strings.Contains(string(unit), "ExecStart=/usr/sbin/roamd") {
		t.Errorf("the unit (%v): %s", err, unit)
	}
	roam := filepath.Join(dir, "usr/bin/roam")
	out := output(t, roam, "config", "check", filepath.Join(dir, "etc/roam/roam.conf"))
	if !strings.Contains(out, "no fault") {
		t.Errorf("the configuration: %s", out)
	}
	conf, err := os.ReadFile(filepath.Join(dir, "etc/roam/roam.conf"))
	if err != nil || regexp.MustCompile(`(?m)^[a-z]`).Match(conf) ||
		!strings.Contains(string(conf), `#listen = "127.0.0.156:53"`) {
		t.Errorf("a key is in force, or one is missing (%v):\n%s", err, conf)
	}
	// The example is a line that a user may take the mark off.
	hosts, err := os.ReadFile(filepath.Join(dir, "etc/roam/hosts"))
	if err != nil || !strings.Contains(string(hosts), "\n# nid=") {
		t.Errorf("the hosts file (%v): %s", err, hosts)
	}
}

func TestVersions(t *testing.T) {
	testutil.Need(t, "dpkg-deb")
	order := []string{"0.0.0+12.abc", "0.2.0~dev.9+gabc", "0.2.0~dev.10+gabc.dirty", "0.2.0", "1.0.0", "1.0.0+2.gabc", "1.0.1"}
	for i := 1; i < len(order); i++ {
		if err := exec.Command("dpkg", "--compare-versions", order[i-1], "lt", order[i]).Run(); err != nil {
			t.Errorf("%s is not older than %s", order[i-1], order[i])
		}
	}
}
