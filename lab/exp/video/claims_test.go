package video

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
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

// raw is what one stream leaves behind, and the comparison of its frames; the zero value is perfect.
type raw struct {
	lost, doubled, swapped int // packets of 2,000
	alien                  int // datagrams beside
	slow                   time.Duration
	refused                int     // by the recorder's receive buffer
	missing                int     // frames of 1,000 at the start
	imperfect              int     // the first of those that are shown
	bad                    int     // the first ones, which have an SSIM of 0.5
	ssim                   float64 // of the others
}

// packets of a stream, and the pause between two of them.
const (
	packets = 2000
	pause   = 5 * time.Millisecond
)

// record writes what the recorder does of packets with these numbers, and reads it.
func record(t *testing.T, numbers []int, at func(int) time.Duration) *rtpflow.Recording {
	t.Helper()
	var b []byte
	for i, n := range numbers {
		d := append(binary.BigEndian.AppendUint16([]byte{2 << 6, 33}, uint16(n+rtpflow.FirstSeq)), make([]byte, 8+40)...)
		binary.BigEndian.PutUint32(d[12:], uint32(n))
		if n < 0 {
			d = []byte("another")
		}
		b = binary.BigEndian.AppendUint64(b, uint64(exptest.At(at(i)).UnixNano()))
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(d))), d...)
	}
	path := filepath.Join(t.TempDir(), "stream")
	err := os.WriteFile(path, b, 0o600)
	var r *rtpflow.Recording
	if err == nil {
		r, err = rtpflow.Load(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// streams are those that were read, which all cases share.
var streams = map[raw]Seen{}

// read takes the figures of a stream from its records.
func (x raw) read(t *testing.T) Seen {
	t.Helper()
	if s, ok := streams[x]; ok {
		return s
	}
	var all, got []int
	for i := range packets {
		all = append(all, i)
		if i > 0 && i <= x.lost {
			continue
		}
		got = append(got, i)
		if n := len(got); i > 100 && i%9 == 0 && i/9-11 <= x.swapped {
			got[n-1], got[n-2] = got[n-2], got[n-1]
		}
		if i > 0 && i <= x.doubled {
			got = append(got, i)
		}
		if i > 0 && i <= x.alien {
			got = append(got, -1)
		}
	}
	steady := func(i int) time.Duration { return time.Duration(i) * pause }
	tk := &take{clip: video.Clip{Seconds: 10}, sent: record(t, all, steady)}
	seen, _, _ := tk.read(record(t, got, func(i int) time.Duration {
		if i == len(got)-1 {
			return packets*pause + x.slow
		}
		return steady(i)
	}), exptest.Origin.UnixNano(), time.Second)
	seen.Refused = x.refused
	seen.Quality = x.quality(t)
	streams[x] = seen
	return seen
}

// quality reads what ffmpeg writes of the frames that it could compare. Equal streams are not compared.
func (x raw) quality(t *testing.T) video.Quality {
	t.Helper()
	if x.ssim == 0 {
		return video.Quality{Identical: true, Frames: 1000}
	}
	var ssim, psnr strings.Builder
	for i := range 1000 - x.missing {
		all, db := x.ssim, "inf"
		if i < x.imperfect {
			db = "20.00"
		}
		if i < x.bad {
			all = 0.5
		}
		fmt.Fprintf(&ssim, "n:%d Y:0.97 U:0.99 V:0.99 All:%f (13.01)\n", i+1, all)
		fmt.Fprintf(&psnr, "n:%d mse_avg:0.50 psnr_avg:%s psnr_y:20.00\n", i+1, db)
	}
	q, err := video.Read(1000, ssim.String(), psnr.String())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// fair is a stream with Roam in which each claim holds by little.
var fair = raw{imperfect: 9, ssim: 0.95, swapped: 190}

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
func healthy(t *testing.T, seconds int) *passes {
	t.Helper()
	x := &passes{plain: observed(arm.Plain, 3000), static: observed(arm.Static, 3000),
		roam: []Pass{observed(arm.Roam, 520), observed(arm.Roam, 520)}}
	for _, h := range heights {
		x.static.Streams[clipOf(h, seconds)] = raw{}.read(t)
		x.plain.Streams[clipOf(h, seconds)] = raw{imperfect: 500, bad: 500, ssim: 0.95}.read(t)
		for i := range x.roam {
			x.roam[i].Streams[clipOf(h, seconds)] = fair.read(t)
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
			groups := []*passes{healthy(b.t, b.seconds), healthy(b.t, b.seconds)}
			alter(groups[i], &groups[i].roam[j])
			b.cases = append(b.cases, exptest.Case{Name: fmt.Sprint(name, i, j), Red: b.known(red),
				Judge: func(r *result.Result, _ int) { metricsOf(r, b.seconds, true, groups...) }})
		}
	}
}

// stream alters the stream of a height in one pass.
func (b *book) stream(name, red string, height int, alter func(*raw)) {
	x := fair
	alter(&x)
	seen := x.read(b.t)
	b.add(name, red, func(_ *passes, p *Pass) { p.Streams[clipOf(height, b.seconds)] = seen })
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	for i, e := range Experiments {
		t.Run(e.Name, func(t *testing.T) {
			b := &book{e: e, t: t, seconds: 42}
			b.add("sound", "", func(*passes, *Pass) {})
			b.faults(map[bool]time.Duration{true: 330, false: 11}[i == 0]*time.Millisecond,
				map[bool]int{true: 11, false: 3}[i == 0])
			b.flaws()
			exptest.Claims(t, e, map[string]string{
				"A20-mobile-ipv6": "Mobile IPv6 is not run", "A21-above-mobile-ipv6": "Mobile IPv6 is not run",
			}, b.cases...)
		})
	}
}

// faults are those of Roam. A stream that takes so much longer, or lacks so many packets, is beyond the
// bounds of the experiment.
func (b *book) faults(slow time.Duration, lost int) {
	b.add("one link carries next to nothing", "moved", func(_ *passes, p *Pass) {
		p.Shares = observed(arm.Roam, 490).Shares
	})
	for _, h := range heights {
		b.stream("slower", "A20-throughput A22-throughput", h, func(x *raw) { x.slow = slow })
		b.stream("one lost", "rtp-lost A23-rtp-lost", h, func(x *raw) { x.lost = 1 })
		b.stream("more lost", "bytes rtp-lost A23-rtp-lost A22-throughput", h, func(x *raw) { x.lost = lost })
		b.stream("doubled", "A23-doubled", h, func(x *raw) { x.doubled = 1 })
		b.stream("another", "unchanged", h, func(x *raw) { x.alien = 1 })
		b.stream("out of order", "disorder A23-disorder", h, func(x *raw) { x.swapped = 205 })
		dark := fmt.Sprintf("perfect control A21-%dp A22-%dp A22-mean-ssim A22-median-ssim", h, h)
		b.stream("no picture at the start", dark, h, func(x *raw) {
			x.missing = 985 // of two passes, the one that shows nothing decides
		})
		b.stream("bad in the mean", "A22-mean-ssim", h, func(x *raw) { x.bad = 230 })
		b.stream("bad in the median", "A22-median-ssim", h, func(x *raw) { x.ssim = 0.88 })
	}
	// The share of perfect frames is the mean of two passes.
	for _, c := range []struct {
		height, imperfect int
		red               string
	}{{720, 14, "perfect A22-720p"}, {720, 40, "perfect A21-720p A22-720p"}, {1080, 14, "perfect"},
		{1080, 115, "perfect A21-1080p"}, {1080, 140, "perfect A21-1080p A22-1080p"},
		{2160, 320, "perfect A22-2160p"}} {
		b.stream("imperfect", c.red, c.height, func(x *raw) { x.imperfect = c.imperfect })
	}
	b.add("imperfect in both", "perfect A21-2160p A22-2160p", func(x *passes, _ *Pass) {
		for _, p := range x.roam {
			x := fair
			x.imperfect = 320
			p.Streams[clipOf(2160, b.seconds)] = x.read(b.t)
		}
	})
	b.add("the control is as good", "control", func(x *passes, _ *Pass) {
		x.plain.Streams[clipOf(1080, b.seconds)] = fair.read(b.t)
	})
}

// flaws are the faults of the measurement.
func (b *book) flaws() {
	b.stream("the recorder overflows", "cells", 1080, func(x *raw) { x.refused = 1 })
	for _, why := range []string{"queue", "refused"} {
		b.add("the emulator drops", "cells", func(_ *passes, p *Pass) { p.Drops[why] = 1 })
		b.add("the emulator drops in the reference", "cells", func(x *passes, _ *Pass) { x.static.Drops[why] = 1 })
	}
	b.add("the reference is imperfect", "cells", func(x *passes, _ *Pass) {
		x.static.Streams[clipOf(720, b.seconds)] = raw{ssim: 0.95}.read(b.t)
	})
	grey := func(name, red, ids string, judge func(r *result.Result)) {
		b.cases = append(b.cases, exptest.Case{Name: name, Red: b.known(red), Grey: b.known(ids),
			Judge: func(r *result.Result, _ int) { judge(r) }})
	}
	grey("short streams", "", "A22-throughput", func(r *result.Result) { metricsOf(r, 41, true, healthy(b.t, 41)) })
	grey("no control", "", "control", func(r *result.Result) { metricsOf(r, 42, false, healthy(b.t, 42)) })
	all := "bytes perfect A20-throughput A22-throughput A21-720p A21-1080p A21-2160p A22-720p A22-1080p A22-2160p " +
		"A22-median-ssim A22-mean-ssim rtp-lost A23-rtp-lost disorder A23-disorder A23-doubled unchanged control"
	grey("no cell is measured", "cells", all, func(r *result.Result) {
		x := healthy(b.t, 42)
		x.static.Drops["queue"] = 1
		metricsOf(r, 42, true, x)
	})
}
