package ilnphost

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"roam/ilnp"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/role/ilnphost/engine"
	"roam/wire/ip6"
)

// logged are the events that the log keeps one by one; the others are for
// monitors and the history.
var logged = map[ilnp.EventKind]slog.Level{
	ilnp.LocatorAdded: slog.LevelInfo, ilnp.LocatorRemoved: slog.LevelInfo,
	ilnp.HandoffStarted: slog.LevelInfo,
	ilnp.UpdateFailed:   slog.LevelWarn, ilnp.UpdateReceived: slog.LevelInfo,
	ilnp.SessionEstablished: slog.LevelInfo,
	ilnp.PlainRefused:       slog.LevelWarn,
	ilnp.KeyCopied:          slog.LevelWarn,
	ilnp.SessionFellBack:    slog.LevelInfo, ilnp.SessionReplaced: slog.LevelInfo,
	ilnp.PeerMoved: slog.LevelInfo, ilnp.PeerDead: slog.LevelWarn, ilnp.PeerAlive: slog.LevelInfo,
	ilnp.ModeChanged: slog.LevelInfo, ilnp.EncapsulationChanged: slog.LevelInfo, ilnp.SpreadChanged: slog.LevelInfo, ilnp.PathNarrowed: slog.LevelWarn,
	ilnp.PacketsLost: slog.LevelInfo,
}

// move gathers what a handoff cost, from its start to its end.
type move struct {
	acked, failed int
	slowest       time.Duration // round trip of a Locator Update
}

// onEvent runs in the engine's goroutine.
func (h *Host) onEvent(ev ilnp.Event, _ *engine.Engine) {
	shown := eventFrom(ev, h.linkNames())
	if ev.Kind == ilnp.PathAnswered {
		h.env.Hub.Publish(shown) // for a check that waits for it; the history would hold little else
	} else {
		h.env.Publish(shown)
	}
	h.tally.count(ev)
	switch ev.Kind {
	case ilnp.HandoffStarted:
		h.move = move{}
	case ilnp.UpdateAcked:
		h.move.acked++
		h.move.slowest = max(h.move.slowest, ev.RTT)
	case ilnp.UpdateFailed:
		h.move.failed++
	case ilnp.HandoffDone:
		h.logMove(shown)
	case ilnp.Refused:
		h.logRefused(ev, shown)
	}
	if level, ok := logged[ev.Kind]; ok {
		h.logEvent(level, ev, shown)
	}
}

// logRefused tells of input that was refused: as one of security only if an attacker may
// have sent it.
func (h *Host) logRefused(ev ilnp.Event, shown control.Event) {
	if ilnp.Suspicious(ev.Reason) {
		h.logSecurity(ev.Time, "input was refused", append([]any{"reason", ev.Reason, "peer", shown.PeerName,
			"nid", shown.Peer}, whatToDo(ev)...)...)
		return
	}
	h.logEvent(slog.LevelWarn, ev, shown)
}

// whatToDo returns what to do about input that was refused, for the log.
func whatToDo(ev ilnp.Event) []any {
	if hint := control.RefusalHint(ev.Reason); ev.Kind == ilnp.Refused && hint != "" {
		return []any{"do", hint}
	}
	return nil
}

// logEvent writes an event's line, unless there were too many about sessions.
func (h *Host) logEvent(level slog.Level, ev ilnp.Event, shown control.Event) {
	var more []any
	if ev.Key != (ilnp.SessionKey{}) {
		ok, leftOut := h.chatter.take(ev.Time)
		if !ok {
			return
		}
		if leftOut > 0 {
			more = []any{"left_out", leftOut}
		}
	}
	more = append(more, whatToDo(ev)...)
	if ev.Kind == ilnp.PlainRefused {
		more = append(more, "allow", allowLess(h.records[ev.Key.Remote], ev.Reason))
	}
	if (ev.Kind == ilnp.SessionFellBack || ev.Kind == ilnp.PlainRefused) && ev.Reason == ilnp.WhyNoILNP {
		more = append(more, h.missingHalf(ev.Time)...)
	}
	h.log.Log(context.Background(), level, shown.Kind, append(attributes(ev, shown), more...)...)
}

// missingHalf says what is likely missing where a peer refuses our nonce, and the line
// to run there: hosts that do not know us answer as those without ILNP do.
func (h *Host) missingHalf(now time.Time) []any {
	lines, err := h.exportLines(now)
	if err != nil {
		return nil // this host has no name to be added by
	}
	return []any{"likely", "no Roam there, or it does not know this host", "run_there", "roam add '" + lines.Line + "'"}
}

// attributes returns what an event has, for the log.
func attributes(ev ilnp.Event, shown control.Event) []any {
	var out []any
	if shown.Peer != 0 {
		out = append(out, "nid", shown.Peer)
	}
	if shown.PeerName != "" {
		out = append(out, "peer", shown.PeerName)
	}
	if len(shown.From) > 0 || len(shown.To) > 0 {
		out = append(out, "from", set(shown.From), "to", set(shown.To))
	}
	if ev.Duration > 0 {
		out = append(out, "duration_ms", control.Millis(ev.Duration))
	}
	if ev.RTT > 0 {
		out = append(out, "rtt_ms", control.Millis(ev.RTT))
	}
	if ev.Lost != nil {
		out = append(out, "lost_sent", ev.Lost.Sent, "lost_received", ev.Lost.Received)
	}
	if ev.Reason != "" {
		out = append(out, "reason", ev.Reason)
	}
	if len(ev.Locators) > 0 {
		prefixes := make([]string, len(ev.Locators))
		for i, l := range ev.Locators {
			prefixes[i] = l.Prefix().String()
		}
		out = append(out, "locators", strings.Join(prefixes, ", "))
	}
	return out
}

// logMove writes the one line that tells a whole move of this host.
func (h *Host) logMove(e control.Event) {
	h.log.Info("moved",
		"trigger", e.Reason, "from", set(e.From), "to", set(e.To),
		"duration_ms", rounded(e.DurationMS), "lu_rtt_ms", rounded(control.Millis(h.move.slowest)),
		"acknowledged", h.move.acked, "given_up", h.move.failed)
}

// rounded drops what people do not read: all below a hundredth of a millisecond.
func rounded(ms float64) float64 { return math.Round(ms*100) / 100 }

// set prints a set of locators: "wlan0 2001:db8:1:1::/64, ...".
func set(list []control.LinkLocator) string {
	if len(list) == 0 {
		return "none"
	}
	words := make([]string, len(list))
	for i, l := range list {
		words[i] = fmt.Sprintf("%s %s", l.Link, l.L64.Prefix())
	}
	return strings.Join(words, ", ")
}

// logSecurity writes a line of the security log, unless there were too many.
func (h *Host) logSecurity(now time.Time, msg string, attrs ...any) {
	ok, leftOut := h.security.take(now)
	if !ok {
		return
	}
	if leftOut > 0 {
		attrs = append(attrs, "left_out", leftOut)
	}
	h.log.Warn("security: "+msg, attrs...)
}

// suspicious are the counters that an attack would raise, of the data plane and
// of the engine.
var suspicious = map[string]bool{
	"drop_session_outside": true, "drop_session_link": true, "drop_forwarded": true,
	"drop_two_nonces": true, "drop_nonce_length": true,
	"drop_wrong_nonce": true, "drop_icmp_no_nonce": true, "drop_update_no_nonce": true,
	"drop_update_no_session": true, "drop_unknown_locator": true, "drop_ring_share": true,
	engine.ForgedError: true, strippedCounter: true,
}

// watchEvery is how often the counters are compared; each look is a system
// call a counter.
const watchEvery = 10 * time.Second

// watchCounters tells what was refused since the last look (RFC 6741 §§11.1 and
// 11.2, RFC 6743 §6). It runs in the engine's goroutine.
func (h *Host) watchCounters(now time.Time) {
	if now.Sub(h.watched) < watchEvery {
		return
	}
	h.watched = now
	counters, err := h.plane.Counters()
	if err != nil {
		h.log.Warn("read counters", "err", err)
		return
	}
	for reason, n := range h.engine.Refused() {
		counters = append(counters, dataplane.Counter{Name: reason, Meaning: "refused by the daemon", Value: n})
	}
	for _, c := range nameCounters(h) {
		counters = append(counters, dataplane.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
	}
	h.tellRefused(now, counters, h.lastRefused)
}

// lastRefused describes a packet that a suspicious counter has lately counted, if
// there is any.
func (h *Host) lastRefused(counter string) []any {
	r, ok := h.engine.LastForged(), true
	if counter != engine.ForgedError {
		var err error
		if r, ok, err = h.plane.LastRefused(counter); err != nil {
			h.log.Warn("read what was refused", "err", err)
		}
	}
	if !ok {
		return nil
	}
	name := h.engine.Links()[r.Link].Name
	if l, err := net.InterfaceByIndex(int(r.Link)); name == "" && err == nil {
		name = l.Name // no uplink
	}
	return describe(r, name)
}

// tellRefused logs the suspicious counters that have grown since it was called
// before, each with one of the packets in full; the first call only looks.
func (h *Host) tellRefused(now time.Time, counters []dataplane.Counter, last func(counter string) []any) {
	first := h.lastCounts == nil
	if first {
		h.lastCounts = make(map[string]uint64)
	}
	for _, c := range counters {
		if more := c.Value - h.lastCounts[c.Name]; more > 0 && suspicious[c.Name] && !first {
			attrs := []any{"counter", c.Name, "meaning", c.Meaning, "packets", more}
			h.logSecurity(now, "packets were refused", append(attrs, last(c.Name)...)...)
		}
		h.lastCounts[c.Name] = c.Value
	}
}

// describe returns what a refused packet was like, for the log.
func describe(r dataplane.Refusal, link string) []any {
	out := []any{
		"one_at", r.At.UTC().Format(time.RFC3339Nano), "interface", cmp.Or(link, fmt.Sprintf("index %d", r.Link)),
		"source", r.Remote.Addr(), "destination", r.Local.Addr(), "protocol", r.Proto,
	}
	switch {
	case r.Proto == ip6.ICMPv6:
		out = append(out, "icmp_type", r.Type)
	case r.SrcPort != 0 || r.DstPort != 0:
		out = append(out, "source_port", r.SrcPort, "destination_port", r.DstPort)
	}
	return out
}

// onTick runs in the engine's goroutine, about once a second.
func (h *Host) onTick(now time.Time) {
	h.listLiterals(now)
	h.watchCounters(now)
	h.watchNotAdmitted()
	watchFormer(h, now)
	h.rendezvous.lookAgain(now, h)
	h.borders.tick(now)
	if !h.plane.Behind() {
		h.over.Do(func() { close(h.tookOver) })
	}
}

func (h *Host) onTrouble(link, reason string) {
	h.env.Publish(control.Event{Time: time.Now(), Kind: kindName(ilnp.Refused), Reason: link + ": " + reason})
}
