package border

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/internal/control"
	plane "roam/internal/dataplane/border"
	"roam/internal/metrics"
	"roam/sbr"
)

// forwards reports whether the host forwards IPv6.
func forwards() bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/forwarding")
	return err != nil || strings.TrimSpace(string(b)) != "0"
}

// Status names the site locators and says what keeps the border from its work.
func (r *Role) Status(ctx context.Context, _ *control.Status, own *control.RoleStatus) error {
	report, err := r.report(ctx)
	if err != nil {
		return err
	}
	var sites, down, silent []string
	for _, s := range report.Sites {
		sites = append(sites, fmt.Sprintf("%v %s %s", s.Locator.Prefix().Addr(), cmp.Or(s.Link, "-"), s.State))
		switch s.State {
		case control.BorderDown:
			down = append(down, s.Locator.Prefix().String())
		case control.BorderSilent:
			silent = append(silent, s.Link)
		}
	}
	own.Facts = []control.RoleFact{
		{Name: "inside", Value: cmp.Or(strings.Join(report.Inside, " "), "none")},
		{Name: "sites", Value: cmp.Or(strings.Join(sites, ", "), "none")},
		{Name: "flows", Value: fmt.Sprint(len(report.Flows))},
	}
	switch {
	case !forwards():
		own.Error, own.Do = "this host does not forward IPv6", "sysctl -w net.ipv6.conf.all.forwarding=1"
	case len(report.Inside) == 0:
		own.Error, own.Do = "no link to the inside", "list it in border.inside ("+r.Place("border.inside")+")"
	case len(down) > 0:
		own.Error = "no packets leave from " + strings.Join(down, ", ")
		own.Do = "bring the link and its default route up, or correct border.links (" + r.Place("border.links") + ")"
	case len(silent) > 0:
		own.Error = "nobody outside answers by " + strings.Join(silent, ", ") + ", and by other links they do"
		own.Do = "ask the provider; the border uses the link again once answers come"
	}
	return nil
}

// Report returns a control.BorderReport.
func (r *Role) Report(ctx context.Context) (any, error) { return r.report(ctx) }

// report reads the flows beside the loop: a million of them take seconds. One that is removed
// meanwhile may be shown with another one's locators.
func (r *Role) report(ctx context.Context) (out control.BorderReport, err error) {
	var now time.Time
	var table sbr.Table
	failed := r.loop.Do(ctx, func(at time.Time) {
		now, table = at, r.core.Table()
		out, err = r.reportNow()
	})
	if err = cmp.Or(failed, err); err != nil {
		return out, err
	}
	flows, err := r.plane.Flows(table)
	for _, f := range flows {
		announced := append([]roam.L64{}, f.Announced...)
		idle := now.Sub(f.Seen)
		out.Flows = append(out.Flows, control.BorderFlow{
			Inside: f.Inside, Internal: f.Internal, Outside: f.Outside, Remote: f.Remote, Announced: announced,
			IdleS: max(idle, 0).Round(time.Second).Seconds(),
		})
	}
	return out, err
}

// reportNow is called in the loop's goroutine, and leaves the flows out.
func (r *Role) reportNow() (out control.BorderReport, err error) {
	table := r.core.Table()
	out = control.BorderReport{
		Policy: string(r.core.Policy().AppendTo(nil)), Inside: []string{}, Sites: []control.BorderSite{},
		Flows: []control.BorderFlow{}, MaxFlows: r.Config.Border.MaxFlows,
	}
	for _, u := range r.links {
		if r.kindOf(u) == inside {
			out.Inside = append(out.Inside, u.Name)
		}
	}
	attached, err := r.plane.Attached()
	if err != nil {
		return out, err
	}
	out.Links = r.reportLinks(attached)
	out.Internal, out.Idle = r.reportPolicy()
	if out.FlowsRefused, err = r.plane.FlowsRefused(); err != nil {
		return out, err
	}
	shares, err := r.plane.Shares(table)
	if err != nil {
		return out, err
	}
	for _, l := range r.core.Policy().Site() {
		i := slices.IndexFunc(table.Sites, func(s sbr.Site) bool { return s.L64 == l })
		out.Sites = append(out.Sites, r.site(table.Sites[i], shares[i]))
	}
	return out, r.reportRefused(&out)
}

// reportPolicy lists the internal locators of the policy, and its lines that can never act.
func (r *Role) reportPolicy() (internal []roam.L64, idle []control.BorderIdle) {
	internal, idle = []roam.L64{}, []control.BorderIdle{}
	for _, e := range r.core.Policy().Entries() {
		if e.Internal() {
			internal = append(internal, e.L64)
		}
	}
	linked := make([]roam.L64, len(r.Config.Border.Links))
	for i, l := range r.Config.Border.Links {
		linked[i] = l.L64
	}
	for _, i := range r.core.Policy().Idle(linked) {
		idle = append(idle, control.BorderIdle{Locator: i.L64, Why: i.Why})
	}
	return internal, idle
}

// reportLinks lists the links of border.links, whether they exist or not, and those to the inside.
// attached are those with programs.
func (r *Role) reportLinks(attached []roam.LinkID) []control.BorderLink {
	list := []control.BorderLink{}
	for _, l := range r.Config.Border.Links {
		if !slices.ContainsFunc(list, func(o control.BorderLink) bool { return o.Name == l.Name }) {
			list = append(list, control.BorderLink{Name: l.Name, Locators: r.Config.Border.Locators(l.Name)})
		}
	}
	for _, u := range r.links {
		i := slices.IndexFunc(list, func(o control.BorderLink) bool { return o.Name == u.Name })
		if i < 0 && r.kindOf(u) != inside {
			continue
		}
		if i < 0 {
			i, list = len(list), append(list, control.BorderLink{Name: u.Name, Locators: []roam.L64{}})
		}
		l := &list[i]
		l.Exists, l.Up, l.Routed, l.Programs = true, u.Up, u.Routed, slices.Contains(attached, u.Link)
		l.XDP = r.xdp[u.Link].state
		if u.NextHop.IsValid() {
			l.Router = u.NextHop.String()
		}
		switch {
		case !u.HasMAC:
			l.Hardware = control.HardwareNone
		case u.NextHopValid:
			l.Hardware = control.HardwareKnown
		default:
			l.Hardware = control.HardwareUnknown
		}
	}
	return list
}

func (r *Role) site(s sbr.Site, n plane.Share) control.BorderSite {
	out := control.BorderSite{
		Locator: s.L64, State: control.BorderDown, NextHop: "kernel",
		TXPackets: n.TxPackets, TXBytes: n.TxBytes, RXPackets: n.RxPackets, RXBytes: n.RxBytes,
	}
	for _, u := range r.links {
		if u.Link != s.Link {
			continue
		}
		out.Link = u.Name
		if u.NextHopValid && u.HasMAC {
			out.NextHop = "known"
		}
		if out.DrainedBy = r.drainedBy(r.Config, u.Name); out.DrainedBy != "" {
			out.State = control.BorderDrained
		}
	}
	switch {
	case s.Up && r.core.IsSilent(s.L64):
		out.State = control.BorderSilent
	case s.Up:
		out.State = control.BorderUp
	}
	return out
}

// Counters lists what the programs count.
func (r *Role) Counters(context.Context) ([]control.Counter, error) {
	list, err := r.plane.Counters()
	var out []control.Counter
	for _, c := range list {
		out = append(out, control.Counter{Name: "border_" + c.Name, Meaning: c.Meaning, Value: c.Value})
	}
	return out, err
}

// Metrics writes what passed each site locator, and the number of flows.
func (r *Role) Metrics(ctx context.Context, w io.Writer) error {
	report, err := r.report(ctx)
	return cmp.Or(err, metrics.WriteFamilies(w, families(report)...))
}

// families are the metrics of a report.
func families(report control.BorderReport) []metrics.Family {
	packets := metrics.Family{Name: "roam_border_packets_total", Kind: "counter", Help: "Packets by site locator."}
	bytes := metrics.Family{Name: "roam_border_bytes_total", Kind: "counter", Help: "Their bytes, IPv6 header included."}
	flows := metrics.Family{Name: "roam_border_flows", Kind: "gauge", Help: "Flows across the border.",
		Samples: []metrics.Sample{{Value: float64(len(report.Flows))}}}
	for _, s := range report.Sites {
		labels := func(direction string) []string {
			return []string{"locator", s.Locator.Prefix().Addr().String(), "link", s.Link, "direction", direction}
		}
		packets.Samples = append(packets.Samples, metrics.Sample{Value: float64(s.RXPackets), Labels: labels("in")},
			metrics.Sample{Value: float64(s.TXPackets), Labels: labels("out")})
		bytes.Samples = append(bytes.Samples, metrics.Sample{Value: float64(s.RXBytes), Labels: labels("in")},
			metrics.Sample{Value: float64(s.TXBytes), Labels: labels("out")})
	}
	return []metrics.Family{packets, bytes, flows}
}
