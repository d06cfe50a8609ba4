package video

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What ffmpeg writes of frames is read by name, and belongs to the last frames.
func TestReadFigures(t *testing.T) {
	const ssim = "n:1 Y:0.98 U:0.99 V:0.99 All:0.500000 (3.01)\nn:2 Y:1.0 U:1.0 V:1.0 All:0.900000 (inf)\n"
	const psnr = "n:1 mse_avg:9.0 psnr_avg:17.25 psnr_y:1.0\nn:2 mse_avg:0.00 psnr_avg:inf psnr_y:inf\n"
	q, err := Read(4, ssim, psnr)
	if err != nil || q.Identical || q.Frames != 4 || q.Missing != 2 || len(q.Imperfect) != 1 ||
		q.Imperfect[2] != 17.25 || !slices.Equal(q.SSIM, []float64{0, 0, 0.5, 0.9}) || q.Perfect() != 0.25 {
		t.Errorf("%+v, %v", q, err)
	}
	if q, err = Read(2, ssim, psnr); err != nil || q.Missing != 0 || q.Perfect() != 0.5 {
		t.Errorf("of two frames: %+v, %v", q, err)
	}
	if q, err = Read(3, "", ""); err != nil || q.Missing != 3 || q.Perfect() != 0 {
		t.Errorf("nothing was shown: %+v, %v", q, err)
	}
	for name, c := range map[string][2]string{
		"one has fewer": {ssim, psnr[:42]}, "no SSIM": {"n:1 Y:0.98\n", psnr}, "no PSNR": {ssim, "n:1\nn:2\n"},
		"no number": {"All:x\n", "psnr_avg:1\n"}, "another name": {"SmAll:1\n", "psnr_avg:1\n"},
	} {
		if q, err := Read(4, c[0], c[1]); err == nil {
			t.Errorf("%s: %+v", name, q)
		}
	}
	if q, err := Read(1, ssim, psnr); err == nil {
		t.Errorf("more frames than were sent: %+v", q)
	}
}

// Figures over all frames; of frames with an even number the median is between two.
func TestQuality(t *testing.T) {
	for name, c := range map[string]struct {
		q                     Quality
		perfect, mean, median float64
		worst                 int
	}{
		"identical": {Quality{Identical: true, Frames: 3}, 1, 1, 1, 0},
		"no frames": {Quality{}, 0, 0, 0, 0},
		"even":      {Quality{Frames: 4, SSIM: []float64{0.1, 0.9, 0.5, 0.7}}, 1, 0.55, 0.6, 0},
		"odd": {Quality{Frames: 3, Missing: 1, SSIM: []float64{0, 0.9, 0.6}, Imperfect: map[int]float64{2: 9}},
			1.0 / 3, 0.5, 0.6, 2},
		"first":      {Quality{Frames: 3, SSIM: []float64{0.2, 0.9, 0.2}}, 1, 1.3 / 3, 0.2, 0},
		"none shown": {Quality{Frames: 2, Missing: 2, SSIM: []float64{0, 0}}, 0, 0, 0, 0},
	} {
		for what, v := range map[string][2]float64{"perfect": {c.q.Perfect(), c.perfect}, "mean": {c.q.MeanSSIM(), c.mean},
			"median": {c.q.MedianSSIM(), c.median}, "worst": {float64(c.q.Worst()), float64(c.worst)}} {
			if !(math.Abs(v[0]-v[1]) <= 1e-9) { // which NaN is not, either
				t.Errorf("%s: %s %g, want %g", name, what, v[0], v[1])
			}
		}
	}
}

// Streams are equal if each byte is, to the end, and neither goes on.
func TestIdentical(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, n int, last byte) string {
		b := append(make([]byte, n), last)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	long := file("long", 2<<16, 1)
	for name, c := range map[string]struct {
		other string
		want  bool
	}{
		"the same": {file("same", 2<<16, 1), true}, "the last byte": {file("last", 2<<16, 2), false},
		"longer": {file("longer", 3<<16, 1), false}, "shorter": {file("shorter", 1<<16, 0), false},
		"empty": {os.DevNull, false},
	} {
		for _, pair := range [][2]string{{long, c.other}, {c.other, long}} {
			if got, err := identical(pair[0], pair[1]); err != nil || got != c.want {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	}
	if got, err := identical(file("whole", 1<<16-1, 1), file("whole2", 1<<16-1, 1)); err != nil || !got {
		t.Errorf("one buffer: %v, %v", got, err)
	}
	none := filepath.Join(dir, "none")
	for _, pair := range [][2]string{{long, none}, {none, long}, {dir, long}, {long, dir}} {
		if _, err := identical(pair[0], pair[1]); err == nil {
			t.Errorf("%q are compared", pair)
		}
	}
}
