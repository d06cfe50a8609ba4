package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/naming"
)

var _ control.Backend = (*Daemon)(nil)

// do runs f in the engine's goroutine.
func (d *Daemon) do(ctx context.Context, f func(now time.Time)) error {
	if err := d.engine.Do(ctx, f); err != nil {
		return control.Errorf(control.CodeUnavailable, "ask the engine: %w", err)
	}
	return nil
}

// linkNames returns the names of links and peers; call it in the engine's
// goroutine.
func (d *Daemon) linkNames() control.Names {
	return control.Names{
		Link: func(id roam.LinkID) string { return d.engine.Links()[id].Name },
		Peer: func(k ilnp.SessionKey) string { return d.nameOf(k.Remote) },
	}
}

// Status tells who the host is and how the daemon fares.
func (d *Daemon) Status(ctx context.Context) (control.Status, error) {
	s := control.Status{
		Version: d.opts.Version, PID: os.Getpid(), State: "running", Warnings: []string{},
		Started: d.started, UptimeS: time.Since(d.started).Seconds(), NID: d.nid,
		Accept: control.AcceptName(d.cfg.Host.Accept), SessionPrefix: d.cfg.SessionNet(),
		SessionAddress: control.SessionAddr(d.cfg.Host.SessionPrefix, d.nid),
		Device:         d.cfg.Host.Device, Config: d.opts.ConfigFile,
	}
	err := d.do(ctx, func(time.Time) {
		s.Mode = control.ModeName(d.engine.Core().Mode())
		s.Warnings = append(s.Warnings, d.warnings...)
		for _, f := range d.hosts.Faults {
			s.Faults = append(s.Faults, control.HostsFault{Place: placeOf(naming.Place{File: f.File, Line: f.Line}), Message: f.Err.Error()})
		}
		if len(s.Faults) > 0 {
			s.Warnings = append(s.Warnings, control.SkippedWarning(s.Faults))
		}
		s.Plane = control.Plane{
			Attach: d.plane.Attach(), ABI: dataplane.ABI, Features: d.plane.Features(),
			Adopted: d.plane.Adopted(), Pins: d.cfg.Pins(), Uplinks: []string{},
		}
		for _, u := range d.engine.Links() {
			s.Plane.Uplinks = append(s.Plane.Uplinks, u.Name)
		}
		slices.Sort(s.Plane.Uplinks)
		s.NotAdmitted = d.refused.sorted()
		s.Policies, s.Obstructed = d.engine.PolicyArmed(), d.obstructed()
		if d.dns != nil {
			s.DNS = control.DNS{Listen: d.dns.Addr().String(), Managed: d.resolv != nil}
			for _, u := range d.dns.Upstream() {
				s.DNS.Upstream = append(s.DNS.Upstream, u.String())
			}
		}
	})
	if len(s.Warnings) > 0 {
		s.State = "degraded"
	}
	return s, err
}

// Locators lists this host's locators.
func (d *Daemon) Locators(ctx context.Context) ([]control.Locator, error) {
	var out []control.Locator
	err := d.do(ctx, func(now time.Time) {
		for _, l := range d.engine.Core().Locals(now) {
			out = append(out, control.LocatorFrom(l, d.linkNames()))
		}
	})
	slices.SortFunc(out, func(a, b control.Locator) int { return strings.Compare(a.Link, b.Link) })
	return out, err
}

// Sessions lists the correspondents that have state.
func (d *Daemon) Sessions(ctx context.Context) ([]control.Session, error) {
	var out []control.Session
	err := d.do(ctx, func(now time.Time) {
		_, traffic, err := d.plane.Activity()
		if err != nil {
			traffic = d.engine.Traffic()
		}
		for _, p := range d.engine.Core().Peers(now) {
			s := control.SessionFrom(p, d.cfg.Host.SessionPrefix, d.linkNames())
			t := traffic[p.Key]
			s.TxPackets, s.TxBytes, s.RxPackets, s.RxBytes = t.TxPackets, t.TxBytes, t.RxPackets, t.RxBytes
			if t.Path != (ilnp.Path{}) {
				path := control.PathFrom(t.Path, d.linkNames())
				s.InUse = &path
			}
			s.Obstructed = d.obstructionsOf(p.NID)
			out = append(out, s)
		}
	})
	return out, err
}

// Counters lists every counter of data plane, engine and core.
func (d *Daemon) Counters(ctx context.Context) ([]control.Counter, error) {
	var out []control.Counter
	var failure error
	err := d.do(ctx, func(time.Time) {
		cs, err := d.plane.Counters()
		failure = err
		for _, c := range cs {
			out = append(out, control.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
		}
		out = append(out, d.nameCounters()...)
		out = append(out, refusals("core_refused", d.engine.Core().RejectedInput())...)
		out = append(out, refusals("engine_refused", d.engine.Refused())...)
	})
	if err != nil {
		return nil, err
	}
	return out, failure
}

// nameCounters lists the counters of the resolver.
func (d *Daemon) nameCounters() []control.Counter {
	if d.dns == nil {
		return nil
	}
	return []control.Counter{{
		Name: strippedCounter, Meaning: "session addresses taken out of answers of other name servers, on whose word they are not to be used", Value: d.dns.Stripped(),
	}}
}

// strippedCounter is the name of a counter.
const strippedCounter = "dns_session_stripped"

// refusals turns reasons in words into counters with stable names.
func refusals(prefix string, counts map[string]uint64) []control.Counter {
	var out []control.Counter
	for reason, n := range counts {
		name := prefix + "_" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToLower(reason))
		out = append(out, control.Counter{Name: name, Meaning: reason, Value: n})
	}
	slices.SortFunc(out, func(a, b control.Counter) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Subscribe returns the events from now on.
func (d *Daemon) Subscribe(ctx context.Context) (<-chan control.Event, error) {
	return d.hub.Subscribe(ctx)
}

// SetMode changes the handoff mode until the next start.
func (d *Daemon) SetMode(ctx context.Context, mode ilnp.Mode) error {
	return d.do(ctx, func(now time.Time) { d.engine.SetMode(now, mode) })
}

// SetLinkEnabled lets the host use a link, or takes it out of use gracefully.
func (d *Daemon) SetLinkEnabled(ctx context.Context, link string, enabled bool) error {
	var refusal error
	err := d.do(ctx, func(now time.Time) {
		if _, ok := d.engine.LinkByName(link); !ok {
			var names []string
			for _, u := range d.engine.Links() {
				names = append(names, u.Name)
			}
			slices.Sort(names)
			refusal = control.Errorf(control.CodeNotFound, "no uplink is called %q", link).
				WithHint("the uplinks are: %s", strings.Join(names, ", "))
			return
		}
		d.engine.SetDisabled(now, link, !enabled)
	})
	if err != nil {
		return err
	}
	return refusal
}

// Export returns the line with which another host makes this one known.
func (d *Daemon) Export(ctx context.Context) (line string, err error) {
	var failure error
	if err := d.do(ctx, func(now time.Time) { line, failure = d.exportLine(now) }); err != nil {
		return "", err
	}
	return line, failure
}

// exportLine is Export in the engine's goroutine.
func (d *Daemon) exportLine(now time.Time) (string, error) {
	r := naming.Record{NID: d.nid}
	for _, l := range d.engine.Core().Locals(now) {
		preference := uint16(naming.DefaultPreference)
		if l.State != ilnp.Active {
			preference *= 2
		}
		if !l.Disabled && l.State != ilnp.Aged {
			r.Locators = append(r.Locators, naming.Locator{L64: l.L64, Preference: preference})
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	if own, ok := d.names.Load().ByNID(d.nid); ok && len(own.Names) > 0 {
		name = own.Names[0]
	}
	if name, err = naming.CleanName(name); err != nil {
		return "", fmt.Errorf("export: host name: %w", err)
	}
	r.Names = []string{name}
	return naming.FormatPairing(r)
}

// Reload reads configuration and names again and applies the differences.
func (d *Daemon) Reload(ctx context.Context) (control.Reloaded, error) {
	out := control.Reloaded{Applied: []string{}, Restart: []string{}}
	next, err := loadConfig(d.opts.ConfigFile)
	if err != nil {
		return out, control.Errorf(control.CodeInvalid, "%w", err).WithHint("nothing was changed")
	}
	var failure error
	err = d.do(ctx, func(now time.Time) {
		// Who stands in a line that has just been spoilt would lose the session.
		if faults := readHosts(next).Faults; len(faults) > len(d.hosts.Faults) {
			failure = control.Errorf(control.CodeInvalid, "%w", faults).WithHint("nothing was changed")
			return
		}
		for _, c := range config.Diff(d.cfg, next) {
			if c.Restart {
				out.Restart = append(out.Restart, c.String())
			} else {
				out.Applied = append(out.Applied, c.String())
			}
		}
		d.apply(now, next)
		failure = d.loadNames(d.engine.Core())
	})
	if err == nil {
		err = failure
	}
	return out, err
}

// apply takes over what can change while the daemon runs.
func (d *Daemon) apply(now time.Time, next config.Config) {
	if next.Host.Mode != d.cfg.Host.Mode {
		d.engine.SetMode(now, next.Host.Mode)
	}
	for _, name := range d.cfg.Uplinks.Disabled {
		if !slices.Contains(next.Uplinks.Disabled, name) {
			d.engine.SetDisabled(now, name, false)
		}
	}
	for _, name := range next.Uplinks.Disabled {
		d.engine.SetDisabled(now, name, true)
	}
	d.applyUpstream(next)
	d.cfg.Host.Mode, d.cfg.Uplinks.Disabled, d.cfg.DNS.Upstream = next.Host.Mode, next.Uplinks.Disabled, next.DNS.Upstream
	d.cfg.Host.Hosts = next.Host.Hosts
}

// applyUpstream lets the resolver ask the servers of the new configuration; an
// empty list means those of the host's own resolv.conf, as at a start.
func (d *Daemon) applyUpstream(next config.Config) {
	if d.dns == nil || slices.Equal(d.cfg.DNS.Upstream, next.DNS.Upstream) {
		return
	}
	cfg := d.cfg // the listening address and resolv.conf do not change here
	cfg.DNS.Upstream = next.DNS.Upstream
	upstream, err := upstreamOf(cfg)
	if err != nil {
		d.warn("names that are not ours are not resolved: " + err.Error())
	}
	d.dns.SetUpstream(upstream)
}

// Shutdown ends the daemon.
func (d *Daemon) Shutdown(_ context.Context, removePlane bool) error {
	d.remove.Store(removePlane)
	d.stop()
	return nil
}
