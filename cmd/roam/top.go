package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// Bounds of the time between two pictures: the daemon is asked for every session each time.
const (
	topEvery = time.Second
	topLeast = 100 * time.Millisecond
	topMost  = time.Hour
)

func (a *app) topCommand() *cobra.Command {
	var once bool
	every := topEvery
	c := &cobra.Command{
		Use: "top [PEER]", Short: "Show sessions and their paths live, until interrupted",
		Args: cli.AtMost(1), ValidArgsFunction: a.completePeers,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if every < topLeast || every > topMost {
				return cli.Usagef("--every is %v, and must be between %v and %v", every, topLeast, topMost)
			}
			return topView{a}.top(ctx, args, every, once)
		},
	}
	c.Flags().BoolVar(&once, "once", false, "print one screen, of one interval, and exit")
	c.Flags().DurationVar(&every, "every", topEvery, "print a screen every `TIME`, such as 500ms")
	return c
}

// topView is the app while it shows rates.
type topView struct{ *app }

// picture is what `roam top` shows of one interval.
type picture struct {
	Time      time.Time `json:"time"`
	IntervalS float64   `json:"interval_s"` // since the picture before
	Sessions  []topOf   `json:"sessions"`   // the busiest first
}

// topOf is one session in an interval. Its own rates are those of the counters of this host, in
// packets as they pass the session address.
type topOf struct {
	pathsOf
	State string  `json:"state"`
	Dead  bool    `json:"dead"`
	Sent  *perSec `json:"sent,omitempty"` // absent: the counters have begun anew
	Got   *perSec `json:"received,omitempty"`
}

// perSec is the rate of one direction of a session.
type perSec struct {
	BPS float64 `json:"bps"` // bits
	PPS float64 `json:"pps"` // packets
}

// top prints a picture after each interval.
func (a topView) top(ctx context.Context, peers []string, every time.Duration, once bool) error {
	before, err := sessionsOf(ctx, a.app, peers)
	if err != nil {
		return err
	}
	at := a.now()
	for first := true; ; first = false {
		if err := a.wait(ctx, every); err != nil {
			return nil // an interrupt is the normal end
		}
		list, err := sessionsOf(ctx, a.app, peers)
		if ctx.Err() != nil {
			return nil
		}
		var refusal *control.Error
		if len(peers) > 0 && errors.As(err, &refusal) && refusal.Code == control.CodeNotFound && !first {
			list, err = nil, nil // it was there, and may come back
		}
		if err != nil {
			return err
		}
		now := a.now()
		p := pictureOf(before, list, now, now.Sub(at))
		if err := a.show(p, first); err != nil {
			return fmt.Errorf("print rates: %w", err)
		}
		if once {
			return nil
		}
		before, at = list, now
	}
}

// pause waits for a time, or returns the error of a context that ends before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// pictureOf compares two looks at all sessions.
func pictureOf(before, list []control.Session, now time.Time, took time.Duration) picture {
	type key struct{ local, remote roam.NID }
	old := make(map[key]control.Session, len(before))
	for _, s := range before {
		old[key{s.LocalAlias, s.RemoteAlias}] = s
	}
	p := picture{Time: now, IntervalS: took.Seconds(), Sessions: []topOf{}}
	for _, s := range list {
		if s.State == control.StateKnown {
			continue
		}
		one := topOf{State: s.State, Dead: s.Dead}
		one.NID, one.Paths = s.NID.String(), append([]control.PathView{}, s.Views...)
		if len(s.Names) > 0 {
			one.Name = s.Names[0]
		}
		o, ok := old[key{s.LocalAlias, s.RemoteAlias}]
		if ok && o.Since.Equal(s.Since) && o.CountsError+s.CountsError == "" {
			one.Sent = rateOf(o.TxPackets, s.TxPackets, o.TxBytes, s.TxBytes, took)
			one.Got = rateOf(o.RxPackets, s.RxPackets, o.RxBytes, s.RxBytes, took)
		}
		p.Sessions = append(p.Sessions, one)
	}
	slices.SortStableFunc(p.Sessions, func(a, b topOf) int { return cmp.Compare(b.bits(), a.bits()) })
	return p
}

// rateOf returns the rate of counters; nil: they began anew.
func rateOf(packets, packetsNow, bytes, bytesNow uint64, took time.Duration) *perSec {
	if packetsNow < packets || bytesNow < bytes || took <= 0 {
		return nil
	}
	return &perSec{BPS: 8 * float64(bytesNow-bytes) / took.Seconds(), PPS: float64(packetsNow-packets) / took.Seconds()}
}

// bits returns the rate of both directions together.
func (t topOf) bits() (sum float64) {
	for _, r := range []*perSec{t.Sent, t.Got} {
		if r != nil {
			sum += r.BPS
		}
	}
	return sum
}

// inUse returns how many paths data take.
func (t topOf) inUse() (n int) {
	for _, p := range t.Paths {
		if p.InUse {
			n++
		}
	}
	return n
}

// text returns a rate in bits a second.
func (r *perSec) text() string {
	if r == nil {
		return "-"
	}
	return bitsText(r.BPS)
}

// show prints a picture: in place of the one before, where the output is a screen.
func (a topView) show(p picture, first bool) error {
	if a.JSON {
		return json.NewEncoder(a.Out).Encode(p)
	}
	a.Measure()
	var text bytes.Buffer
	page := *a.Terminal
	page.Out = &text
	(&printer{&page, a.now}).picture(p)
	if a.Height > 0 {
		return a.refresh(text.String())
	}
	if !first {
		text = *bytes.NewBufferString("\n" + text.String())
	}
	_, err := a.Out.Write(text.Bytes())
	return err
}

// refresh writes a text over the one before, line by line, which flickers less than a screen that
// is cleared first.
func (a topView) refresh(text string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(a.Height-1, 2); len(lines) > most {
		left := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("%d more lines: `roam top PEER` shows one peer", left))
	}
	const home, restOfLine, below = "\x1b[H", "\x1b[K", "\x1b[J"
	_, err := fmt.Fprint(a.Out, home+strings.Join(lines, restOfLine+"\n")+restOfLine+"\n"+below)
	return err
}

// picture prints all sessions of an interval, and a table of the paths of each.
func (pr *printer) picture(p picture) {
	var sent, got perSec
	paths := 0
	for _, s := range p.Sessions {
		paths += s.inUse()
		if s.Sent != nil && s.Got != nil {
			sent.BPS, got.BPS = sent.BPS+s.Sent.BPS, got.BPS+s.Got.BPS
		}
	}
	pr.Fill(p.Time.Local().Format("15:04:05")+"  ", fmt.Sprintf("%s, %s in use; out %s, in %s bit/s",
		several(len(p.Sessions), "session"), several(paths, "path"), sent.text(), got.text()))
	for _, s := range p.Sessions {
		fmt.Fprintln(pr.Out)
		name := s.Name
		if name == "" {
			name = s.NID
		}
		pr.title(name, stateCell(s.State, s.Dead))
		pr.Fill("  ", fmt.Sprintf("out %s, in %s bit/s", s.Sent.text(), s.Got.text()))
		if len(s.Paths) > 0 {
			pr.livePaths(s)
		}
	}
}

// livePaths prints a line for each path. Of several paths, rates are those at which data arrive, by
// the reports of both ends; of a single one they are those of the session.
func (pr *printer) livePaths(s topOf) {
	t := pr.Table("LINK", "REMOTE", "RTT", "LOSS", "OUT", "IN", "SHARE", "STATE")
	single := s.inUse() == 1
	for _, p := range s.Paths {
		colour, out, in := cli.Plain, rateText(p.Out), rateText(p.In)
		switch {
		case !p.InUse:
			colour = cli.Yellow
		case single:
			out, in = s.Sent.text(), s.Got.text()
		}
		t.Row(cli.Text("%s", p.Link), cli.Text("%s", prefix(p.Remote)), cli.Number("%s", rtt(p.RTTMS)),
			cli.Number("%s", lossText(p.Out)+"/"+lossText(p.In)), cli.Number("%s", out), cli.Number("%s", in),
			cli.Number("%s", shareText(p)), cli.Cell{Text: p.Why, Colour: colour})
	}
	t.Print(pr.Out)
}

func several(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
