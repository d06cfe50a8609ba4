package report

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"html"
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

// darkColour returns a colour of plots in dark windows, which the style alone knows.
func darkColour(t *testing.T, i int) string {
	t.Helper()
	all := regexp.MustCompile(fmt.Sprintf(`--s%d:(#[0-9a-f]{6})`, i)).FindAllStringSubmatch(style, -1)
	if len(all) != 2 || all[0][1] != colours[i] {
		t.Fatalf("the style has %v for colour %d, %s", all, i, colours[i])
	}
	return all[1][1]
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
		img := shoot(t, page, name, 3400, dark)
		for i, link := range colours[:3] {
			if dark {
				link = darkColour(t, i)
			}
			if n := count(img, link); n < 2000 {
				t.Errorf("%s: %d pixels of %s: the plots are empty", name, n, link)
			}
		}
		if n, ref := count(img, map[bool]string{false: "#7a3fc0", true: "#c39bff"}[dark]), 300; n < ref {
			t.Errorf("%s: %d pixels of published values", name, n)
		}
	}
}

//go:embed testdata/layout.js
var layout string

var layoutRE = regexp.MustCompile(`data-layout="([^"]*)"`)

// The windows in which a page must be readable: a desk's and a phone's.
const (
	desk  = 1280
	phone = 390
)

// checkLayout fails if a page cannot be read in windows of both widths, light and dark. The
// page stands in a frame, since the browser has no window as narrow as a phone's.
func checkLayout(t *testing.T, page []byte) {
	t.Helper()
	measured := bytes.Replace(page, []byte("</body>"), []byte("<script>"+layout+"</script></body>"), 1)
	for _, width := range []int{desk, phone} {
		frame := fmt.Appendf(nil, `<!DOCTYPE html><body><iframe width="%d" height="3000" srcdoc="%s"></iframe></body>`, width,
			html.EscapeString(string(measured)))
		for _, dark := range []bool{false, true} {
			args := []string{"--dump-dom", "--window-size=1400,3000"}
			if dark {
				args = append(args, "--blink-settings=preferredColorScheme=0")
			}
			dom := browse(t, write(t, frame), args...)
			m := layoutRE.FindStringSubmatch(dom)
			if m == nil {
				t.Fatalf("%d px, dark %v: the browser did not get to the end of the page: %.200s", width, dark, dom)
			}
			if m[1] != "fine" {
				t.Errorf("%d px, dark %v: %s", width, dark, m[1])
			}
		}
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
	if n := count(shoot(t, path, "overview", 900, false), "#116b3a"); n < 200 {
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
