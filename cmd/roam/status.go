package main

import (
	"context"
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

// status shows the host at a glance.
func (a *app) status(ctx context.Context) error {
	var g glance
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		g.Locators, g.Sessions = []control.Locator{}, []control.Session{}
		if g.Status, err = b.Status(ctx); err != nil || !g.Status.RunsHost() {
			return err
		}
		if g.Locators, err = b.Locators(ctx); err != nil {
			return err
		}
		g.Sessions, err = b.Sessions(ctx)
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
	}
	printRoles(a, g.Status)
	for _, w := range g.Status.Warnings {
		a.Warn("%s", w)
	}
	return nil
}

// printRoles prints one line for each role, unless the daemon is a host alone.
func printRoles(a *app, s control.Status) {
	if len(s.Roles) == 0 {
		return
	}
	if s.RunsHost() {
		fmt.Fprintln(a.Out)
	} else {
		fmt.Fprintf(a.Out, "roamd %s  %s for %s\n\n", s.Version, stateText(a, s), span(seconds(s.UptimeS)))
	}
	t := a.Table("ROLE", "STATE", "SAYS")
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
	t.Print(a.Out)
}

func stateText(a *app, s control.Status) string {
	if s.State != "running" {
		return a.Paint(cli.Yellow, s.State)
	}
	return a.Paint(cli.Green, s.State)
}

func (a *app) identity(s control.Status) {
	fmt.Fprintf(a.Out, "%s  %s for %s\n", a.Paint(cli.Bold, s.NID.String()), stateText(a, s), span(seconds(s.UptimeS)))
	fmt.Fprintf(a.Out, "  address  %s on %s\n", s.SessionAddress, s.Device)
	fmt.Fprintf(a.Out, "  mode     %s, accepts %s\n", s.Mode, s.Accept)
	attach := s.Plane.Attach
	if attach == "" {
		attach = "not loaded"
	}
	if len(s.Plane.Uplinks) > 0 {
		attach += " on " + strings.Join(s.Plane.Uplinks, ", ")
	}
	fmt.Fprintf(a.Out, "  plane    %s\n", attach)
	if s.DNS.Listen != "" {
		fmt.Fprintf(a.Out, "  names    %s\n", s.DNS.Listen)
	}
}

// locators prints the host's locators.
func (a *app) locators(list []control.Locator) {
	if len(list) == 0 {
		fmt.Fprintln(a.Out, "no locator: no link has both a global prefix and a default route")
		return
	}
	t := a.Table("LINK", "LOCATOR", "STATE", "SINCE", "PREFERRED FOR")
	for _, l := range list {
		state := l.State
		if l.Disabled {
			state = "disabled"
		}
		t.Row(cli.Text("%s", l.Link), cli.Text("%s", prefix(l.L64)), stateCell(state, false), cli.Text("%s", a.ago(l.Since)), cli.Text("%s", left(l.PreferredS)))
	}
	t.Print(a.Out)
}

// correspondents prints one line each.
func (a *app) correspondents(list []control.Session) {
	if len(list) == 0 {
		fmt.Fprintln(a.Out, noPeer)
		return
	}
	t := a.Table("PEER", "STATE", "PATH", "RTT", "LAST MOVE", "COST")
	for _, s := range list {
		t.Row(cli.Text("%s", peerName(s)), stateCell(s.State, s.Dead), cli.Text("%s", inUse(s)),
			cli.Number("%s", millis(s.RTTMS)), cli.Text("%s", a.ago(s.LastMove)), cli.Number("%s", millis(s.LastMoveMS)))
	}
	t.Print(a.Out)
}

// peerName returns the chief name of a correspondent, or its identifier.
func peerName(s control.Session) string {
	if len(s.Names) > 0 {
		return s.Names[0]
	}
	return s.NID.String()
}

// inUse returns the path of the last packet; before the first one, the path
// that it will take.
func inUse(s control.Session) string {
	more := ""
	if len(s.Paths) > 1 {
		more = fmt.Sprintf(" (one of %d)", len(s.Paths))
	}
	switch {
	case s.InUse != nil:
		return pathText(*s.InUse) + more
	case len(s.Paths) > 0:
		return pathText(s.Paths[0].Path) + more
	}
	return "-"
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
