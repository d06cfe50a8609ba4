package video

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/video"
	"roam/lab/workload"
	"roam/lab/workload/rtpflow"
)

// basePort is the port of the first stream; each has two.
const basePort = 7000

// flowsWithin bounds the wait for the first packets of all streams.
const flowsWithin = 20 * time.Second

// drainWithin bounds the wait for the end of all streams after the schedule.
const drainWithin = 60 * time.Second

// Seen is the result of one stream. Cells store it, like all types here with exported
// fields.
type Seen struct {
	Count        rtpflow.Count
	Late         int // arrived too late for the player
	Unknown      int // packets that differ from every sent one
	Refused      int // by the recorder's receive buffer
	Mbps         float64
	LongestGapMs float64 // between two packets
	LongestGapAt float64 // when it began, in seconds since the start of the schedule
	Ahead        float64 // how long the stream ran before the schedule, in seconds
	Quality      video.Quality
	Still        []byte // a JPEG, see campaign.frame
	SentStill    []byte // the same frame as it was sent
}

// Pass is one arm's pass through the schedule.
type Pass struct {
	Streams map[string]Seen // by clip
	Drops   map[string]uint64
	Shares  map[string]float64 // of the links in the bytes to the mobile host, in per cent
	Start   int64              // of the schedule, nanoseconds of Unix time
	Rates   []result.Series
	Marks   []result.Event
}

// flaw says why a pass does not measure the network, or returns "".
func (p Pass) flaw(clip string) string {
	switch {
	case p.Streams[clip].Refused > 0:
		return fmt.Sprintf("the receive buffer refused %d datagrams", p.Streams[clip].Refused)
	case p.Drops["queue"]+p.Drops["refused"] > 0:
		return fmt.Sprintf("the emulator dropped %d frames unasked", p.Drops["queue"]+p.Drops["refused"])
	}
	return ""
}

// campaign measures the cells of one experiment.
type campaign struct {
	env    *exp.Env
	kind   kind
	plan   scene.Schedule
	groups []group
	studio *studio

	outcomes []outcome
}

// outcome holds the results of one group.
type outcome struct {
	group
	static Pass
	plain  *Pass // nil if the control was turned off
	roam   []Pass
}

// measure measures all groups, except stored cells.
func (c *campaign) measure(ctx context.Context) error {
	p := c.env.Params
	runs, arms := p.Int("repetitions"), 1
	if p.Bool("control") {
		arms++
	}
	c.env.View.Cells(len(c.groups) * (runs + arms))
	for _, g := range c.groups {
		o := outcome{group: g}
		var err error
		if o.static, err = c.cell(ctx, arm.Static, g, 0, nil); err != nil {
			return err
		}
		if p.Bool("control") {
			plain, err := c.cell(ctx, arm.Plain, g, 0, nil)
			if err != nil {
				return err
			}
			o.plain = &plain
		}
		for n := range runs {
			pass, err := c.cell(ctx, arm.Roam, g, n, o.plain)
			if err != nil {
				return err
			}
			o.roam = append(o.roam, pass)
		}
		c.outcomes = append(c.outcomes, o)
	}
	return nil
}

// cell is one pass, measured or found.
func (c *campaign) cell(ctx context.Context, of arm.Arm, g group, n int, plain *Pass) (Pass, error) {
	name := fmt.Sprintf("%s-%s-%d", g.name(), of.Name(), n+1)
	return exp.Cell(c.env, name, func(w *exp.Window) (p Pass, err error) {
		dir, err := c.studio.workspace(name)
		if err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		var takes []*take
		for _, clip := range g.clips {
			t, err := c.studio.take(ctx, clip)
			if err != nil {
				return p, err
			}
			takes = append(takes, t)
		}
		got, p, err := c.stream(ctx, w, of, g, dir, takes)
		if err != nil {
			return p, fmt.Errorf("arm %s: %w", of.Name(), err)
		}
		c.env.View.Phase("%s: comparing frames", of.Name())
		for i, t := range takes {
			seen, err := t.judge(ctx, dir, got[i].recording, p.Start, c.env.Params.Millis("reorder_ms"))
			if err != nil {
				return p, err
			}
			seen.Refused = got[i].refused
			if n == 0 && of.Traits().Moves {
				if err := c.stills(ctx, t, dir, &seen, plain); err != nil {
					return p, err
				}
			}
			p.Streams[t.clip.String()] = seen
		}
		return p, nil
	})
}

// stills draws the frame that the control showed worst, as this arm showed it
// and as it was sent.
func (c *campaign) stills(ctx context.Context, t *take, dir string, seen *Seen, plain *Pass) (err error) {
	frame := seen.Quality.Worst()
	if plain != nil {
		frame = plain.Streams[t.clip.String()].Quality.Worst()
	}
	if seen.Still, err = t.still(ctx, dir, frame); err != nil {
		return err
	}
	seen.SentStill, err = video.Still(ctx, t.stream, t.stream, frame, stillWidth)
	return err
}

// recorded is a recording and the number of datagrams that the receive buffer dropped.
type recorded struct {
	recording *rtpflow.Recording
	refused   int
}

// stream builds the network of an arm and receives the clips during the schedule. It
// removes the network before it returns.
func (c *campaign) stream(ctx context.Context, w *exp.Window, of arm.Arm, g group, dir string,
	takes []*take) (got []recorded, p Pass, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.env.View.Phase("%s, %d ms: setting up", of.Name(), g.rttMs)
	s, err := scene.Build(ctx, c.env, c.config("v"+of.Name(), of, g.rttMs))
	if err != nil {
		return nil, p, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	stopCapture, err := c.capture(ctx, s, g)
	if err != nil {
		return nil, p, err
	}
	defer func() { err = errors.Join(err, stopCapture()) }()
	if err := resolve(ctx, s); err != nil {
		return nil, p, err
	}
	w.Open()
	streams, err := start(ctx, s, dir, takes)
	defer func() {
		for _, r := range streams {
			r.Kill()
		}
	}()
	if err != nil {
		return nil, p, err
	}
	plan := c.plan
	if !of.Traits().Commands {
		plan = withoutCommands(plan)
	}
	trace, err := s.Run(ctx, plan, board(streams))
	if err != nil {
		return nil, p, err
	}
	wctx, stop := context.WithTimeout(ctx, drainWithin)
	defer stop()
	for _, r := range streams {
		rec, err := r.Wait(wctx, quiet)
		if err != nil {
			return nil, p, err
		}
		got = append(got, recorded{rec, r.BufferErrors()})
	}
	w.Shut()
	p = Pass{Streams: map[string]Seen{}, Drops: s.Drops(), Start: trace.Start.UnixNano()}
	p.observe(trace, of)
	return got, p, nil
}

// snaplen is how much of each packet captures keep, as in the thesis (§7.4.4).
const snaplen = 128

// capture captures at both ends if the user wants captures.
func (c *campaign) capture(ctx context.Context, s *scene.Scene, g group) (stop func() error, err error) {
	if c.env.Pcap == "" {
		return func() error { return nil }, nil
	}
	caps, err := s.Capture(ctx, filepath.Join(c.env.Pcap, g.name()+"-"+s.Arm().Name()), snaplen)
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := caps.Stop() // dropped packets are missing in the file only
		return err
	}, nil
}

// resolve makes every host and router on the path resolve its neighbors. Throughput counts
// from the first packet: neighbor discovery at the start would make the rest look faster.
func resolve(ctx context.Context, s *scene.Scene) error {
	ctx, cancel := context.WithTimeout(ctx, flowsWithin)
	defer cancel()
	to := s.Mobile().Addr
	return topo.Wait(ctx, "an echo from "+to.String(), func() bool {
		return s.Peer(0).Host.Command(ctx, "ping", "-6", "-c", "1", "-W", "1", to.String()).Run() == nil
	})
}

// start starts a stream per clip from the correspondent to the mobile host, and waits until
// each has delivered data.
func start(ctx context.Context, s *scene.Scene, dir string, takes []*take) (streams []*workload.RTP, err error) {
	for i, t := range takes {
		r, err := workload.StartRTP(ctx, s.Mobile().Host, s.Peer(0).Host, dir, workload.RTPOptions{
			Name: t.clip.String(), Clip: t.path, Target: "mn", Port: basePort + 2*i,
		})
		if err != nil {
			return streams, err
		}
		streams = append(streams, r)
	}
	ctx, cancel := context.WithTimeout(ctx, flowsWithin)
	defer cancel()
	return streams, topo.Wait(ctx, "the first packets of every stream", func() bool {
		for _, r := range streams {
			if r.State().Progress == 0 {
				return false
			}
		}
		return true
	})
}

// board returns the streams for the live view.
func board(streams []*workload.RTP) func() []live.Session {
	return func() (out []live.Session) {
		for _, r := range streams {
			out = append(out, workload.Row(r))
		}
		return out
	}
}

// observe stores the parts of a trace that the report shows.
func (p *Pass) observe(t *scene.Trace, of arm.Arm) {
	_, p.Shares = t.Shares(t.Start, t.End)
	r := result.New("")
	t.AddRates(r, of.Name())
	for _, s := range r.Series {
		if strings.Contains(s.Name, " in ") { // towards the mobile host
			p.Rates = append(p.Rates, s)
		}
	}
	for _, s := range t.Steps {
		if label := mark(s.Step, of); label != "" {
			p.Marks = append(p.Marks, result.Event{T: t.Rel(s.At), Arm: of.Name(), Kind: "step", Label: label})
		}
	}
}

// mark is how figures label a step.
func mark(s scene.Step, of arm.Arm) string {
	switch {
	case !of.Traits().Moves:
		return ""
	case s.Op == scene.Detach:
		return s.Link + " cut"
	}
	return s.Name
}
