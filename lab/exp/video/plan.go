package video

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/scene"
	"roam/lab/video"
)

// links are the mobile host's, in the order of the movement: aa, bb and cc of the
// thesis.
var links = []string{"net1", "net2", "net3"}

// mobilityPlan is the schedule of §4.5.1: each time the next link gets carrier, and the one
// in use loses it an overlap later.
func mobilityPlan(p exp.Params) scene.Schedule {
	var s scene.Schedule
	n, lead, period := p.Int("handoffs"), p.Seconds("lead_s"), p.Seconds("period_s")
	s.Soft(lead, n, period, p.Seconds("overlap_s"), links...)
	s.Length = lead + time.Duration(n)*period
	return s
}

// dualityPlan is the schedule of §4.5.2 and Fig. 6.9.
func dualityPlan(p exp.Params) scene.Schedule {
	var s scene.Schedule
	s.Duality(p.Seconds("phase_s"), links...)
	return s
}

// withoutCommands is the schedule for arms that accept no commands: it detaches a link
// where Roam withdraws from it.
func withoutCommands(s scene.Schedule) scene.Schedule {
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		switch s.Steps[i].Op {
		case scene.Disable:
			s.Steps[i].Op = scene.Cut
		case scene.Enable:
			s.Steps[i].Op = scene.Attach
		}
	}
	return s
}

// group are the streams that are measured at the same time.
type group struct {
	rttMs int
	clips []video.Clip
}

// name identifies the group in names of cells and files.
func (g group) name() string {
	var clips []string
	for _, c := range g.clips {
		clips = append(clips, c.String())
	}
	return fmt.Sprintf("%dms-%s", g.rttMs, strings.Join(clips, "-"))
}

// cellName names one cell of the thesis's tables.
type cellName struct {
	rttMs, height int
	clip          string
}

// String is the cell as people read it.
func (c cellName) String() string { return fmt.Sprintf("%dp %s, %d ms", c.height, c.clip, c.rttMs) }

// groups returns the groups to measure: each cell by itself, or the cells of one round-trip
// time together.
func groups(p exp.Params, length time.Duration) ([]group, error) {
	rtts, err := numbers("rtts_ms", p.Text("rtts_ms"), func(n int) bool { return n >= 0 && n <= 2000 })
	if err != nil {
		return nil, err
	}
	heights, err := numbers("heights", p.Text("heights"), func(n int) bool {
		return video.Clip{Kind: video.Motion, Height: n}.Rate() > 0
	})
	if err != nil {
		return nil, err
	}
	var clips []video.Clip
	for _, h := range heights {
		for _, kind := range strings.Split(p.Text("clips"), ",") {
			c := video.Clip{Kind: strings.TrimSpace(kind), Height: h, Seconds: int((length + time.Second - 1) / time.Second)}
			if c.Rate() == 0 {
				return nil, fmt.Errorf("parameter clips: no clip is called %q; there are %s", kind, strings.Join(video.Kinds, ", "))
			}
			clips = append(clips, c)
		}
	}
	var out []group
	for _, rtt := range rtts {
		if p.Bool("at_once") {
			out = append(out, group{rtt, clips})
			continue
		}
		for c := range slices.Chunk(clips, 1) {
			out = append(out, group{rtt, c})
		}
	}
	return out, nil
}

// numbers reads a list such as "0,20,200".
func numbers(name, list string, fits func(int) bool) (out []int, err error) {
	for _, f := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || !fits(n) {
			return nil, fmt.Errorf("parameter %s: %q is not possible", name, f)
		}
		out = append(out, n)
	}
	return out, nil
}

// config is the network of the drawing for one arm.
func (c *campaign) config(name string, of arm.Arm, rttMs int) scene.Config {
	p := c.env.Params
	rtt := time.Duration(rttMs) * time.Millisecond
	link := scene.Symmetric(linkem.Params{
		Delay:        rtt / 2,
		Rate:         int64(p.Float("rate_mbps") * 1e6),
		QueuePackets: p.Int("queue_packets"),
	})
	return scene.Config{
		Name: name, Arm: of, Mode: c.kind.mode, Seed: c.env.Seed, Mobile: []scene.Access{link, link, link},
		Advert: scene.RA{
			Min:       p.Seconds("ra_min_s"),
			Max:       p.Seconds("ra_max_s"),
			Preferred: p.Seconds("preferred_s"),
			Valid:     p.Seconds("valid_s"),
		},
	}
}
