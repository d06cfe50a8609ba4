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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
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

// A view is a window in which a page must be readable.
type view struct {
	width int
	dark  bool
}

// views are a desk's window and a phone's, by day and by night.
var views = []view{{1280, false}, {1280, true}, {390, false}, {390, true}}

func (v view) String() string {
	return fmt.Sprintf("%d-%s", v.width, map[bool]string{false: "light", true: "dark"}[v.dark])
}

//go:embed testdata/layout.js
var layout string

var layoutRE = regexp.MustCompile(`data-layout="([^"]*)"`)

// look opens a page in a window, fails if it cannot be read there, and returns and keeps a picture.
// The page stands in a frame, since the browser has no window as narrow as a phone's; height is that
// of a desk's window.
func look(t *testing.T, page []byte, name string, height int, v view) image.Image {
	t.Helper()
	height = height * views[0].width / v.width
	measured := bytes.Replace(page, []byte("</body>"), []byte("<script>"+layout+"</script></body>"), 1)
	frame := fmt.Appendf(nil, `<!DOCTYPE html><body style="margin: 0"><iframe width="%d" height="%d" style="border: 0" `+
		`srcdoc="%s"></iframe></body>`, v.width, height, html.EscapeString(string(measured)))
	args := []string{"--dump-dom", fmt.Sprintf("--window-size=%d,%d", max(v.width, 500), height)}
	if v.dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	img, dom := snap(t, write(t, frame), name+"-"+v.String(), args...)
	if m := layoutRE.FindStringSubmatch(dom); m == nil {
		t.Fatalf("%s, %v: the browser did not get to the end of the page: %.200s", name, v, dom)
	} else if m[1] != "fine" {
		t.Errorf("%s, %v: %s", name, v, m[1])
	}
	return img
}

// snap opens a page or a figure, and returns and keeps a picture of it with what the browser printed.
func snap(t *testing.T, page, name string, args ...string) (image.Image, string) {
	t.Helper()
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(shots, name+".png")
	out := browse(t, page, append(args, "--screenshot="+file)...)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return img, out
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

// TestBrowserDrawsTheReport opens the report as readers would: no errors, no network, nothing that
// cannot be read, every link's colour on the screen, by day and by night, at a desk and on a phone.
func TestBrowserDrawsTheReport(t *testing.T) {
	t.Parallel()
	page, err := Render(synthetic())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		img := look(t, page, "report", 3400, v)
		for i, link := range colours[:3] {
			if v.dark {
				link = darkColour(t, i)
			}
			if n := count(img, link); n < 2000 {
				t.Errorf("%v: %d pixels of %s: the plots are empty", v, n, link)
			}
		}
		if n, ref := count(img, map[bool]string{false: "#7a3fc0", true: "#c39bff"}[v.dark]), 300; n < ref {
			t.Errorf("%v: %d pixels of published values", v, n)
		}
	}
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
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		img := look(t, page, "overview", 900, v)
		if n := count(img, "#116b3a"); n < 200 && !v.dark {
			t.Errorf("%v: %d pixels of passed claims", v, n)
		}
	}
}

// TestBrowserDrawsAnExportedFigure proves that a figure stands alone.
func TestBrowserDrawsAnExportedFigure(t *testing.T) {
	t.Parallel()
	r := synthetic()
	path := filepath.Join(t.TempDir(), "figure.svg")
	if err := os.WriteFile(path, SVG(r, r.Figures[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	img, _ := snap(t, path, "figure", "--window-size=1060,700")
	if n := count(img, colours[0]); n < 2000 {
		t.Errorf("%d pixels of the first link", n)
	}
}

var pages = flag.String("pages", "", "look at every page in this directory, and take pictures of each")

// TestBrowserOpensPages looks at the overview and the reports of real runs: build/lab leaves them to it
// (go test ./lab/report -run OpensPages -pages DIR).
func TestBrowserOpensPages(t *testing.T) {
	if *pages == "" {
		return
	}
	list, _ := filepath.Glob(filepath.Join(*pages, "*.html"))
	if len(list) == 0 {
		t.Fatalf("no pages in %s", *pages)
	}
	for _, path := range list {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".html")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range views {
				look(t, page, name, 4200, v)
			}
		})
	}
}
