package daemon

import (
	"context"
	"log/slog"

	"roam/ilnp"
	"roam/internal/control"
	"roam/internal/engine"
)

// logged are the events that the log keeps; the others are for monitors.
var logged = map[ilnp.EventKind]slog.Level{
	ilnp.LocatorAdded: slog.LevelInfo, ilnp.LocatorRemoved: slog.LevelInfo,
	ilnp.HandoffStarted: slog.LevelInfo, ilnp.HandoffDone: slog.LevelInfo,
	ilnp.UpdateFailed: slog.LevelWarn, ilnp.SessionEstablished: slog.LevelInfo,
	ilnp.SessionFellBack: slog.LevelInfo, ilnp.SessionReplaced: slog.LevelInfo,
	ilnp.PeerMoved: slog.LevelInfo, ilnp.PeerDead: slog.LevelWarn, ilnp.PeerAlive: slog.LevelInfo,
	ilnp.Refused: slog.LevelDebug, ilnp.ModeChanged: slog.LevelInfo,
}

// onEvent runs in the engine's goroutine.
func (d *Daemon) onEvent(ev ilnp.Event, _ *engine.Engine) {
	shown := control.EventFrom(ev, d.linkNames())
	d.hub.Publish(shown)
	level, ok := logged[ev.Kind]
	if !ok {
		return
	}
	attrs := []any{"peer", shown.PeerName}
	for _, l := range shown.To {
		attrs = append(attrs, "to", l.Link)
	}
	if ev.Duration > 0 {
		attrs = append(attrs, "duration", ev.Duration)
	}
	if ev.RTT > 0 {
		attrs = append(attrs, "rtt", ev.RTT)
	}
	if ev.Reason != "" {
		attrs = append(attrs, "reason", ev.Reason)
	}
	for _, l := range ev.Locators {
		attrs = append(attrs, "locator", l)
	}
	d.opts.Log.Log(context.Background(), level, shown.Kind, attrs...)
}

func (d *Daemon) onTrouble(link, reason string) {
	d.hub.Publish(control.Event{Kind: control.KindName(ilnp.Refused), Reason: link + ": " + reason})
}
