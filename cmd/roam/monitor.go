package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) monitorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "monitor", Short: "Show events as they happen, until interrupted", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.monitor(ctx)
		},
	}
}

func (a *app) monitor(ctx context.Context) error {
	b, err := a.backend()
	if err != nil {
		return err
	}
	events, err := b.Subscribe(ctx)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(a.Out)
	for e := range events {
		if a.JSON {
			err = enc.Encode(e)
		} else {
			_, err = fmt.Fprintln(a.Out, a.eventLine(e))
		}
		if err != nil {
			return fmt.Errorf("print event: %w", err)
		}
	}
	if ctx.Err() != nil {
		return nil // an interrupt is the normal end of a monitor
	}
	return control.Errorf(control.CodeUnavailable, "%w any more: the daemon has ended", control.ErrNotRunning).
		WithHint("start it with `roam up`")
}

// eventLine formats one event as a line.
func (pr *printer) eventLine(e control.Event) string {
	peer := e.PeerName
	if peer == "" && e.Peer != 0 {
		peer = e.Peer.String()
	}
	fields := []string{e.Time.Local().Format("15:04:05.000"), pr.Paint(eventColour(e.Kind), fmt.Sprintf("%-19s", e.Kind))}
	add := func(ok bool, s string) {
		if ok {
			fields = append(fields, s)
		}
	}
	add(peer != "", peer)
	add(len(e.From)+len(e.To) > 0, linkLocators(e.From)+" > "+linkLocators(e.To))
	add(e.Path != nil, pathOf(e.Path))
	var locs []string
	for _, l := range e.Locators {
		locs = append(locs, prefix(l))
	}
	add(locs != nil, strings.Join(locs, ", "))
	add(e.RTTMS > 0, "rtt "+millis(e.RTTMS))
	add(e.DurationMS > 0, "took "+millis(e.DurationMS))
	add(e.Reason != "", e.Reason)
	return strings.TrimRight(strings.Join(fields, "  "), " ")
}

func eventColour(kind string) string {
	switch kind {
	case "handoff-done", "session-established", "peer-alive":
		return cli.Green
	case "update-failed", "handoff-returned", "peer-dead", "refused", control.KindLost:
		return cli.Red
	}
	return cli.Plain
}

func linkLocators(list []control.LinkLocator) string {
	if len(list) == 0 {
		return "none"
	}
	s := make([]string, len(list))
	for i, l := range list {
		s[i] = l.Link + " " + prefix(l.L64)
	}
	return strings.Join(s, ", ")
}

func pathOf(p *control.Path) string {
	if p == nil {
		return ""
	}
	return pathText(*p)
}
