package video

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"roam/lab/exp"
	"roam/lab/topo"
	"roam/lab/video"
	"roam/lab/workload"
	"roam/lab/workload/rtpflow"
)

// takeSpeed is the factor at which a clip is sent over loopback to record ffmpeg's packets.
const takeSpeed = 8

// quiet is the time without arrivals after which a stream has ended.
const quiet = 700 * time.Millisecond

// take is a clip ready for streaming, with the packets that ffmpeg sends.
type take struct {
	clip   video.Clip
	path   string             // of the clip
	sent   *rtpflow.Recording // ffmpeg's packets
	stream string             // the transport stream inside
}

// studio makes clips, each once in a run, on first use.
type studio struct {
	env   *exp.Env
	takes map[string]*take
}

func newStudio(env *exp.Env) *studio { return &studio{env: env, takes: map[string]*take{}} }

// take makes a clip and sends it over loopback, in a namespace of its own. A recording with
// loss or disorder is an error, since it is the reference.
func (s *studio) take(ctx context.Context, clip video.Clip) (t *take, err error) {
	if t := s.takes[clip.String()]; t != nil {
		return t, nil
	}
	t = &take{
		clip:   clip,
		path:   filepath.Join(s.env.Dir, clip.String()+".clip.ts"),
		stream: filepath.Join(s.env.Dir, clip.String()+".sent.ts"),
	}
	s.env.View.Phase("making clip %v, %d s", clip, clip.Seconds)
	if err := clip.Make(ctx, t.path); err != nil {
		return nil, err
	}
	lab, err := topo.New("studio")
	if err != nil {
		return nil, fmt.Errorf("make topology: %w", err)
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	host, err := lab.Host("studio")
	if err != nil {
		return nil, err
	}
	r, err := workload.StartRTP(ctx, host, host, s.env.Dir, workload.RTPOptions{
		Name:   clip.String() + ".sent",
		Clip:   t.path,
		Target: "::1",
		Port:   basePort,
		Speed:  takeSpeed,
	})
	if err != nil {
		return nil, err
	}
	defer r.Kill()
	if t.sent, err = r.Wait(ctx, quiet); err != nil {
		return nil, err
	}
	if err := t.sent.Complete(); err != nil {
		return nil, fmt.Errorf("take clip %v on loopback: %w", clip, err)
	}
	if n := r.BufferErrors(); n != 0 {
		return nil, fmt.Errorf("take clip %v on loopback: the receive buffer refused %d datagrams", clip, n)
	}
	s.takes[clip.String()] = t
	return t, t.sent.WriteTo(t.stream)
}

// judge compares a received stream, whose schedule began at start (nanoseconds of Unix
// time), with the sent one. It leaves files in dir.
func (t *take) judge(ctx context.Context, dir string, got *rtpflow.Recording, start int64,
	depth time.Duration) (seen Seen, err error) {
	seen, f, order := t.read(got, start, depth)
	stream := t.received(dir)
	if err := f.WriteTo(stream, order); err != nil {
		return seen, err
	}
	seen.Quality, err = video.Compare(ctx, dir, t.stream, stream)
	return seen, err
}

// read takes the figures from a recording, and the packets in the order in which a player shows them.
func (t *take) read(got *rtpflow.Recording, start int64, depth time.Duration) (seen Seen, f *rtpflow.Flow,
	order []rtpflow.Arrival) {
	f = rtpflow.Match(t.sent, got)
	order, late := f.Played(depth)
	seen = Seen{Count: f.Count(), Late: late, Unknown: f.Unknown, Mbps: mbps(f)}
	if len(f.Arrivals) > 0 { // the first to arrive need not be the first sent
		first := f.Arrivals[0]
		seen.Ahead = float64(start-first.At)/1e9 + float64(t.clip.Seconds)*float64(first.Index)/float64(len(f.Sent))
	}
	for _, g := range f.Gaps(0) {
		if ms := float64(g[1]-g[0]) / 1e6; ms > seen.LongestGapMs {
			seen.LongestGapMs, seen.LongestGapAt = ms, float64(g[0]-start)/1e9
		}
	}
	return seen, f, order
}

// received is where the stream lies that judge saw.
func (t *take) received(dir string) string { return filepath.Join(dir, t.clip.String()+".ts") }

// still returns the picture that a received stream showed when a frame was due.
func (t *take) still(ctx context.Context, dir string, frame int) ([]byte, error) {
	return video.Still(ctx, t.stream, t.received(dir), frame, stillWidth)
}

// stillWidth is the width of a frame in the report, in pixels.
const stillWidth = 320

// mbps is the throughput as the thesis reckons it: IPv6 payload that arrived,
// over the time from the first packet to the last.
func mbps(f *rtpflow.Flow) float64 {
	if len(f.Arrivals) < 2 {
		return 0
	}
	const headers = 8 + 12 // UDP, RTP
	nbytes := 0
	for _, a := range f.Arrivals {
		nbytes += a.Bytes + headers
	}
	span := f.Arrivals[len(f.Arrivals)-1].At - f.Arrivals[0].At
	return float64(nbytes) * 8e3 / float64(max(span, 1))
}

// workspace makes a directory for one pass.
func (s *studio) workspace(name string) (string, error) {
	dir := filepath.Join(s.env.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make directory of pass: %w", err)
	}
	return dir, nil
}
