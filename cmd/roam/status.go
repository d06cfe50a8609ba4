package main

import (
	"context"
	"fmt"
	"strings"
	"time"

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
		if g.Status, err = b.Status(ctx); err != nil {
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
	if a.json {
		return a.printJSON(g)
	}
	a.identity(g.Status)
	fmt.Fprintln(a.out)
	a.locators(g.Locators)
	fmt.Fprintln(a.out)
	a.correspondents(g.Sessions)
	for _, w := range g.Status.Warnings {
		a.warn("%s", w)
	}
	return nil
}

func (a *app) identity(s control.Status) {
	state := paint(a.colour, green, s.State)
	if s.State != "running" {
		state = paint(a.colour, yellow, s.State)
	}
	fmt.Fprintf(a.out, "%s  %s for %s\n", paint(a.colour, bold, s.NID.String()), state, span(seconds(s.UptimeS)))
	fmt.Fprintf(a.out, "  address  %s on %s\n", s.SessionAddress, s.Device)
	fmt.Fprintf(a.out, "  mode     %s, accepts %s\n", s.Mode, s.Accept)
	attach := s.Plane.Attach
	if attach == "" {
		attach = "not loaded"
	}
	if len(s.Plane.Uplinks) > 0 {
		attach += " on " + strings.Join(s.Plane.Uplinks, ", ")
	}
	fmt.Fprintf(a.out, "  plane    %s\n", attach)
	if s.DNS.Listen != "" {
		fmt.Fprintf(a.out, "  names    %s\n", s.DNS.Listen)
	}
}

// locators prints the host's locators.
func (a *app) locators(list []control.Locator) {
	if len(list) == 0 {
		fmt.Fprintln(a.out, "no locator: no link has both a global prefix and a default route")
		return
	}
	t := a.table("LINK", "LOCATOR", "STATE", "SINCE", "PREFERRED FOR")
	for _, l := range list {
		state := l.State
		if l.Disabled {
			state = "disabled"
		}
		t.row(text("%s", l.Link), text("%s", prefix(l.L64)), stateCell(state, false), text("%s", a.ago(l.Since)), text("%s", left(l.PreferredS)))
	}
	t.print(a.out)
}

// correspondents prints one line each.
func (a *app) correspondents(list []control.Session) {
	if len(list) == 0 {
		fmt.Fprintln(a.out, noPeer)
		return
	}
	t := a.table("PEER", "STATE", "PATH", "RTT", "LAST MOVE", "COST")
	for _, s := range list {
		t.row(text("%s", peerName(s)), stateCell(s.State, s.Dead), text("%s", inUse(s)),
			number("%s", millis(s.RTTMS)), text("%s", a.ago(s.LastMove)), number("%s", millis(s.LastMoveMS)))
	}
	t.print(a.out)
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
