package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) borderCommand() *cobra.Command {
	show := func(cmd *cobra.Command, _ []string) error { return a.borderShow(cmd.Context()) }
	noun := &cobra.Command{Use: "border", Short: "Show the locators and flows of a site border (role border)",
		Args: cli.NoArgs, RunE: show}
	noun.AddCommand(
		&cobra.Command{Use: "show", Short: "Show the site's locators and their traffic", Args: cli.NoArgs, RunE: show},
		&cobra.Command{Use: "flows", Short: "Show the flows across the border", Args: cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.borderFlows(cmd.Context()) }},
	)
	for _, v := range []struct {
		verb, short string
		drained     bool
	}{
		{"drain", "Stop sending by a provider's link; it still receives", true},
		{"undrain", "Use a drained link again", false},
	} {
		noun.AddCommand(&cobra.Command{
			Use: v.verb + " LINK", Short: v.short, Args: cli.Exactly("LINK"), ValidArgsFunction: completeProviders(a),
			RunE: func(cmd *cobra.Command, args []string) error { return a.borderDrain(cmd.Context(), args[0], v.drained) },
		})
	}
	return noun
}

func (a *app) borderDrain(ctx context.Context, link string, drained bool) error {
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error { return b.SetDrained(ctx, link, drained) })
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(control.DrainRequest{Link: link, Drained: drained})
	}
	word := "undrained"
	if drained {
		word = "drained"
	}
	fmt.Fprintf(a.Out, "%s %s\n", link, word)
	return nil
}

// completeProviders completes the links to providers.
func completeProviders(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		var r control.BorderReport
		if a.JSON = false; len(args) == 0 { // the report itself is not wanted
			_, _ = a.roleReport(cmd.Context(), "border", &r) // completion has nowhere to report a failure
		}
		for _, s := range r.Sites {
			if s.Link != "" && !slices.Contains(names, s.Link) {
				names = append(names, s.Link)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// borderReport asks the border; shown: as JSON, since that was wanted.
func (a *app) borderReport(ctx context.Context) (r control.BorderReport, shown bool, err error) {
	shown, err = a.roleReport(ctx, "border", &r)
	return r, shown, err
}

func (a *app) borderShow(ctx context.Context) error {
	r, shown, err := a.borderReport(ctx)
	if err != nil || shown {
		return err
	}
	sent, received := uint64(0), uint64(0)
	for _, s := range r.Sites {
		sent, received = sent+s.TXPackets, received+s.RXPackets
	}
	head := []string{"LOCATOR", "LINK", "STATE", "NEXT HOP", "TX PKT", "TX %", "RX PKT", "RX %"}
	if a.Wide {
		head = append(head, "TX BYTES", "RX BYTES")
	}
	t := a.Table(head...)
	for _, s := range r.Sites {
		row := []cli.Cell{cli.Text("%s", s.Locator.Prefix().Addr()), cli.Text("%s", s.Link), cli.Text("%s", s.State),
			cli.Text("%s", s.NextHop), cli.Number("%s", count(s.TXPackets)), cli.Number("%s", percent(s.TXPackets, sent)),
			cli.Number("%s", count(s.RXPackets)), cli.Number("%s", percent(s.RXPackets, received))}
		if a.Wide {
			row = append(row, cli.Number("%s", nbytes(s.TXBytes)), cli.Number("%s", nbytes(s.RXBytes)))
		}
		t.Row(row...)
	}
	t.Print(a.Out)
	fmt.Fprintf(a.Out, "%d flows\n", len(r.Flows))
	for i, s := range r.Sites {
		if slices.ContainsFunc(r.Sites[:i], func(o control.BorderSite) bool { return o.Link == s.Link }) {
			continue // its line is there
		}
		switch s.DrainedBy {
		case control.DrainedByCommand:
			a.Fill("", fmt.Sprintf("%s is drained by command: `roam border undrain %[1]s` ends that, as does a restart", s.Link))
		case control.DrainedByConfig:
			a.Fill("", s.Link+" is drained by border.drained of roam.conf")
		}
	}
	for _, n := range r.Refused {
		notCrossed(a, fmt.Sprintf("%d messages refused: %s", n.Messages, n.Reason), n.Last)
	}
	for _, n := range r.Dropped {
		notCrossed(a, fmt.Sprintf("%d packets dropped: %s", n.Packets, n.Reason), n.Last)
	}
	return nil
}

// notCrossed prints why packets did not cross the border, and what one of the latest was like.
func notCrossed(a *app, why string, p control.BorderPacket) {
	a.Fill("", why)
	if p.Time.IsZero() {
		return
	}
	text := fmt.Sprintf("%s, at %s", a.ago(p.Time), p.Link)
	if p.Source.IsValid() {
		text += fmt.Sprintf(": %s > %s, ", p.Source, p.Destination)
		switch {
		case p.ICMPType != nil:
			text += fmt.Sprintf("ICMPv6 type %d", *p.ICMPType)
		case p.SourcePort != 0 || p.DestinationPort != 0:
			text += fmt.Sprintf("protocol %d, ports %d and %d", p.Protocol, p.SourcePort, p.DestinationPort)
		default:
			text += fmt.Sprintf("protocol %d", p.Protocol)
		}
	}
	a.Fill("  one ", text)
}

// percent is a share of a whole in per cent.
func percent(n, of uint64) string {
	if of == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(n)/float64(of), 'f', 1, 64)
}

func (a *app) borderFlows(ctx context.Context) error {
	r, shown, err := a.borderReport(ctx)
	if err != nil || shown {
		return err
	}
	t := a.Table("INSIDE", "OUTSIDE", "KNOWS", "IDLE S")
	for _, f := range r.Flows {
		known := make([]string, len(f.Announced))
		for i, l := range f.Announced {
			known[i] = l.Prefix().Addr().String()
		}
		t.Row(cli.Text("%s", roam.ILV{L64: f.Internal, NID: f.Inside}.Addr()),
			cli.Text("%s", roam.ILV{L64: f.Remote, NID: f.Outside}.Addr()),
			cli.Text("%s", strings.Join(known, " ")), cli.Number("%.0f", f.IdleS))
	}
	t.Print(a.Out)
	return nil
}
