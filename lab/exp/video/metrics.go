package video

import (
	"fmt"
	"math"

	"roam/lab/result"
	"roam/lab/video"
)

// verdict holds the results of one cell.
type verdict struct {
	cellName
	flaw      string // why it is not measured; "" if it is
	reference Seen
	plain     *Seen
	roam      []Seen
	tuple     video.Tuple // of the passes with Roam
	bytes     float64     // of the worst of them against the reference, in per cent
	mbps      float64     // mean of them
	disorder  float64     // of the worst of them, in per cent
}

// verdicts judges every cell.
func (c *campaign) verdicts() (out []verdict) {
	for _, o := range c.outcomes {
		for _, clip := range o.clips {
			out = append(out, o.verdict(clip))
		}
	}
	return out
}

func (o outcome) verdict(clip video.Clip) verdict {
	name := clip.String()
	v := verdict{
		cellName:  cellName{o.rttMs, clip.Height, clip.Kind},
		reference: o.static.Streams[name],
		bytes:     math.Inf(1),
	}
	if v.flaw = o.static.flaw(name); v.flaw == "" && !v.reference.Quality.Identical {
		v.flaw = fmt.Sprintf("the reference itself is imperfect: %d packets lost", v.reference.Count.Lost)
	}
	if o.plain != nil {
		s := o.plain.Streams[name]
		v.plain = &s
	}
	var qualities []video.Quality
	for _, p := range o.roam {
		s := p.Streams[name]
		if f := p.flaw(name); f != "" && v.flaw == "" {
			v.flaw = f
		}
		v.roam = append(v.roam, s)
		qualities = append(qualities, s.Quality)
		v.bytes = min(v.bytes, 100*float64(s.Count.Bytes)/float64(max(1, v.reference.Count.Bytes)))
		v.disorder = max(v.disorder, percent(s.Count.Disordered, s.Count.Received))
		v.mbps += s.Mbps / float64(len(o.roam))
	}
	v.tuple = video.Summarize(qualities)
	return v
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }

// metrics judges all cells and sets the metrics of the claims.
func (c *campaign) metrics() {
	r := c.env.Result
	r.Set("stream_s", float64(c.groups[0].clips[0].Seconds))
	measured, flawed, flaw := 0, 0, ""
	for _, v := range c.verdicts() {
		if v.flaw != "" {
			flawed, flaw = flawed+1, v.String()+": "+v.flaw
			r.Miss(v.metric("perfect"), v.flaw)
			continue
		}
		measured++
		v.record(r)
		r.Set(v.metric("perfect"), v.tuple.Perfect)
		r.Set(v.metric("bytes_vs_reference_pct"), v.bytes)
		r.Set(v.metric("throughput_mbps"), v.mbps)
	}
	r.Set("cells_measured", float64(measured))
	r.Set("cells_not_measured", float64(flawed))
	for _, o := range c.outcomes {
		for _, p := range o.roam {
			for _, l := range links {
				least(r, "link_share_min_pct", p.Shares[l])
			}
		}
	}
	if !c.env.Params.Bool("control") {
		r.Miss("control_perfect_max", "the control was turned off")
		r.Miss("cells_not_above_control", "the control was turned off")
	}
	for _, m := range []string{"mobile_ipv6_throughput_pct", "cells_not_above_mobile_ipv6"} {
		r.Miss(m, "Mobile IPv6: not run")
	}
	if measured == 0 {
		for _, m := range overAll {
			r.Miss(m, "no cell was measured; "+flaw)
		}
	}
	for _, h := range []string{"720p", "1080p", "2160p"} {
		if m := "perfect_" + h + "_min"; !has(r, m) {
			r.Miss(m, "no cell of this resolution was measured")
		}
	}
}

// overAll are the metrics of claims about all measured cells.
var overAll = []string{
	"bytes_vs_reference_min_pct", "throughput_vs_reference_min_pct", "perfect_min", "ssim_mean_min", "ssim_median_min",
	"disorder_max_pct", "rtp_lost", "rtp_doubled", "rtp_unknown", "cells_not_above_control",
}

func (v verdict) metric(what string) string {
	return fmt.Sprintf("%s_%dp_%s_%dms", what, v.height, v.clip, v.rttMs)
}

// record adds a measured cell to the metrics over all cells.
func (v verdict) record(r *result.Result) {
	least(r, "bytes_vs_reference_min_pct", v.bytes)
	least(r, "perfect_min", v.tuple.Perfect)
	least(r, fmt.Sprintf("perfect_%dp_min", v.height), v.tuple.Perfect)
	greatest(r, "disorder_max_pct", v.disorder)
	for _, s := range v.roam {
		least(r, "throughput_vs_reference_min_pct", 100*s.Mbps/v.reference.Mbps)
		greatest(r, "throughput_vs_reference_max_pct", 100*s.Mbps/v.reference.Mbps)
		least(r, "ssim_mean_min", s.Quality.MeanSSIM())
		least(r, "ssim_median_min", s.Quality.MedianSSIM())
		least(r, "delivery_min_pct", percent(s.Count.Received, s.Count.Sent))
		add(r, "rtp_lost", float64(s.Count.Lost))
		add(r, "rtp_late", float64(s.Late))
		add(r, "rtp_doubled", float64(s.Count.Doubled))
		add(r, "rtp_unknown", float64(s.Unknown))
	}
	if v.plain != nil {
		greatest(r, "control_perfect_max", v.plain.Quality.Perfect())
		beaten := 0.0
		if v.tuple.Perfect <= v.plain.Quality.Perfect() {
			beaten = 1
		}
		add(r, "cells_not_above_control", beaten)
	}
}

func has(r *result.Result, metric string) bool { _, ok := r.Metrics[metric]; return ok }

func least(r *result.Result, metric string, v float64) {
	if has(r, metric) {
		v = min(v, r.Metrics[metric])
	}
	r.Set(metric, v)
}

func greatest(r *result.Result, metric string, v float64) {
	if has(r, metric) {
		v = max(v, r.Metrics[metric])
	}
	r.Set(metric, v)
}

func add(r *result.Result, metric string, v float64) { r.Set(metric, r.Metrics[metric]+v) }
