package report

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

// shots is where the screenshots of the tests are kept for people to look at.
const shots = "../../out/screenshots"

// browse runs a headless browser on a page with no network, and returns what it
// printed. It fails on any error of the page's console.
func browse(t *testing.T, page string, args ...string) string {
	t.Helper()
	testutil.Need(t, "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	path, err := filepath.Abs(page)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
		"--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + t.TempDir(),
		"--enable-logging=stderr"}, args...)
	cmd := exec.CommandContext(ctx, "chromium", append(args, "file://"+path)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, errs.String())
	}
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the page complains: %s", line)
		}
	}
	return out.String()
}

// shoot takes a picture of a page as it looks in a light or dark window.
func shoot(t *testing.T, page, name string, height int, dark bool) image.Image {
	t.Helper()
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(shots, name+".png")
	args := []string{"--screenshot=" + file, fmt.Sprintf("--window-size=1060,%d", height)}
	if dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	browse(t, page, args...)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return img
}

// count returns how many pixels have about a colour, #rrggbb.
func count(img image.Image, hex string) (n int) {
	v, _ := strconv.ParseUint(hex[1:], 16, 32)
	want := color.RGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v)}
	near := func(a, b uint8) bool { return max(a, b)-min(a, b) <= 30 } // areas let the grid shine through
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
			if near(c.R, want.R) && near(c.G, want.G) && near(c.B, want.B) {
				n++
			}
		}
	}
	return n
}

func write(t *testing.T, page []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBrowserDrawsTheReport opens the report as a reader would: no errors, no
// network, every link's colour on the screen, by day and by night.
func TestBrowserDrawsTheReport(t *testing.T) {
	t.Parallel()
	b, err := Render(synthetic())
	if err != nil {
		t.Fatal(err)
	}
	page := write(t, b)
	for name, dark := range map[string]bool{"report-light": false, "report-dark": true} {
		img := shoot(t, page, name, 3000, dark)
		for _, link := range colours[:3] {
			if n := count(img, link); n < 2000 {
				t.Errorf("%s: %d pixels of %s: the plots are empty", name, n, link)
			}
		}
		if n, ref := count(img, map[bool]string{false: "#7a3fc0", true: "#c39bff"}[dark]), 300; n < ref {
			t.Errorf("%s: %d pixels of published values", name, n)
		}
	}
}

// layout is a script that measures a page; it is added by the test alone. It
// tells of texts of a figure that run into each other or out of it, and of
// figures without anything drawn.
const layout = `<script>
addEventListener("load", () => {
  const bad = [];
  document.querySelectorAll("figure svg, svg.strip").forEach((svg, i) => {
    const frame = svg.getBoundingClientRect();
    if (!svg.querySelector("path[d], circle, rect") || frame.height < 20) bad.push("figure " + i + " is empty");
    const texts = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim()).map(t => ({s: t.textContent, r: t.getBoundingClientRect()}));
    texts.forEach((a, n) => {
      if (a.r.left < frame.left - 1 || a.r.right > frame.right + 1) bad.push("figure " + i + ": '" + a.s + "' leaves it");
      texts.slice(n + 1).forEach(b => {
        const w = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left), h = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
        if (w > 1 && h > 3) bad.push("figure " + i + ": '" + a.s + "' on '" + b.s + "'");
      });
    });
  });
  if (document.documentElement.scrollWidth > innerWidth) bad.push("the page is wider than the window");
  document.body.dataset.layout = bad.join("; ") || "fine";
});
</script></body>`

var layoutRE = regexp.MustCompile(`data-layout="([^"]*)"`)

func checkLayout(t *testing.T, page []byte) {
	t.Helper()
	dom := browse(t, write(t, bytes.Replace(page, []byte("</body>"), []byte(layout), 1)), "--dump-dom",
		"--window-size=1060,3000")
	m := layoutRE.FindStringSubmatch(dom)
	if m == nil {
		t.Fatalf("the browser did not get to the end of the page: %.200s", dom)
	}
	if m[1] != "fine" {
		t.Error(m[1])
	}
}

func TestBrowserFindsNoOverlap(t *testing.T) {
	t.Parallel()
	b, err := Render(synthetic())
	if err != nil {
		t.Fatal(err)
	}
	checkLayout(t, b)
}

func TestBrowserDrawsTheOverview(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := synthetic()
	r.Group = "A paper on moves (2016)"
	if err := r.WriteJSON(filepath.Join(dir, "synthetic.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.error"), []byte("roam: programs are missing: apt-get install radvd"),
		0o644); err != nil {
		t.Fatal(err)
	}
	path, err := Overview(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(shoot(t, path, "overview", 900, false), "#2a9d5c"); n < 200 {
		t.Errorf("%d pixels of passed claims", n)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkLayout(t, b)
}

// TestBrowserDrawsAnExportedFigure proves that a figure stands alone.
func TestBrowserDrawsAnExportedFigure(t *testing.T) {
	t.Parallel()
	r := synthetic()
	path := filepath.Join(t.TempDir(), "figure.svg")
	if err := os.WriteFile(path, SVG(r, r.Figures[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := count(shoot(t, path, "figure", 700, false), colours[0]); n < 2000 {
		t.Errorf("%d pixels of the first link", n)
	}
}

var pages = flag.String("pages", "", "check the layout of every page in this directory, and take a picture of each")

// TestBrowserOpensPages checks the reports of real runs, such as those that `make lab`
// leaves: go test ./lab/report -run OpensPages -pages DIR.
func TestBrowserOpensPages(t *testing.T) {
	t.Parallel()
	list, _ := filepath.Glob(filepath.Join(*pages, "*.html"))
	if *pages == "" {
		list = nil
	}
	for _, path := range list {
		t.Run(filepath.Base(path), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			checkLayout(t, b)
			shoot(t, path, strings.TrimSuffix(filepath.Base(path), ".html"), 4200, false)
		})
	}
}
