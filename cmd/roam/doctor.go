package main

import (
	"context"
	"fmt"
	"slices"

	"roam"
	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/doctor"

	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor [PEER]", Short: "Check this host, or the paths to a peer; name faults and remedies",
		Args: cli.AtMost(1), ValidArgsFunction: a.completePeers,
		RunE: func(cmd *cobra.Command, args []string) error { return a.doctor(cmd.Context(), args) },
	}
}

// examined is what `roam doctor --json` prints.
type examined struct {
	OK       bool             `json:"ok"` // there is no fault
	Findings []doctor.Finding `json:"findings"`
}

func (a *app) doctor(ctx context.Context, args []string) error {
	word := ""
	if len(args) == 1 {
		word = args[0]
	}
	findings := doctor.Examine(a.facts(ctx, word))
	out := examined{OK: !doctor.Stands(findings), Findings: findings}
	if a.JSON {
		if err := a.PrintJSON(out); err != nil {
			return err
		}
	} else {
		a.findings(findings)
	}
	if !out.OK {
		return cli.Silent(cli.StatusFailure) // the findings are printed
	}
	return nil
}

// findings prints one line for each finding, and its remedy below.
func (pr *printer) findings(list []doctor.Finding) {
	colours := map[doctor.Level]string{doctor.OK: cli.Green, doctor.Warning: cli.Yellow, doctor.Fault: cli.Red}
	for _, f := range list {
		pr.Fill(fmt.Sprintf("%s  %-8s  ", pr.Paint(colours[f.Level], fmt.Sprintf("%-7s", f.Level)), f.About), f.Text)
		if f.Do != "" {
			pr.Fill(fmt.Sprintf("%19s> ", ""), f.Do)
		}
	}
	if !doctor.Stands(list) {
		fmt.Fprintln(pr.Out, "\nno fault found")
	}
}

// facts collects the input of the judgement; word names a peer, or is empty.
func (a *app) facts(ctx context.Context, word string) doctor.Facts {
	f := doctor.Facts{Now: a.now(), Version: version, ConfigFile: a.configFile(nil)}
	daemonFacts(ctx, a, &f)
	written, err := a.config()
	if err != nil {
		written, f.ConfigFault = config.Rescue(f.ConfigFile), err.Error()
	}
	f.Config = written
	if f.Daemon != nil {
		if cfg, err := inForce(a); err == nil {
			f.Config = cfg
		}
		if f.ConfigFault == "" && f.Daemon.Config == f.ConfigFile {
			f.Pending = config.Diff(f.Config, written)
		}
	}
	f = doctor.Gather(ctx, a.host, f)
	if word != "" && f.Daemon != nil && f.Incomplete == "" {
		f.Peer = a.peerFacts(ctx, word, f.Sessions)
	}
	return f
}

// daemonFacts adds what the daemon tells.
func daemonFacts(ctx context.Context, a *app, f *doctor.Facts) {
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		s, err := b.Status(ctx)
		if err != nil {
			return err
		}
		f.Daemon = &s
		if len(s.Roles) > 0 {
			if f.Roles, err = b.Roles(ctx, 0); err != nil {
				return fmt.Errorf("roles: %w", err)
			}
			f.BehindRoutes = doctor.BehindRoutes(ctx, a.host, f.Roles)
		}
		if !s.RunsHost() {
			return nil
		}
		if f.Locators, err = b.Locators(ctx); err != nil {
			return fmt.Errorf("locators: %w", err)
		}
		if f.Sessions, err = control.Sessions(ctx, b); err != nil {
			return fmt.Errorf("sessions: %w", err)
		}
		return nil
	})
	switch {
	case err != nil && f.Daemon == nil:
		f.DaemonError = err.Error()
	case err != nil:
		f.Incomplete = err.Error()
	}
}

// peerFacts queries the daemon and the resolver about one peer.
func (a *app) peerFacts(ctx context.Context, word string, sessions []control.Session) *doctor.PeerFacts {
	p := &doctor.PeerFacts{Word: word}
	for _, s := range sessions {
		p.KnownPeers = append(p.KnownPeers, peerName(s))
		if isPeer(s, word) {
			p.Session = &s
		}
	}
	if p.Session == nil {
		return p
	}
	if name := peerName(*p.Session); len(p.Session.Names) > 0 {
		if slices.Contains(p.Session.Names, word) {
			name = word
		}
		p.Asked, p.Resolved = true, a.host.Lookup(ctx, name)
	}
	p.PathMTU = doctor.PathMTU(a.host.Output(ctx, "ip", "-j", "-6", "route", "get", p.Session.Address.String()))
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		probed, err := b.Probe(ctx, p.Session.RemoteAlias)
		if err != nil {
			return err
		}
		p.Probed = &probed
		events, err := b.History(ctx)
		p.History = eventsOf(events, p.Session.RemoteAlias)
		return err
	})
	if err != nil {
		p.ProbeErr = err.Error()
	}
	_ = a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		lines, err := b.Export(ctx) // without it, remedies are less specific
		p.Export = lines.Line
		return err
	})
	// The probe may have opened the session, so read its present state.
	_ = a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		list, err := control.Sessions(ctx, b)
		for _, s := range list {
			if s.RemoteAlias == p.Session.RemoteAlias {
				p.Session = &s
			}
		}
		return err
	})
	return p
}

// eventsOf returns the events about one peer.
func eventsOf(list []control.Event, handle roam.NID) []control.Event {
	return slices.DeleteFunc(slices.Clone(list), func(e control.Event) bool { return e.Peer != handle })
}
