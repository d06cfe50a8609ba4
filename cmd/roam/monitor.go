package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) monitorCommand() *cobra.Command {
	var want wanted
	c := &cobra.Command{
		Use: "monitor [PEER]", Short: "Show events as they happen, until interrupted", Args: cli.AtMost(1),
		ValidArgsFunction: a.completePeers,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			want.peer = strings.Join(args, "")
			return a.monitor(ctx, want)
		},
	}
	c.Flags().StringSliceVar(&want.kinds, "kind", nil, "show only events of these `KINDS`, separated by commas")
	_ = c.RegisterFlagCompletionFunc("kind",
		cobra.FixedCompletions(control.KindNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// wanted selects events.
type wanted struct {
	peer  string     // the user's word for it; empty: all, and what concerns no peer
	nids  []roam.NID // that its events have, and
	names []string   // names: its next session may be another one
	kinds []string   // empty: all
}

// has reports whether an event is wanted. That some were missed is always said.
func (w wanted) has(e control.Event) bool {
	if e.Kind == control.KindLost {
		return true
	}
	if w.peer != "" && !slices.Contains(w.nids, e.Peer) && !slices.Contains(w.names, e.PeerName) {
		return false
	}
	return len(w.kinds) == 0 || slices.Contains(w.kinds, e.Kind)
}

// check refuses a kind that no event has.
func (w wanted) check() error {
	for _, k := range w.kinds {
		if !slices.Contains(control.KindNames(), k) {
			return cli.Usagef("no event is of the kind %q; there are %s", k, strings.Join(control.KindNames(), ", "))
		}
	}
	return nil
}

// find looks for the peer among those that are known, with a session or without one.
func (w *wanted) find(ctx context.Context, b control.Backend) error {
	var others known
	err := b.EachSession(ctx, func(s control.Session) error {
		if isPeer(s, w.peer) {
			w.nids, w.names = append(w.nids, s.RemoteAlias), append(w.names, s.Names...)
		} else {
			others.add(s)
		}
		return nil
	})
	if err == nil && w.nids == nil {
		err = others.refuse(w.peer)
	}
	if nid, no := roam.ParseNID(w.peer); no == nil {
		w.nids = append(w.nids, nid) // who is known so far may only claim it
	}
	return err
}

func (a *app) monitor(ctx context.Context, want wanted) error {
	if err := want.check(); err != nil {
		return err
	}
	b, err := a.backend()
	if err != nil {
		return err
	}
	events, err := b.Subscribe(ctx)
	if err != nil {
		return err
	}
	if want.peer != "" { // events since are not missed
		if err := a.ask(ctx, want.find); err != nil {
			return err
		}
	}
	enc := json.NewEncoder(a.Out)
	for e := range events {
		if !want.has(e) {
			continue
		}
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

// clock is the form of an event's time.
const clock = "15:04:05.000"

// eventLine formats one event as a line.
func (pr *printer) eventLine(e control.Event) string {
	at, text := pr.eventParts(e)
	return strings.TrimRight(at+text, " ")
}

// eventParts returns the columns of an event that all have, and the rest.
func (pr *printer) eventParts(e control.Event) (at, text string) {
	peer := e.PeerName
	if peer == "" && e.Peer != 0 {
		peer = e.Peer.String()
	}
	var fields []string
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
	add(e.Lost != nil, lostPackets(e.Lost))
	add(e.Reason != "", e.Reason)
	at = fmt.Sprintf("%s  %s  ", e.Time.Local().Format(clock), pr.Paint(eventColour(e.Kind), fmt.Sprintf("%-19s", e.Kind)))
	return at, strings.Join(fields, "  ")
}

// lostPackets says what was lost on a path.
func lostPackets(l *control.LostPackets) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("lost %s sent, %s received", count(l.Sent), count(l.Received))
}

func eventColour(kind string) string {
	switch kind {
	case "handoff-done", "session-established", "peer-alive":
		return cli.Green
	case "update-failed", "handoff-returned", "path-avoided", "peer-dead", "refused", control.KindLost:
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
