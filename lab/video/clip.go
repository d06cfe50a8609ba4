// Package video makes the clips that the lab streams and measures their quality on arrival:
// per-frame SSIM and PSNR of a received stream against the sent one.
//
// It implements two synthetic clips of different character in H.264 at the bit rates of a
// publication, comparison frame by frame, the thesis's summary of a series of runs, and
// frames side by side as a picture. All decoding and encoding is ffmpeg's. It omits the
// network and RTP (lab/workload/rtpflow). It is driven by lab/exp/video.
package video

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// FrameRate is the rate of all clips, in frames per second.
const FrameRate = 24

// The kinds of clips.
const (
	Motion = "motion" // large areas that rotate and scroll: few details, much movement
	Detail = "detail" // a fine carpet under moving colours: many details, little movement
)

// Kinds are all kinds of clips.
var Kinds = []string{Motion, Detail}

// loopSeconds is how much of a clip is encoded; a longer one repeats it.
const loopSeconds = 10

// keyframes is the distance of key frames, in frames: how long damage can last.
const keyframes = 48

// Clip is a clip to be made.
type Clip struct {
	Kind    string // Motion or Detail
	Height  int    // 720, 1080 or 2160; the sides are 16:9
	Seconds int
}

// rates are the bit rates of the streams that the thesis sent, in kb/s (its
// Tab. 7.4, column IPv6): Tears of Steel, live action, and Big Buck Bunny,
// animation.
var rates = map[string]map[int]int{
	Motion: {720: 2040, 1080: 3710, 2160: 16100},
	Detail: {720: 1930, 1080: 3130, 2160: 8990},
}

// Rate returns the bit rate that the clip aims at, container included, in kb/s.
func (c Clip) Rate() int { return rates[c.Kind][c.Height] }

// String names the clip as in metrics: 720p_motion.
func (c Clip) String() string { return fmt.Sprintf("%dp_%s", c.Height, c.Kind) }

// source returns the filter graph that draws the clip.
func (c Clip) source() string {
	size := fmt.Sprintf("%dx%d", c.Height*16/9, c.Height)
	if c.Kind == Motion {
		return fmt.Sprintf("testsrc2=s=%s:r=%d,format=yuv420p,rotate=a=t*0.6:c=0x304050,scroll=h=0.012:v=0.005", size,
			FrameRate)
	}
	// The colours have no detail of their own, so they are rendered small.
	return fmt.Sprintf(
		"gradients=s=160x90:r=%[2]d:speed=0.01:nb_colors=6:seed=3,format=yuv420p,scale=%[1]s:flags=fast_bilinear[colours];"+
			"sierpinski=s=%[1]s:r=%[2]d:seed=5:jump=200,format=yuv420p[carpet];[colours][carpet]blend=all_mode=overlay:all_opacity=0.6", size, FrameRate)
}

// Make writes the clip to a file as an MPEG transport stream.
func (c Clip) Make(ctx context.Context, path string) error {
	if c.Rate() == 0 || c.Seconds <= 0 {
		return fmt.Errorf("make clip %v of %d s: no such clip", c, c.Seconds)
	}
	rate := fmt.Sprintf("%dk", c.Rate()*95/100) // the container takes the rest
	part := path + ".part"
	defer os.Remove(part)
	length := min(c.Seconds, loopSeconds)
	_, err := run(ctx, "ffmpeg", "-f", "lavfi", "-i", c.source(), "-t", strconv.Itoa(length), "-pix_fmt", "yuv420p",
		"-c:v", "libx264", "-preset", "ultrafast", "-g", strconv.Itoa(keyframes),
		"-b:v", rate, "-maxrate", rate, "-bufsize", rate, "-f", "mpegts", part)
	if err != nil {
		return fmt.Errorf("make clip %v: %w", c, err)
	}
	loops := strconv.Itoa((c.Seconds+length-1)/length - 1)
	if _, err := run(ctx, "ffmpeg", "-stream_loop", loops, "-i", part, "-t", strconv.Itoa(c.Seconds), "-c", "copy", "-f",
		"mpegts", path); err != nil {
		return fmt.Errorf("make clip %v: %w", c, err)
	}
	return nil
}

// run runs one of ffmpeg's programs and returns its output. Its error quotes the end of
// standard error.
func run(ctx context.Context, program string, args ...string) ([]byte, error) {
	head := []string{"-v", "error"}
	if program == "ffmpeg" {
		head = append(head, "-nostdin", "-y")
	}
	cmd := exec.CommandContext(ctx, program, append(head, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(said.String())
		return nil, fmt.Errorf("run %s: %w: %s", program, err, text[max(0, len(text)-400):])
	}
	return out, nil
}
