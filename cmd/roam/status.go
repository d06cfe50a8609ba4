package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"roam/internal/cli"
	"roam/internal/control"
)

// glance is what `roam --json` prints.
type glance struct {
	Status   control.Status    `json:"status"`
	Locators []control.Locator `json:"locators"`
	Sessions []control.Session `json:"sessions"`
}

// fewPeers is how many peers the overview lists.
const fewPeers = 50

// status prints an overview of the host. Of more than fewPeers peers it lists as many, and
// counts all.
func (a *app) status(ctx context.Context) error {
	var g glance
	var all *control.Summary
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		g.Locators, g.Sessions = []control.Locator{}, []control.Session{}
		if g.Status, err = b.Status(ctx); err != nil || !g.Status.RunsHost() {
			return err
		}
		if g.Locators, err = b.Locators(ctx); err != nil {
			return err
		}
		if a.JSON {
			g.Sessions, err = control.Sessions(ctx, b)
			return err
		}
		g.Sessions, all, err = firstSessions(ctx, b)
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(g)
	}
	if g.Status.RunsHost() {
		a.identity(g.Status)
		fmt.Fprintln(a.Out)
		a.locators(g.Locators)
		fmt.Fprintln(a.Out)
		a.correspondents(g.Sessions)
		if all != nil {
			printSummary(&a.printer, *all, len(g.Sessions))
		}
	}
	a.roles(g.Status)
	if len(g.Status.Notes) > 0 {
		fmt.Fprintln(a.Out)
	}
	for _, n := range g.Status.Notes {
		a.Fill("note: ", n)
	}
	for _, w := range g.Status.Warnings {
		a.Warn("%s", w)
	}
	return nil
}

// firstSessions returns fewPeers sessions at most, and the sum of all if there are more. A daemon
// that is older than sums is asked for all.
func firstSessions(ctx context.Context, b control.Backend) ([]control.Session, *control.Summary, error) {
	list, enough := []control.Session{}, errors.New("enough")
	err := b.EachSession(ctx, func(s control.Session) error {
		if len(list) == fewPeers {
			return enough
		}
		list = append(list, s)
		return nil
	})
	if !errors.Is(err, enough) {
		return list, nil, err
	}
	sum, err := b.Summary(ctx)
	var refusal *control.Error
	if errors.As(err, &refusal) && refusal.Code == control.CodeNotFound {
		err = b.EachSession(ctx, func(s control.Session) error {
			sum.Count(s)
			return nil
		})
	}
	return list, &sum, err
}

// printSummary prints how many peers there are, of which some were shown.
func printSummary(pr *printer, s control.Summary, shown int) {
	text := fmt.Sprintf("%s in all, %d of them above", several(int(s.All()), "peer"), shown)
	for _, c := range []struct {
		n    uint64
		what string
	}{
		{s.Established, "established"}, {s.Initiated, "initiated"}, {s.Plain, "plain"},
		{s.Known, "known without a session"}, {s.Dead, "without a path that works"},
	} {
		if c.n > 0 {
			text += fmt.Sprintf("; %d %s", c.n, c.what)
		}
	}
	fmt.Fprintln(pr.Out)
	pr.Fill("", text+". `roam session show` lists all.")
}

// roles prints one line for each role, unless the daemon is a host alone.
func (pr *printer) roles(s control.Status) {
	if len(s.Roles) == 0 {
		return
	}
	if s.RunsHost() {
		fmt.Fprintln(pr.Out)
	} else {
		fmt.Fprintf(pr.Out, "roamd %s  %s for %s\n\n", s.Version, pr.stateText(s), span(seconds(s.UptimeS)))
	}
	t := pr.Table("ROLE", "STATE", "SAYS")
	for _, r := range s.Roles {
		says := make([]string, 0, len(r.Facts))
		for _, f := range r.Facts {
			says = append(says, f.Name+" "+f.Value)
		}
		state := cli.Cell{Text: r.State, Colour: cli.Green}
		if r.Error != "" {
			says, state.Colour = append(says, r.Error), cli.Red
		}
		t.Row(cli.Text("%s", r.Name), state, cli.Text("%s", strings.Join(says, "; ")))
	}
	t.Print(pr.Out)
}

func (pr *printer) stateText(s control.Status) string {
	if s.State != "running" {
		return pr.Paint(cli.Yellow, s.State)
	}
	return pr.Paint(cli.Green, s.State)
}

func (pr *printer) identity(s control.Status) {
	fmt.Fprintf(pr.Out, "%s  %s for %s\n", pr.Paint(cli.Bold, s.NID.String()), pr.stateText(s), span(seconds(s.UptimeS)))
	fmt.Fprintf(pr.Out, "  address  %s on %s\n", s.SessionAddress, s.Device)
	fmt.Fprintf(pr.Out, "  mode     %s, accepts %s\n", s.Mode, s.Accept)
	attach := s.Plane.Attach
	if attach == "" {
		attach = "not loaded"
	}
	if len(s.Plane.Uplinks) > 0 {
		attach += " on " + strings.Join(s.Plane.Uplinks, ", ")
	}
	pr.Fill("  plane    ", attach)
	if s.DNS.Listen != "" {
		fmt.Fprintf(pr.Out, "  names    %s\n", s.DNS.Listen)
	}
}

// locators prints the host's locators.
func (pr *printer) locators(list []control.Locator) {
	if len(list) == 0 {
		fmt.Fprintln(pr.Out, "no locator: no link has both a global prefix and a default route")
		return
	}
	t := pr.Table("LINK", "LOCATOR", "STATE", "SINCE", "PREFERRED")
	for _, l := range list {
		state := l.State
		if l.Disabled {
			state = "disabled"
		}
		t.Row(cli.Text("%s", l.Link), cli.Text("%s", prefix(l.L64)), stateCell(state, false),
			cli.Text("%s", pr.ago(l.Since)), cli.Text("%s", left(l.PreferredS)))
	}
	t.Print(pr.Out)
}

// correspondents prints one line for each peer. The path takes more characters than all the
// rest, so that a terminal shows its link alone; `roam session show` has every path.
func (pr *printer) correspondents(list []control.Session) {
	if len(list) == 0 {
		fmt.Fprintln(pr.Out, noPeer)
		return
	}
	by, path := "LINK", linkInUse
	if pr.Wide {
		by, path = "PATH", inUse
	}
	t := pr.Table("PEER", "STATE", by, "RTT", "LAST MOVE", "ACKED IN")
	for _, s := range list {
		t.Row(cli.Text("%s", peerName(s)), stateCell(s.State, s.Dead), cli.Text("%s", path(s)),
			cli.Number("%s", millis(s.RTTMS)), cli.Text("%s", pr.ago(s.LastMove)), cli.Number("%s", millis(s.LastMoveMS)))
	}
	t.Print(pr.Out)
}

// peerName returns the first name of a peer, or its NID.
func peerName(s control.Session) string {
	if len(s.Names) > 0 {
		return s.Names[0]
	}
	return s.NID.String()
}

// inUse returns the path of the last packet that no rule sent, or before the first packet, that packet's path.
func inUse(s control.Session) string {
	p, ok := pathInUse(s)
	if !ok {
		return "-"
	}
	return pathText(p) + oneOf(len(s.Paths)+len(ruledPaths(s)), "paths")
}

// linkInUse returns the link of that path.
func linkInUse(s control.Session) string {
	p, ok := pathInUse(s)
	if !ok {
		return "-"
	}
	links := map[string]bool{}
	for _, o := range s.Paths {
		links[o.Link] = true
	}
	for _, o := range ruledPaths(s) {
		links[o.Link] = true
	}
	return p.Link + oneOf(len(links), "")
}

func pathInUse(s control.Session) (p control.Path, ok bool) {
	switch {
	case s.InUse != nil:
		return *s.InUse, true
	case len(s.Paths) > 0:
		return s.Paths[0].Path, true
	}
	return p, false
}

// oneOf says that there are more.
func oneOf(n int, what string) string {
	if n < 2 {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf(" (one of %d %s", n, what), " ") + ")"
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
