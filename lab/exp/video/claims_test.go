package video

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/video"
	"roam/lab/workload/rtpflow"
)

// received is a stream of a thousand frames, of which the first few are imperfect, with the
// same SSIM in all frames but for as many bad ones.
func received(imperfect, bad int) Seen {
	q := video.Quality{Frames: 1000, Imperfect: map[int]float64{}, SSIM: make([]float64, 1000)}
	for i := range q.SSIM {
		q.SSIM[i] = 0.95
		if i < imperfect {
			q.Imperfect[i] = 20
		}
		if i < bad {
			q.SSIM[i] = 0.5
		}
	}
	return Seen{Count: rtpflow.Count{Sent: 10_000, Received: 10_000, Bytes: 99_950}, Mbps: 1.999, Quality: q}
}

// passes are the records of one group of cells, one of each height, received twice.
type passes struct {
	plain  Pass
	static Pass
	roam   []Pass
}

var heights = []int{720, 1080, 2160}

func clipOf(height, seconds int) string {
	return video.Clip{Kind: video.Motion, Height: height, Seconds: seconds}.String()
}

// observed is a pass of an arm in which each link carries its share.
func observed(of arm.Arm, least uint64) Pass {
	p := Pass{Streams: map[string]Seen{}, Drops: map[string]uint64{"cut": 4}}
	a := scene.Sample{At: exptest.Origin, Out: map[string]uint64{}, In: map[string]uint64{"net1": 5, "net2": 6, "net3": 7}}
	b := scene.Sample{At: exptest.At(10 * time.Second), Out: map[string]uint64{}, In: map[string]uint64{"net1": 5 + 5000,
		"net2": 6 + 5000 - least, "net3": 7 + least}}
	p.observe(&scene.Trace{Start: a.At, End: b.At, Samples: []scene.Sample{a, b}}, of)
	return p
}

// healthy are records in which each claim holds by little.
func healthy(seconds int) *passes {
	x := &passes{plain: observed(arm.Plain, 3000), static: observed(arm.Static, 3000),
		roam: []Pass{observed(arm.Roam, 520), observed(arm.Roam, 520)}}
	for _, h := range heights {
		ideal := Seen{Count: rtpflow.Count{Sent: 10_000, Received: 10_000, Bytes: 100_000}, Mbps: 2,
			Quality: video.Quality{Identical: true, Frames: 1000}}
		x.static.Streams[clipOf(h, seconds)] = ideal
		x.plain.Streams[clipOf(h, seconds)] = received(500, 500)
		for i := range x.roam {
			s := received(9, 0)
			s.Count.Disordered = 950
			x.roam[i].Streams[clipOf(h, seconds)] = s
		}
	}
	return x
}

// metrics are those of groups of one round-trip time each.
func metricsOf(r *result.Result, seconds int, control bool, groups ...*passes) {
	c := &campaign{env: &exp.Env{Params: exp.Params{"control": control}, Result: r, View: &live.View{}}}
	for i, x := range groups {
		g := group{rttMs: 200 * i}
		for _, h := range heights {
			g.clips = append(g.clips, video.Clip{Kind: video.Motion, Height: h, Seconds: seconds})
		}
		o := outcome{group: g, static: x.static, roam: x.roam}
		if control {
			o.plain = &x.plain
		}
		c.groups, c.outcomes = append(c.groups, g), append(c.outcomes, o)
	}
	c.metrics()
}

// book collects the cases of one experiment.
type book struct {
	e       exp.Experiment
	t       *testing.T
	seconds int
	cases   []exptest.Case
}

// known keeps those of the claims that the experiment has.
func (b *book) known(words string) (ids []string) {
	list, err := result.ParseExpect(b.e.Expect)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range list {
		for _, w := range strings.Fields(words) {
			if w == e.ID {
				ids = append(ids, w)
			}
		}
	}
	return ids
}

// add plants a fault in one pass of the first group, and then of the last.
func (b *book) add(name, red string, alter func(*passes, *Pass)) {
	for i := range 2 {
		for j := range 2 {
			groups := []*passes{healthy(b.seconds), healthy(b.seconds)}
			alter(groups[i], &groups[i].roam[j])
			b.cases = append(b.cases, exptest.Case{Name: fmt.Sprint(name, i, j), Red: b.known(red),
				Judge: func(r *result.Result, _ int) { metricsOf(r, b.seconds, true, groups...) }})
		}
	}
}

// stream alters the stream of a height in one pass.
func (b *book) stream(name, red string, height int, alter func(*Seen)) {
	b.add(name, red, func(_ *passes, p *Pass) {
		s := p.Streams[clipOf(height, b.seconds)]
		alter(&s)
		p.Streams[clipOf(height, b.seconds)] = s
	})
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	for i, e := range Experiments {
		t.Run(e.Name, func(t *testing.T) {
			b := &book{e: e, t: t, seconds: 42}
			b.add("sound", "", func(*passes, *Pass) {})
			b.faults(map[bool]float64{true: 96.5, false: 99.85}[i == 0], map[bool]int{true: 99_400, false: 99_850}[i == 0])
			b.flaws()
			exptest.Claims(t, e, map[string]string{
				"A20-mobile-ipv6": "Mobile IPv6 is not run", "A21-above-mobile-ipv6": "Mobile IPv6 is not run",
			}, b.cases...)
		})
	}
}

// faults are those of Roam.
func (b *book) faults(throughput float64, size int) {
	b.add("one link carries next to nothing", "moved", func(_ *passes, p *Pass) {
		p.Shares = observed(arm.Roam, 490).Shares
	})
	for _, h := range heights {
		b.stream("fewer bytes", "bytes", h, func(s *Seen) { s.Count.Bytes = size })
		b.stream("slower", "A20-throughput A22-throughput", h, func(s *Seen) { s.Mbps = throughput / 50 })
		b.stream("one lost", "rtp-lost A23-rtp-lost", h, func(s *Seen) { s.Count.Lost = 1 })
		b.stream("doubled", "A23-doubled", h, func(s *Seen) { s.Count.Doubled = 1 })
		b.stream("another", "unchanged", h, func(s *Seen) { s.Unknown = 1 })
		b.stream("out of order", "disorder A23-disorder", h, func(s *Seen) { s.Count.Disordered = 1_050 })
		b.stream("no picture at the start", "perfect "+fmt.Sprintf("A21-%dp A22-%dp", h, h)+" control", h, func(s *Seen) {
			s.Quality.Missing = 985 // of two passes, the one that shows nothing decides
		})
		b.stream("bad in the mean", "A22-mean-ssim", h, func(s *Seen) { s.Quality.SSIM = received(9, 230).Quality.SSIM })
		b.stream("bad in the median", "A22-median-ssim", h, func(s *Seen) {
			for i := range s.Quality.SSIM {
				s.Quality.SSIM[i] = 0.88
			}
		})
	}
	// The share of perfect frames is the mean of two passes.
	for _, c := range []struct {
		height, imperfect int
		red               string
	}{{720, 14, "perfect A22-720p"}, {720, 40, "perfect A21-720p A22-720p"}, {1080, 14, "perfect"},
		{1080, 115, "perfect A21-1080p"}, {1080, 140, "perfect A21-1080p A22-1080p"},
		{2160, 320, "perfect A22-2160p"}} {
		b.stream("imperfect", c.red, c.height, func(s *Seen) { s.Quality = received(c.imperfect, 0).Quality })
	}
	b.add("imperfect in both", "perfect A21-2160p A22-2160p", func(x *passes, _ *Pass) {
		for _, p := range x.roam {
			s := p.Streams[clipOf(2160, b.seconds)]
			s.Quality = received(320, 0).Quality
			p.Streams[clipOf(2160, b.seconds)] = s
		}
	})
	b.add("the control is as good", "control", func(x *passes, _ *Pass) {
		x.plain.Streams[clipOf(1080, b.seconds)] = received(9, 0)
	})
}

// flaws are the faults of the measurement.
func (b *book) flaws() {
	b.stream("the recorder overflows", "cells", 1080, func(s *Seen) { s.Refused = 1 })
	for _, why := range []string{"queue", "refused"} {
		b.add("the emulator drops", "cells", func(_ *passes, p *Pass) { p.Drops[why] = 1 })
		b.add("the emulator drops in the reference", "cells", func(x *passes, _ *Pass) { x.static.Drops[why] = 1 })
	}
	b.add("the reference is imperfect", "cells", func(x *passes, _ *Pass) {
		x.static.Streams[clipOf(720, b.seconds)] = received(0, 0)
	})
	grey := func(name, red, ids string, judge func(r *result.Result)) {
		b.cases = append(b.cases, exptest.Case{Name: name, Red: b.known(red), Grey: b.known(ids),
			Judge: func(r *result.Result, _ int) { judge(r) }})
	}
	grey("short streams", "", "A22-throughput", func(r *result.Result) { metricsOf(r, 41, true, healthy(41)) })
	grey("no control", "", "control", func(r *result.Result) { metricsOf(r, 42, false, healthy(42)) })
	all := "bytes perfect A20-throughput A22-throughput A21-720p A21-1080p A21-2160p A22-720p A22-1080p A22-2160p " +
		"A22-median-ssim A22-mean-ssim rtp-lost A23-rtp-lost disorder A23-disorder A23-doubled unchanged control"
	grey("no cell is measured", "cells", all, func(r *result.Result) {
		x := healthy(42)
		x.static.Drops["queue"] = 1
		metricsOf(r, 42, true, x)
	})
}
