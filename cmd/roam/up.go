package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/doctor"

	"github.com/spf13/cobra"
)

// startTime is how long the daemon may take to answer for the first time.
const startTime = 10 * time.Second

// started is what `roam up --json` prints.
type started struct {
	PID      int      `json:"pid"`
	Already  bool     `json:"already"` // it ran before
	Socket   string   `json:"socket"`
	Warnings []string `json:"warnings"`
}

func (a *app) upCommand() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Start the daemon and wait until it answers", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context()) },
	}
}

func (a *app) up(ctx context.Context) error {
	// Faults of the file are reported before anything is changed.
	cfg, err := a.config()
	if err != nil {
		return err
	}
	socket, err := a.socket()
	if err != nil {
		return err
	}
	b := a.connect(socket)
	var s control.Status
	err = a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		s, err = b.Status(ctx)
		return err
	})
	already := err == nil
	if err != nil {
		if !errors.Is(err, control.ErrNotRunning) {
			return err
		}
		if s, err = a.start(ctx, cfg, b); err != nil {
			return err
		}
	}
	out := started{PID: s.PID, Already: already, Socket: socket, Warnings: append([]string{}, s.Warnings...)}
	out.Warnings = append(out.Warnings, a.firewallWarnings(ctx, cfg)...)
	out.Warnings = append(out.Warnings, a.policyWarnings(ctx, b, s)...)
	if a.JSON {
		return a.PrintJSON(out)
	}
	word := "up"
	if already {
		word = "up already"
	}
	if s.RunsHost() {
		fmt.Fprintf(a.Out, "%s: %v, %s\n", word, s.NID, s.SessionAddress)
	} else {
		fmt.Fprintf(a.Out, "%s: roamd %s\n", word, s.Version)
	}
	for _, w := range out.Warnings {
		a.Warn("%s", w)
	}
	return nil
}

// start starts the daemon, through systemd if that manages it, and waits for its first answer.
func (a *app) start(ctx context.Context, cfg config.Config, b control.Backend) (control.Status, error) {
	if !a.host.Root() {
		return control.Status{}, control.Errorf(control.CodeInvalid, "start the daemon: only root may").
			WithHint("sudo roam up")
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	log := filepath.Join(cfg.Host.RunDir, "roamd.log")
	var ended <-chan error
	managed := a.configPath == "" && a.host.Systemd(ctx)
	if managed {
		log = "journalctl -u " + unit
		if err := a.host.Systemctl(ctx, "start"); err != nil {
			return control.Status{}, err
		}
	} else {
		var err error
		if ended, err = a.host.Detach(log, "--config", a.configFileAbs()); err != nil {
			return control.Status{}, err
		}
	}
	return a.firstAnswer(ctx, cfg, b, ended, log)
}

// configFileAbs returns the absolute path of the daemon's configuration file, since the daemon
// has another working directory.
func (a *app) configFileAbs() string {
	file := a.configFile(nil)
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

func (a *app) firstAnswer(ctx context.Context, cfg config.Config, b control.Backend, ended <-chan error,
	log string) (control.Status, error) {
	var (
		s     control.Status
		err   error
		early error
	)
	a.host.Until(ctx, func() bool {
		select {
		case early = <-ended:
			return true
		default:
		}
		s, err = b.Status(ctx)
		return err == nil
	})
	if early != nil {
		return s, control.Errorf(control.CodeUnavailable, "the daemon ended at once: %w\n%s", early, a.host.Tail(log)).
			WithHint("its whole log: %s", log)
	}
	if err != nil {
		do := "its log: " + log
		if cfg.Host.NID.Source == config.NIDFromAddress {
			do = `host.nid is "from-address": ` +
				"the daemon waits until this host has a global IPv6 address; " + do
		}
		return s, control.Errorf(control.CodeUnavailable, "the daemon was started and does not answer after %v: %w", startTime, err).
			WithHint("%s", do)
	}
	return s, nil
}

// firewallWarnings names the rules that admit session addresses from outside: these addresses
// are in fc00::/7, which many rule sets trust as a whole.
func (a *app) firewallWarnings(ctx context.Context, cfg config.Config) (out []string) {
	rules := doctor.TrustedByNft([]byte(a.host.Output(ctx, "nft", "-j", "list", "ruleset")), cfg.SessionNet())
	if len(rules) == 0 {
		rules = doctor.TrustedByIPTables(a.host.Output(ctx, "ip6tables-save"), cfg.SessionNet())
	}
	for _, r := range rules {
		out = append(out, fmt.Sprintf("a firewall rule trusts more than it should: %s; session addresses (%s) lie in it, so it also admits every correspondent: exempt them before it", r, cfg.SessionNet()))
	}
	return out
}

// policyTime is how long a daemon that has just started may take to have a locator.
const policyTime = 2 * time.Second

// policyWarnings names the policies of the host that keep sessions off a link. Their effect is
// known once the host has a locator.
func (a *app) policyWarnings(ctx context.Context, b control.Backend, s control.Status) (out []string) {
	if s.Policies {
		ctx, cancel := context.WithTimeout(ctx, policyTime)
		defer cancel()
		a.host.Until(ctx, func() bool {
			list, err := b.Locators(ctx)
			if err != nil || len(list) == 0 {
				return err != nil
			}
			if now, err := b.Status(ctx); err == nil {
				s = now
			}
			return true
		})
	}
	for _, o := range s.Obstructed {
		out = append(out, doctor.Obstacle(o)+": "+doctor.DoPolicy)
	}
	return out
}
