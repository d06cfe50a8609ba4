package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/dataplane"
	"roam/internal/dnsio"
	"roam/naming"
)

// peersFile keeps what `roam add` was told, in the syntax of the hosts file.
func peersFile(cfg config.Config) string { return filepath.Join(cfg.Host.StateDir, "peers") }

func resolvConf(cfg config.Config) dnsio.ResolvConf {
	return dnsio.ResolvConf{Path: cfg.DNS.ResolvConf, Dir: cfg.Host.StateDir}
}

// readRecords reads the hosts file and the added peers; neither need exist.
func readRecords(cfg config.Config) ([]naming.Record, error) {
	var all []naming.Record
	for _, file := range []string{cfg.Host.Hosts, peersFile(cfg)} {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read names: %w", err)
		}
		records, err := naming.ParseHosts(file, string(b))
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// loadNames makes the records known to core, data plane and resolver. Where there
// are more than the data plane has room for, the last ones can be contacted only. It runs
// before the engine does, or inside Do.
func (d *Daemon) loadNames(core *ilnp.Core) error {
	d.rendezvous.marks = marksOf(d.cfg.Host.Hosts, peersFile(d.cfg))
	records, err := readRecords(d.cfg)
	if err != nil {
		return err
	}
	now := time.Now()
	wanted := make(map[roam.NID]bool)
	for _, r := range records {
		wanted[r.NID] = true
	}
	for nid := range d.records {
		if !wanted[nid] {
			delete(d.records, nid)
			core.RemovePeer(now, nid)
			if err := d.plane.Forget(nid); err != nil {
				return err
			}
		}
	}
	var full error
	for _, r := range records {
		err := d.know(now, core, r)
		if err != nil && !errors.Is(err, dataplane.ErrFull) {
			return err
		}
		full = cmp.Or(full, err)
	}
	if full != nil && d.cfg.Host.Accept != ilnp.Any {
		d.warn(full.Error() + ", and the same of others" + raiseRoom)
	}
	d.publishNames()
	return nil
}

// raiseRoom is what to do where correspondents cannot be noted.
const raiseRoom = ": raise ilnp.max_sessions"

// know makes one correspondent known; what was known of it is united.
func (d *Daemon) know(now time.Time, core *ilnp.Core, r naming.Record) error {
	d.records[r.NID] = r
	if r.NID == d.nid {
		return nil // our own names are answered, but we are not our correspondent
	}
	p := ilnp.Peer{NID: r.NID, Names: r.Names, Rule: d.cfg.ILNP.Checksum, DraftLU: d.cfg.ILNP.LUFormat == config.LUDraft}
	p.NonceAlways, p.NonceFixed = r.Nonce == naming.NonceAlways, r.Nonce != naming.NonceUnset
	p.OldFirst = r.Order == naming.OrderOld
	if r.Checksum != naming.ChecksumUnset {
		p.Rule, p.RuleFixed = ilnp.RuleIPv6, true
		if r.Checksum == naming.ChecksumRFC6741 {
			p.Rule = ilnp.RuleRFC6741
		}
	}
	if r.Update != naming.UpdateUnset {
		p.DraftLU = r.Update == naming.UpdateDraft
	}
	for _, l := range r.Locators {
		p.Locators = append(p.Locators, ilnp.RemoteLocator{L64: l.L64, Preference: l.Preference, Lifetime: ilnp.Infinite})
	}
	// The data plane first: it knows then where packets need not wait.
	record := dataplane.Record{NID: r.NID, Anywhere: p.Anywhere}
	for _, l := range p.Locators {
		record.Locators = append(record.Locators, l.L64)
	}
	err := d.plane.SetRecord(record)
	core.AddPeer(now, p)
	return err
}

// publishNames gives the resolver a new table.
func (d *Daemon) publishNames() {
	records := make([]naming.Record, 0, len(d.records))
	for _, r := range d.records {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b naming.Record) int {
		if a.NID < b.NID {
			return -1
		}
		return 1
	})
	table, faults := naming.NewTable(records)
	for _, err := range faults {
		d.opts.Log.Warn("name is not used", "err", err)
	}
	d.names.Store(table)
	if d.dns != nil {
		d.dns.SetTable(table)
	}
}

// startDNS starts the resolver. Without it sessions work by address only, so a
// fault is a warning.
func (d *Daemon) startDNS() {
	c := d.cfg.DNS
	if !c.Enabled {
		return
	}
	upstream, err := upstreamOf(d.cfg)
	if err != nil {
		d.warn("names that are not ours are not resolved: " + err.Error())
	}
	server, err := dnsio.Start(dnsio.Config{Listen: c.Listen, Prefix: d.cfg.Host.SessionPrefix, Upstream: upstream, Asked: d.asked})
	if err != nil {
		d.warn("correspondents are not found by name: " + err.Error())
		return
	}
	server.SetTable(d.names.Load())
	d.dns = server
	if c.ManageResolvConf {
		keeper := newResolvKeeper(resolvConf(d.cfg), c.Listen)
		servers, err := keeper.take()
		if err != nil {
			d.warn("applications do not ask us for names: " + err.Error())
			return
		}
		if len(c.Upstream) == 0 {
			server.SetUpstream(servers) // systemd-resolved begins to ask us now, and may not be asked
		}
		d.resolv = keeper
	}
}

// askedWithin is how long an answer may wait for the engine; it does without it
// then, as the first packet does.
const askedWithin = 2 * time.Millisecond

// asked has the session stand ready whose address is about to be given out.
func (d *Daemon) asked(nid roam.NID) {
	ctx, cancel := context.WithTimeout(context.Background(), askedWithin)
	defer cancel()
	_ = d.engine.Do(ctx, func(now time.Time) { d.engine.Core().Expect(now, nid) })
}

// stopDNS ends the resolver, and lets applications ask the host's own again
// before that: without us nobody would answer.
func (d *Daemon) stopDNS() error {
	var err error
	if d.resolv != nil {
		err = d.resolv.file.Release()
	}
	if d.dns != nil {
		err = errors.Join(err, d.dns.Close())
	}
	return err
}

// upstreamOf returns the servers that other names are asked from: those of the
// configuration, else those of the host's own resolv.conf.
func upstreamOf(cfg config.Config) ([]netip.AddrPort, error) {
	if len(cfg.DNS.Upstream) > 0 {
		return cfg.DNS.Upstream, nil
	}
	return resolvConf(cfg).Upstream(cfg.DNS.Listen)
}

func (d *Daemon) warn(what string) {
	if !slices.Contains(d.warnings, what) {
		d.warnings = append(d.warnings, what)
	}
	d.opts.Log.Warn(what)
}

// nameOf returns the chief name of a correspondent, or "".
func (d *Daemon) nameOf(nid roam.NID) string {
	if r, ok := d.names.Load().ByNID(nid); ok && len(r.Names) > 0 {
		return r.Names[0]
	}
	return ""
}
