package video

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"roam/lab/arm"
	"roam/lab/result"
	"roam/lab/video"
)

// draw adds series, events, tables, figures and pictures.
func (c *campaign) draw(ctx context.Context) error {
	r := c.env.Result
	verdicts := c.verdicts()
	r.Tables = append(r.Tables, c.cellTable(verdicts), c.packetTable(verdicts))
	for _, o := range c.outcomes {
		c.timeline(o)
	}
	for _, o := range c.outcomes {
		for _, clip := range o.clips {
			if err := c.picture(ctx, o, clip); err != nil {
				return err
			}
		}
	}
	return nil
}

// cellTable lists the thesis's tables of quality with our values beside them.
func (c *campaign) cellTable(verdicts []verdict) result.Table {
	t := result.Table{
		Title: "Quality by cell",
		Note: "Perfect: share of frames that are equal to those sent. PSNR tuple: <share of perfect frames, least finite " +
			"PSNR in dB, span of the finite PSNR in dB, runs with an imperfect frame / runs>. " +
			"Published: ILNPv6 of the thesis, in whose place Tears of Steel stands for motion and Big Buck Bunny for detail. " +
			"Mobile IPv6: not run.",
		Columns: []string{"cell", "perfect", "PSNR tuple", "published", "mean SSIM", "plain IPv6: perfect",
			"plain IPv6: mean SSIM", "Mobile IPv6", "not measured because"},
	}
	for _, v := range verdicts {
		row := []string{v.String(), fmt.Sprintf("%.4f", v.tuple.Perfect), v.tuple.String(), or(c.kind.tuples[v.cellName]),
			meanSSIM(v.roam), "–", "–", "not run", or(v.flaw)}
		if v.plain != nil {
			row[5], row[6] = fmt.Sprintf("%.4f", v.plain.Quality.Perfect()), fmt.Sprintf("%.3f", v.plain.Quality.MeanSSIM())
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func or(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func meanSSIM(runs []Seen) string {
	sum := 0.0
	for _, s := range runs {
		sum += s.Quality.MeanSSIM()
	}
	return fmt.Sprintf("%.4f", sum/float64(max(1, len(runs))))
}

// packetTable is throughput, delivery and disorder.
func (c *campaign) packetTable(verdicts []verdict) result.Table {
	t := result.Table{
		Title: "Packets by cell",
		Note: "Throughput: IPv6 payload that arrived, over the time from the first packet to the last. Sent, lost: counted " +
			"against what ffmpeg sends of the clip on loopback. " +
			"Late: came after its turn in the reorder buffer. Disorder: packets with a number lower than that of the one " +
			"before, worst run. Published: ILNPv6 and reference (Tab. 7.4, 7.6), at 0 ms only.",
		Columns: []string{"cell", "static IPv6", "Roam", "published", "bytes against static", "sent per run", "lost", "late",
			"disorder", "longest gap", "longest gap, static", "plain IPv6: lost"},
	}
	for _, v := range verdicts {
		lost, late, worst := 0, 0, Seen{}
		for _, s := range v.roam {
			lost, late = lost+s.Count.Lost, late+s.Late
			if s.LongestGapMs > worst.LongestGapMs {
				worst = s
			}
		}
		published := "–"
		if p, ok := c.kind.mbps[v.cellName]; ok {
			published = fmt.Sprintf("%.3g of %.3g Mb/s", p, staticMbps[v.cellName])
		}
		plain := "–"
		if v.plain != nil {
			plain = fmt.Sprintf("%.1f %%", percent(v.plain.Count.Lost, v.plain.Count.Sent))
		}
		t.Rows = append(t.Rows, []string{
			v.String(), fmt.Sprintf("%.3f Mb/s", v.reference.Mbps), fmt.Sprintf("%.3f Mb/s", v.mbps), published,
			fmt.Sprintf("%.2f %%", v.bytes),
			fmt.Sprint(v.reference.Count.Sent), fmt.Sprint(lost), fmt.Sprint(late), fmt.Sprintf("%.2f %%", v.disorder),
			longestGap(worst), longestGap(v.reference), plain,
		})
	}
	return t
}

func longestGap(s Seen) string {
	return fmt.Sprintf("%.0f ms at %.1f s", s.LongestGapMs, s.LongestGapAt)
}

// timeline draws one group: the load of each link, and the quality, with Roam and without.
func (c *campaign) timeline(o outcome) {
	r, g := c.env.Result, o.name()
	f := result.Figure{
		Title:  fmt.Sprintf("What arrived and what was seen, %s", o.title()),
		XLabel: "time since the start of the schedule (s)",
		Caption: "First run of the cell. SSIM of each frame against the one that was sent; where a frame is missing, the " +
			"one before stands still on the screen. Longer streams show the least of each quarter of a second. Dashed lines " +
			"are the steps of the schedule.",
	}
	arms := []struct {
		arm  arm.Arm
		pass *Pass
		refs []result.Ref
	}{{arm.Roam, &o.roam[0], c.publishedRate(o)}, {arm.Plain, o.plain, nil}}
	for _, a := range arms {
		if a.pass == nil {
			continue
		}
		name := g + " " + a.arm.Name()
		for _, e := range a.pass.Marks {
			e.Arm = name
			r.Mark(e)
		}
		rates := result.Panel{
			Title:  a.arm.Title() + ": received over each link",
			Kind:   result.Stack,
			YLabel: "Mb/s",
			Arm:    name,
			Marks:  true,
			Height: 110,
			Labels: links,
			Refs:   a.refs,
		}
		for _, s := range a.pass.Rates {
			s.Name = g + " " + s.Name
			r.Series = append(r.Series, s)
			rates.Series = append(rates.Series, s.Name)
		}
		seen := result.Panel{
			Title:  a.arm.Title() + ": SSIM of the frames",
			Kind:   result.Lines,
			YLabel: "SSIM",
			Arm:    name,
			Marks:  true,
			Height: 90,
			YMax:   1.05,
		}
		for _, clip := range o.clips {
			series := name + " SSIM " + clip.String()
			stream := a.pass.Streams[clip.String()]
			x, y := ssim(stream.Quality, stream.Ahead)
			r.AddSeries(series, "", x, y)
			seen.Series, seen.Labels = append(seen.Series, series),
				append(seen.Labels, strings.ReplaceAll(clip.String(), "_", " "))
		}
		f.Panels = append(f.Panels, rates, seen)
	}
	r.Figures = append(r.Figures, f)
}

// publishedRate is the thesis's mean throughput for the clips of a group together, if it
// gives all of them.
func (c *campaign) publishedRate(o outcome) []result.Ref {
	sum := 0.0
	for _, clip := range o.clips {
		v, ok := c.kind.mbps[cellName{0, clip.Height, clip.Kind}]
		if !ok {
			return nil
		}
		sum += v
	}
	return []result.Ref{{Label: fmt.Sprintf("published: %.3g Mb/s on average", sum), At: sum}}
}

// title is the group as people read it.
func (o outcome) title() string {
	var clips []string
	for _, c := range o.clips {
		clips = append(clips, strings.ReplaceAll(c.String(), "_", " "))
	}
	return fmt.Sprintf("%s, %d ms", strings.Join(clips, ", "), o.rttMs)
}

// ssim returns the SSIM over the time of the schedule, before which the stream
// began: of each frame, or of long streams the least of each quarter of a second.
func ssim(q video.Quality, ahead float64) (x, y []float64) {
	step := 1
	if q.Frames > 60*video.FrameRate {
		step = video.FrameRate / 4
	}
	for i := 0; i < q.Frames; i += step {
		v := 1.0
		if !q.Identical {
			v = slices.Min(q.SSIM[i:min(i+step, q.Frames)])
		}
		x, y = append(x, math.Round((float64(i)/video.FrameRate-ahead)*1e3)/1e3), append(y, math.Round(v*1e4)/1e4)
	}
	return x, y
}

// picture shows the frame with the worst quality in the control: as sent, as received with
// Roam, and without.
func (c *campaign) picture(ctx context.Context, o outcome, clip video.Clip) error {
	roam := o.roam[0].Streams[clip.String()]
	stills, caption := [][]byte{roam.SentStill, roam.Still}, "As it was sent, and with Roam."
	frame := roam.Quality.Worst()
	if o.plain != nil {
		plain := o.plain.Streams[clip.String()]
		stills, frame = append(stills, plain.Still), plain.Quality.Worst()
		caption = "As it was sent, with Roam, and with plain IPv6, whose worst frame it is."
	}
	b, err := video.SideBySide(ctx, c.env.Dir, stills...)
	if err != nil {
		return err
	}
	c.env.Result.Pictures = append(c.env.Result.Pictures, result.Picture{
		Title: fmt.Sprintf("Frame %d of %s", frame+1, cellName{o.rttMs, clip.Height, clip.Kind}), Caption: caption,
		Type: "image/jpeg", Data: b,
	})
	return nil
}
