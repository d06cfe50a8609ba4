package main

import (
	"context"
	"fmt"
	"slices"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) pathCommand() *cobra.Command {
	show := func(cmd *cobra.Command, args []string) error { return a.pathShow(cmd.Context(), args) }
	noun := &cobra.Command{
		Use: "path", Short: "Show the paths of sessions: round trip, loss, rate, share", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return show(cmd, nil) },
	}
	noun.AddCommand(&cobra.Command{
		Use: "show [PEER]", Short: "Show the paths of all sessions, or of one (name, NID or address)",
		Args: cli.AtMost(1), RunE: show, ValidArgsFunction: a.completePeers,
	})
	return noun
}

// pathsOf is what is known of the paths of one session.
type pathsOf struct {
	NID   string             `json:"nid"`
	Name  string             `json:"name,omitempty"`
	Paths []control.PathView `json:"paths"`
}

func (a *app) pathShow(ctx context.Context, args []string) error {
	sessions, err := sessionsOf(ctx, a, args)
	if err != nil {
		return err
	}
	list := []pathsOf{}
	for _, s := range sessions {
		if len(s.Views) == 0 {
			continue
		}
		one := pathsOf{NID: s.NID.String(), Paths: s.Views}
		if len(s.Names) > 0 {
			one.Name = s.Names[0]
		}
		list = append(list, one)
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	if len(list) == 0 {
		fmt.Fprintln(a.Out, "no session has a path")
	}
	for i, p := range list {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		a.title(cli.OrDash(p.Name), cli.Text("%s", p.NID))
		a.paths(p.Paths)
	}
	return nil
}

// paths prints a line for each path. Of loss and rate the figure of this host's packets comes first.
func (pr *printer) paths(list []control.PathView) {
	t := pr.Table("LINK", "REMOTE", "RTT", "LEAST", "LOSS", "RATE", "SHARE", "STATE")
	for _, p := range list {
		colour := cli.Plain
		if !p.InUse {
			colour = cli.Yellow
		}
		t.Row(cli.Text("%s", p.Link), cli.Text("%s", prefix(p.Remote)), cli.Number("%s", rtt(p.RTTMS)),
			cli.Number("%s", rtt(p.LeastRTTMS)), cli.Number("%s", lossText(p.Out)+"/"+lossText(p.In)),
			cli.Number("%s", rateText(p.Out)+"/"+rateText(p.In)), cli.Number("%s", shareText(p)),
			cli.Cell{Text: p.Why, Colour: colour})
	}
	t.Print(pr.Out)
}

// ruledPaths returns the paths of a session that only packets take which rules of either end send there.
func ruledPaths(s control.Session) []control.PathView {
	isOther := func(v control.PathView) bool {
		return !v.InUse || slices.ContainsFunc(s.Paths, func(p control.SessionPath) bool { return p.Path == v.Path })
	}
	return slices.DeleteFunc(slices.Clone(s.Views), isOther)
}

// shareText returns the share of a path of what no rule sends; "-": it is in use for other packets.
func shareText(p control.PathView) string {
	if p.InUse && p.Share == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*p.Share)
}

func rtt(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func lossText(d *control.PathDirection) string {
	if d == nil || d.Loss == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**d.Loss)
}

// rateText returns a rate in bits a second.
func rateText(d *control.PathDirection) string {
	if d == nil {
		return "-"
	}
	return bitsText(d.RateBPS)
}

// bitsText returns a number of bits with a decimal prefix.
func bitsText(v float64) string {
	units := []string{"", "k", "M", "G"}
	for len(units) > 1 && v >= 999.5 {
		v, units = v/1000, units[1:]
	}
	if v < 9.95 && units[0] != "" {
		return fmt.Sprintf("%.1f%s", v, units[0])
	}
	return fmt.Sprintf("%.0f%s", v, units[0])
}
