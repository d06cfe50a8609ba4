package ilnphost

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/keyfile"
	"roam/naming"
)

// do runs f in the engine's goroutine.
func (h *Host) do(ctx context.Context, f func(now time.Time)) error {
	if err := h.engine.Do(ctx, f); err != nil {
		return control.Errorf(control.CodeUnavailable, "ask the engine: %w", err)
	}
	return nil
}

// linkNames returns the names of links and peers; call it in the engine's
// goroutine.
func (h *Host) linkNames() shownNames {
	return shownNames{
		Link: func(id roam.LinkID) string { return h.engine.Links()[id].Name },
		Peer: func(k ilnp.SessionKey) string { return h.nameOf(k.Remote) },
	}
}

// Status says who the host is and how it fares.
func (h *Host) Status(ctx context.Context, s *control.Status, _ *control.RoleStatus) error {
	s.NID, s.Accept, s.SessionPrefix = h.nid, acceptName(coreAccept[h.cfg.Host.Accept]), h.cfg.SessionNet()
	s.SessionAddress = control.SessionAddr(h.cfg.Host.SessionPrefix, h.nid)
	s.Device = h.cfg.Host.Device
	return h.do(ctx, func(time.Time) {
		s.Mode = modeName(h.engine.Core().Mode())
		amiss, absent := h.idleRules()
		s.Warnings, s.Notes = append(s.Warnings, h.warnings...), append(s.Notes, absent...)
		s.Warnings = append(s.Warnings, amiss...)
		for _, f := range h.hosts.Faults {
			s.Faults = append(s.Faults, control.HostsFault{Place: placeOf(naming.Place{File: f.File, Line: f.Line}), Message: f.Err.Error()})
		}
		if len(s.Faults) > 0 {
			s.Warnings = append(s.Warnings, control.SkippedWarning(s.Faults))
		}
		s.Plane = control.Plane{
			Attach: h.plane.Attach(), ABI: dataplane.ABI, Features: h.plane.Features(),
			Adopted: h.plane.Adopted(), Pins: h.cfg.Pins(), Uplinks: []string{},
		}
		for _, u := range h.engine.Links() {
			s.Plane.Uplinks = append(s.Plane.Uplinks, u.Name)
		}
		slices.Sort(s.Plane.Uplinks)
		s.NotAdmitted = h.refused.sorted()
		s.Policies, s.Obstructed = h.engine.PolicyArmed(), h.obstructed()
		if h.dns != nil {
			s.DNS = control.DNS{Listen: h.dns.Addr().String(), Managed: h.resolv != nil}
			for _, u := range h.dns.Upstream() {
				s.DNS.Upstream = append(s.DNS.Upstream, u.String())
			}
		}
	})
}

// Locators lists this host's locators.
func (h *Host) Locators(ctx context.Context) ([]control.Locator, error) {
	var out []control.Locator
	err := h.do(ctx, func(now time.Time) {
		for _, l := range h.engine.Core().Locals(now) {
			out = append(out, locatorFrom(l, h.linkNames()))
		}
	})
	slices.SortFunc(out, func(a, b control.Locator) int { return strings.Compare(a.Link, b.Link) })
	return out, err
}

// EachSession calls f for the correspondents that have state, outside the engine's goroutine.
func (h *Host) EachSession(ctx context.Context, f func(control.Session) error) error {
	var read []control.Session
	return walkThen(ctx, h, func(now time.Time, keys []ilnp.SessionKey) {
		for _, k := range keys {
			t, err := h.plane.Traffic(k)
			for _, p := range h.engine.Core().Show(now, k) {
				read = append(read, shownSession(h, p, t, err))
			}
		}
	}, func() error {
		for _, s := range read {
			if err := f(s); err != nil {
				return err
			}
		}
		read = read[:0]
		return nil
	})
}

// Summary counts the correspondents.
func (h *Host) Summary(ctx context.Context) (control.Summary, error) {
	var o ilnp.Overview
	err := walk(ctx, h, func(now time.Time, keys []ilnp.SessionKey) { h.engine.Core().Count(now, &o, keys) })
	return control.Summary{
		Known: o.Tally.Silent, Dead: o.Tally.Dead, Initiated: o.Tally.Sessions[ilnp.Initiated],
		Established: o.Tally.Sessions[ilnp.Established], Plain: o.Tally.Sessions[ilnp.Plain],
	}, err
}

// shownSession returns a correspondent with the counts that the data plane has of it, or why
// they could not be read.
func shownSession(h *Host, p ilnp.PeerState, t dataplane.Traffic, unread error) control.Session {
	s := sessionFrom(p, h.cfg.Host.SessionPrefix, h.linkNames())
	counted(&s, t, unread, h.linkNames())
	s.Obstructed, s.Refused = h.obstructionsOf(p.NID), refusalOf(p, h.records[p.NID])
	return s
}

// counted adds the counts of the data plane to a session.
func counted(s *control.Session, t dataplane.Traffic, unread error, names shownNames) {
	if unread != nil {
		s.CountsError = unread.Error()
		return
	}
	s.TxPackets, s.TxBytes, s.RxPackets, s.RxBytes = t.TxPackets, t.TxBytes, t.RxPackets, t.RxBytes
	if t.Path != (ilnp.Path{}) {
		path := pathFrom(t.Path, names)
		s.InUse = &path
	}
}

// refusalOf returns why plain IPv6 was refused to a peer, and how to allow it.
func refusalOf(p ilnp.PeerState, r naming.Record) (out control.PlainRefusal) {
	if p.PlainRefused != "" {
		out = control.PlainRefusal{Why: p.PlainRefused, Allow: allowLess(r, p.PlainRefused)}
	}
	return out
}

// allowLess returns the command that allows what is less than ILNP with a proof to the peer of a record:
// ILNP without one where the peer answers so, else plain IPv6.
func allowLess(r naming.Record, why string) string {
	if why == ilnp.WhyNoProof {
		r.Optional = true
	} else {
		r.Plain = naming.PlainYes
	}
	return "roam add '" + r.HostsLine() + "'"
}

// Counters lists every counter of data plane, engine and core.
func (h *Host) Counters(ctx context.Context) ([]control.Counter, error) {
	var out []control.Counter
	var failure error
	err := h.do(ctx, func(time.Time) {
		cs, err := h.plane.Counters()
		failure = err
		for _, c := range cs {
			out = append(out, control.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
		}
		out = append(out, nameCounters(h)...)
		out = append(out, refusals("core_refused", h.engine.Core().RejectedInput())...)
		out = append(out, refusals("engine_refused", h.engine.Refused())...)
	})
	if err != nil {
		return nil, err
	}
	return out, failure
}

// nameCounters lists the counters of the resolver.
func nameCounters(h *Host) []control.Counter {
	if h.dns == nil {
		return nil
	}
	return []control.Counter{{
		Name: strippedCounter, Meaning: "session addresses taken out of answers of other name servers, on whose word they are not to be used", Value: h.dns.Stripped(),
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

// SetMode changes the handoff mode until the next start.
func (h *Host) SetMode(ctx context.Context, mode control.Mode) error {
	i := slices.Index(modeNames, string(mode))
	if i < 0 {
		return control.Errorf(control.CodeInvalid, "unknown mode %q", mode)
	}
	return h.do(ctx, func(now time.Time) { h.engine.SetMode(now, ilnp.Mode(i)) })
}

// SetLinkEnabled lets the host use a link, or takes it out of use gracefully.
func (h *Host) SetLinkEnabled(ctx context.Context, link string, enabled bool) error {
	var refusal error
	err := h.do(ctx, func(now time.Time) {
		if _, ok := h.engine.LinkByName(link); !ok {
			var names []string
			for _, u := range h.engine.Links() {
				names = append(names, u.Name)
			}
			slices.Sort(names)
			refusal = control.Errorf(control.CodeNotFound, "no uplink is called %q", link).
				WithHint("the uplinks are: %s", strings.Join(names, ", "))
			return
		}
		h.engine.SetDisabled(now, link, !enabled)
	})
	if err != nil {
		return err
	}
	return refusal
}

// Export returns the lines with which another host makes this one known.
func (h *Host) Export(ctx context.Context) (out control.Exported, err error) {
	var failure error
	if err := h.do(ctx, func(now time.Time) { out, failure = h.exportLines(now) }); err != nil {
		return out, err
	}
	return out, failure
}

// exportLines is Export in the engine's goroutine.
func (h *Host) exportLines(now time.Time) (out control.Exported, err error) {
	r := naming.Record{NID: h.nid}
	for _, l := range h.engine.Core().Locals(now) {
		if !l.Disabled && l.State != ilnp.Aged {
			for _, seen := range h.engine.Core().SeenOutside(l.L64) {
				r.Locators = append(r.Locators, naming.Locator{L64: seen, Preference: l.Preference})
			}
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return out, fmt.Errorf("export: %w", err)
	}
	if own, ok := h.names.Load().ByNID(h.nid); ok && len(own.Names) > 0 {
		name = own.Names[0]
	}
	if name, err = naming.CleanName(name); err != nil {
		return out, fmt.Errorf("export: host name: %w", err)
	}
	r.Names = []string{name}
	if out.Line, err = naming.FormatPairing(r); err != nil || h.key == nil {
		return out, err
	}
	out.V1, r.Key = out.Line, keyfile.Claim(h.key, h.nid)
	out.Line, err = naming.FormatPairing(r)
	return out, err
}

// Reload takes over what can change while the host runs, and reads the names again.
func (h *Host) Reload(ctx context.Context, next config.Config) error {
	var failure error
	err := h.do(ctx, func(now time.Time) {
		cfg := h.cfg
		cfg.Host.Hosts = next.Host.Hosts
		hosts := readHosts(cfg)
		// A peer in a line that has just been spoilt would lose its session.
		if faults := newFaults(h.skipped, hosts.Faults); len(faults) > 0 {
			failure = control.Errorf(control.CodeInvalid, "%w", faults).WithHint("nothing was changed")
			return
		}
		key, err := keyfile.Of(h.cfg, h.nid, now)
		if err != nil {
			failure = control.Errorf(control.CodeInvalid, "%w", err).WithHint("nothing was changed; the key so far is in use")
			return
		}
		old, err := oldKey(h.cfg, h.nid, now)
		if err != nil {
			failure = control.Errorf(control.CodeInvalid, "%w", err).WithHint("nothing was changed")
			return
		}
		if failure = h.applyRules(now, next); failure != nil {
			return
		}
		h.key, h.oldKey = key, old
		h.engine.Core().SetKey(key)
		h.engine.Core().SetOldKey(now, old)
		h.apply(now, next)
		failure = h.loadNames(h.engine.Core(), hosts)
	})
	if err == nil {
		err = failure
	}
	return err
}

// apply takes over what can change while the daemon runs.
func (h *Host) apply(now time.Time, next config.Config) {
	if next.Host.Mode != h.cfg.Host.Mode {
		h.engine.SetMode(now, coreMode[next.Host.Mode])
	}
	h.engine.ConfigureDisabled(now, next.Uplinks.Disabled)
	h.applyUpstream(next)
	h.cfg.Host.Mode, h.cfg.Uplinks.Disabled, h.cfg.DNS.Upstream = next.Host.Mode, next.Uplinks.Disabled, next.DNS.Upstream
	h.cfg.Host.Hosts, h.cfg.Uplinks.Border = next.Host.Hosts, next.Uplinks.Border
	if !maps.Equal(h.cfg.Uplinks.Preference, next.Uplinks.Preference) {
		h.cfg.Uplinks.Preference = next.Uplinks.Preference
		h.engine.SetPreferences(now, next.Uplinks.PreferenceOf)
	}
}

// applyUpstream lets the resolver ask the servers of the new configuration; an
// empty list means those of the host's own resolv.conf, as at a start.
func (h *Host) applyUpstream(next config.Config) {
	if h.dns == nil || slices.Equal(h.cfg.DNS.Upstream, next.DNS.Upstream) {
		return
	}
	cfg := h.cfg // the listening address and resolv.conf do not change here
	cfg.DNS.Upstream = next.DNS.Upstream
	upstream, err := upstreamOf(cfg)
	if err != nil {
		h.warn("names that are not ours are not resolved: " + err.Error())
	}
	h.dns.SetUpstream(upstream)
}
