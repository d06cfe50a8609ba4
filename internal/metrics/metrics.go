// Package metrics writes the daemon's counters in the text format of Prometheus (exposition
// format 0.0.4).
//
// It implements the names, the escaping and a histogram, and is pure: its caller takes a
// snapshot and serves the text. It omits pushing, and series for single correspondents,
// since a host may have ten thousand of them. It is driven by internal/daemon.
//
// docs/howto/metrics.md lists every name; a test compares.
package metrics

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Snapshot holds the values at one moment.
type Snapshot struct {
	Version       string
	NID           string
	Mode          string
	Attach        string            // "tcx" or "clsact"
	Adopted       bool              // this daemon took over the sessions of an earlier one
	StartSeconds  float64           // when this daemon started, Unix time
	Starts        uint64            // of daemons since the run directory was created, this one included
	Sessions      map[string]uint64 // by state; every state is present, even if zero
	Dead          uint64            // sessions without a working path
	Proofs        map[string]uint64 // sessions by what says who the peer is; every value is present
	PlainRefused  uint64            // sessions that ended as plain IPv6 was not allowed
	Locators      []Locator
	Uplinks       []Uplink
	Paths         []Paths
	Handoffs      map[string]uint64 // completed, by trigger
	HandoffTime   *Histogram        // from the change of the locator set to the last acknowledgement
	UpdateRTT     *Histogram        // from a Locator Update to its acknowledgement
	UpdatesSent   uint64
	UpdatesFailed uint64
	PeerMoves     uint64
	FellBack      uint64
	SkippedLines  uint64    // of the hosts file and of the added peers, at the last read
	Counters      []Counter // of the data plane
	Refused       []Counter // of the daemon, by reason
}

// Locator is one locator of this host.
type Locator struct {
	Link, L64, State string
	Disabled         bool
}

// Uplink is a link that may carry sessions, with the kernel's counters of all its traffic.
type Uplink struct {
	Link                                   string
	RxPackets, RxBytes, TxPackets, TxBytes uint64
}

// Paths is what is known of all paths of sessions over one link together. Rates are bytes of
// data a second, as far as peers report them.
type Paths struct {
	Link                             string
	InUse, Avoided, Left             int
	RTT, Least                       float64 // seconds; 0: unknown
	OutRate, InRate, OutLoss, InLoss float64
}

// Counter is one counter with its stable name.
type Counter struct {
	Name, Meaning string
	Value         uint64
}

// Content is the media type of Write's output.
const Content = "text/plain; version=0.0.4; charset=utf-8"

// page collects the text; after the first error it writes nothing more.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// family writes the head of a metric.
func (p *page) family(name, kind, help string) {
	p.printf("# HELP %s %s\n# TYPE %s %s\n", name, escapeHelp(help), name, kind)
}

// sample writes one value; labels are pairs of name and value.
func (p *page) sample(name string, value float64, labels ...string) {
	p.printf("%s%s %s\n", name, labelText(labels), number(value))
}

func (p *page) single(name, kind, help string, value float64) {
	p.family(name, kind, help)
	p.sample(name, value)
}

// Write writes the snapshot. It returns only errors of w.
func Write(w io.Writer, s Snapshot) error {
	p := &page{w: w}
	p.family("roam_info", "gauge", "Always 1; the labels say who this is.")
	p.sample("roam_info", 1, "version", s.Version, "nid", s.NID, "mode", s.Mode, "attach", s.Attach)
	p.single("roam_start_time_seconds", "gauge", "When this daemon started, in Unix time.", s.StartSeconds)
	p.single("roam_starts_total", "counter", "Daemons that were started since boot, this one included.", float64(s.Starts))
	p.single("roam_adopted", "gauge", "1 if this daemon took sessions over from an earlier one.", boolean(s.Adopted))
	p.byLabel("roam_sessions", "gauge", "Correspondents by the state of their session.", "state", s.Sessions)
	p.single("roam_sessions_dead", "gauge", "Sessions of which no path works at present.", float64(s.Dead))
	p.byLabel("roam_sessions_by_proof", "gauge", "Sessions by what says who the peer is.", "proof", s.Proofs)
	p.family("roam_locator", "gauge", "1 for each locator of this host, in its present state.")
	for _, l := range s.Locators {
		p.sample("roam_locator", 1, "link", l.Link, "l64", l.L64, "state", l.State, "disabled",
			strconv.FormatBool(l.Disabled))
	}
	p.mode(s.Mode)
	p.uplinks(s.Uplinks)
	p.paths(s.Paths)
	p.byLabel("roam_handoffs_total", "counter", "Handoffs of this host that ended, by what triggered them.", "trigger",
		s.Handoffs)
	p.histogram("roam_handoff_seconds", "From the change of the active set to the last acknowledgement.", s.HandoffTime)
	p.histogram("roam_update_rtt_seconds", "From a Locator Update to its acknowledgement, retransmissions included.",
		s.UpdateRTT)
	p.single("roam_updates_sent_total", "counter", "Locator Updates sent, retransmissions included.",
		float64(s.UpdatesSent))
	p.single("roam_updates_failed_total", "counter", "Locator Updates that were given up.", float64(s.UpdatesFailed))
	p.single("roam_peer_moves_total", "counter", "Moves of correspondents that were followed.", float64(s.PeerMoves))
	p.single("roam_fallbacks_total", "counter", "Sessions that fell back to plain IPv6.", float64(s.FellBack))
	p.single("roam_plain_refused_total", "counter",
		"Sessions with peers whose key is known that ended, as plain IPv6 is not allowed with them.", float64(s.PlainRefused))
	p.single("roam_skipped_lines", "gauge", "Lines of the hosts file and of the added peers that have a fault.",
		float64(s.SkippedLines))
	for _, c := range s.Counters {
		p.single("roam_"+c.Name+"_total", "counter", c.Meaning, float64(c.Value))
	}
	p.family("roam_refused_total", "counter", "Input that the daemon refused, by reason.")
	for _, c := range s.Refused {
		p.sample("roam_refused_total", float64(c.Value), "reason", c.Meaning)
	}
	return p.err
}

// modes are those of a host, of which one is in force.
var modes = []string{"soft", "hard", "duality"}

func (p *page) mode(inForce string) {
	p.family("roam_mode", "gauge", "1 for the mode in force, 0 for the others.")
	for _, m := range modes {
		p.sample("roam_mode", boolean(m == inForce), "mode", m)
	}
}

// uplinks writes what the links carry, sessions and all else.
func (p *page) uplinks(list []Uplink) {
	for _, f := range []struct {
		name, help string
		rx, tx     func(Uplink) uint64
	}{
		{"roam_uplink_packets_total", "Packets of all traffic on an uplink, as the kernel counts them.",
			func(u Uplink) uint64 { return u.RxPackets }, func(u Uplink) uint64 { return u.TxPackets }},
		{"roam_uplink_bytes_total", "Bytes of all traffic on an uplink, as the kernel counts them.",
			func(u Uplink) uint64 { return u.RxBytes }, func(u Uplink) uint64 { return u.TxBytes }},
	} {
		p.family(f.name, "counter", f.help)
		for _, u := range list {
			p.sample(f.name, float64(f.rx(u)), "link", u.Link, "direction", "in")
			p.sample(f.name, float64(f.tx(u)), "link", u.Link, "direction", "out")
		}
	}
}

// paths writes what is known of the paths over each link: a host may have ten thousand of them.
func (p *page) paths(list []Paths) {
	p.family("roam_paths", "gauge", "Paths of sessions over a link, by whether they are in use.")
	for _, l := range list {
		p.sample("roam_paths", float64(l.InUse), "link", l.Link, "state", "in use")
		p.sample("roam_paths", float64(l.Avoided), "link", l.Link, "state", "avoided")
		p.sample("roam_paths", float64(l.Left), "link", l.Link, "state", "left")
	}
	for _, f := range []struct {
		name, help string
		value      func(Paths) float64
	}{
		{"roam_path_rtt_seconds", "Mean of the last round trips of the paths in use over a link.",
			func(l Paths) float64 { return l.RTT }},
		{"roam_path_least_rtt_seconds", "Least round trip of a path in use over a link, of the last minutes.",
			func(l Paths) float64 { return l.Least }},
	} {
		p.family(f.name, "gauge", f.help)
		for _, l := range list {
			if v := f.value(l); v > 0 {
				p.sample(f.name, v, "link", l.Link)
			}
		}
	}
	p.family("roam_path_bytes_per_second", "gauge", "Data that arrive by paths over a link, as peers report them.")
	for _, l := range list {
		p.sample("roam_path_bytes_per_second", l.InRate, "link", l.Link, "direction", "in")
		p.sample("roam_path_bytes_per_second", l.OutRate, "link", l.Link, "direction", "out")
	}
	p.family("roam_path_loss_ratio", "gauge", "Share of the data on paths over a link that is lost, as peers report it.")
	for _, l := range list {
		p.sample("roam_path_loss_ratio", l.InLoss, "link", l.Link, "direction", "in")
		p.sample("roam_path_loss_ratio", l.OutLoss, "link", l.Link, "direction", "out")
	}
}

func (p *page) byLabel(name, kind, help, label string, values map[string]uint64) {
	p.family(name, kind, help)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		p.sample(name, float64(values[k]), label, k)
	}
}

// labelText returns {a="b",...}, or nothing without labels.
func labelText(entries []string) string {
	if len(entries) == 0 {
		return ""
	}
	var b strings.Builder
	for i := 0; i+1 < len(entries); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(&b, `%s%s="%s"`, sep, entries[i], escapeLabel(entries[i+1]))
	}
	return b.String() + "}"
}

var (
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

func escapeLabel(s string) string { return labelEscapes.Replace(s) }

func escapeHelp(s string) string { return helpEscapes.Replace(s) }

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
