package video

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Quality is the quality of a received stream, for each frame of the sent one: a missing
// frame counts as a repetition of the last one, as on a screen.
type Quality struct {
	Identical bool            `json:"identical"`           // the streams are equal to the byte
	Frames    int             `json:"frames"`              // of the sent stream
	Missing   int             `json:"missing"`             // at the start, before the first frame
	Imperfect map[int]float64 `json:"imperfect,omitempty"` // PSNR in dB of shown frames that differ; first is 0
	SSIM      []float64       `json:"ssim,omitempty"`      // of each frame; 0 for the missing; empty if Identical
}

// Perfect returns the share of frames equal to the sent ones.
func (q Quality) Perfect() float64 {
	if q.Frames == 0 {
		return 0
	}
	return float64(q.Frames-q.Missing-len(q.Imperfect)) / float64(q.Frames)
}

// MeanSSIM returns the mean over all frames.
func (q Quality) MeanSSIM() float64 {
	if q.Identical {
		return 1
	}
	sum := 0.0
	for _, v := range q.SSIM {
		sum += v
	}
	return sum / float64(max(1, len(q.SSIM)))
}

// MedianSSIM returns the median over all frames.
func (q Quality) MedianSSIM() float64 {
	if q.Identical {
		return 1
	}
	if len(q.SSIM) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(q.SSIM))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Worst returns the frame with the least SSIM after the first displayed one, or 0 if all
// are perfect or none was displayed.
func (q Quality) Worst() int {
	worst := q.Missing
	if worst >= len(q.SSIM) {
		return 0
	}
	for i := worst; i < len(q.SSIM); i++ {
		if q.SSIM[i] < q.SSIM[worst] {
			worst = i
		}
	}
	return worst
}

// Compare compares a received transport stream with the sent one. Equal streams are perfect
// by definition, and are not decoded. Otherwise it decodes both, and compares frames that
// are due at the same time, so that a lost frame does not shift the others. It leaves files
// in dir.
func Compare(ctx context.Context, dir, sent, got string) (Quality, error) {
	q := Quality{}
	var err error
	if q.Frames, err = frames(ctx, sent); err != nil {
		return q, err
	}
	if q.Identical, err = identical(sent, got); err != nil || q.Identical {
		return q, err
	}
	ssim, psnr := filepath.Join(dir, "ssim.log"), filepath.Join(dir, "psnr.log")
	if err := compare(ctx, sent, got, ssim, psnr); err != nil {
		return q, err
	}
	texts := [2]string{}
	for i, path := range []string{ssim, psnr} {
		b, err := os.ReadFile(path)
		if err != nil {
			return q, fmt.Errorf("read figures of frames: %w", err)
		}
		texts[i] = string(b)
	}
	return Read(q.Frames, texts[0], texts[1])
}

// Read reads the SSIM and the PSNR of the compared frames, which are the last ones of the sent stream,
// as ffmpeg writes them.
func Read(frames int, ssim, psnr string) (Quality, error) {
	q := Quality{Frames: frames}
	s, err := figures(ssim, "All")
	if err != nil {
		return q, err
	}
	p, err := figures(psnr, "psnr_avg")
	if err != nil {
		return q, err
	}
	if len(s) != len(p) || len(s) > frames {
		return q, fmt.Errorf("compare streams: %d frames have SSIM and %d have PSNR, of %d", len(s), len(p), frames)
	}
	q.Missing = frames - len(s)
	q.SSIM = append(make([]float64, q.Missing), s...)
	q.Imperfect = map[int]float64{}
	for i, v := range p {
		if !math.IsInf(v, 1) {
			q.Imperfect[q.Missing+i] = v
		}
	}
	return q, nil
}

// decode are the options for a damaged input: keep its own clock, and drop no frame because
// of damage.
var decode = []string{"-copyts", "-err_detect", "ignore_err", "-flags", "+output_corrupt"}

// inputs returns the options for several inputs.
func inputs(files ...string) (args []string) {
	for _, f := range files {
		args = append(append(args, decode...), "-i", f)
	}
	return args
}

// compare writes the figures of each frame. If nothing of a stream can be decoded, the
// files are empty.
func compare(ctx context.Context, sent, got, ssim, psnr string) error {
	for _, f := range []string{ssim, psnr} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			return fmt.Errorf("compare streams: %w", err)
		}
	}
	if n, err := frames(ctx, got); err != nil || n == 0 {
		return ctx.Err() // the received stream has no picture
	}
	// The sent stream comes first: its frames are compared with the latest of the other.
	graph := "[0:v]split[a][b];[1:v]split[c][d];[a][c]ssim=stats_file=" + ssim + "[s];[b][d]psnr=stats_file=" + psnr +
		"[p]"
	args := append(inputs(sent, got), "-filter_complex", graph, "-map", "[s]", "-map", "[p]", "-f", "null", "-")
	if _, err := run(ctx, "ffmpeg", args...); err != nil {
		return fmt.Errorf("compare streams: %w", err)
	}
	return nil
}

// frames counts the frames of a stream without decoding them.
func frames(ctx context.Context, path string) (int, error) {
	out, err := run(ctx, "ffprobe", "-select_streams", "v:0", "-count_packets", "-show_entries",
		"stream=nb_read_packets", "-of", "csv=p=0", path)
	if err != nil {
		return 0, fmt.Errorf("count frames: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	n, err := strconv.Atoi(strings.Trim(first, ", "))
	if err != nil {
		return 0, fmt.Errorf("count frames of %s: %w", path, err)
	}
	return n, nil
}

// field matches a figure of a frame in a line such as "n:7 Y:0.98 U:0.99 V:0.99 All:0.98
// (18.1)".
func field(name string) *regexp.Regexp { return regexp.MustCompile(`(?:^| )` + name + `:(\S+)`) }

// figures reads one figure of each frame.
func figures(text, name string) (out []float64, err error) {
	want := field(name)
	for line := range strings.Lines(text) {
		m := want.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return nil, fmt.Errorf("read figures of frames: no %s in %q", name, line)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return nil, fmt.Errorf("read figures of frames: %w", err)
		}
		out = append(out, v)
	}
	return out, nil
}

// identical reports whether two files are equal to the byte.
func identical(a, b string) (bool, error) {
	fa, err := os.Open(a)
	if err != nil {
		return false, fmt.Errorf("compare streams: %w", err)
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return false, fmt.Errorf("compare streams: %w", err)
	}
	defer fb.Close()
	ra, rb := bufio.NewReader(fa), bufio.NewReader(fb)
	ba, bb := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, ea := io.ReadFull(ra, ba)
		m, eb := io.ReadFull(rb, bb)
		if err := errors.Join(fault(ea), fault(eb)); err != nil || !bytes.Equal(ba[:n], bb[:m]) {
			return false, err
		}
		if ea != nil { // and so has the other one ended
			return true, nil
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// fault returns nil at the end of a file.
func fault(err error) error {
	if err == nil || ended(err) {
		return nil
	}
	return fmt.Errorf("compare streams: %w", err)
}
