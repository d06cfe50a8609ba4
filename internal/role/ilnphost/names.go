package ilnphost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/dnsio"
	"roam/naming"
)

func resolvConf(cfg config.Config) dnsio.ResolvConf {
	return dnsio.ResolvConf{Path: cfg.DNS.ResolvConf, Dir: cfg.Host.StateDir}
}

// errUnreadable is the fault of a file that is there and cannot be read.
var errUnreadable = errors.New("cannot be read")

// readHosts reads the hosts file and the added peers, as far as they can be read;
// neither need exist.
func readHosts(cfg config.Config) naming.Hosts {
	var files []naming.File
	var faults naming.Errors
	for _, file := range []string{cfg.Host.Hosts, cfg.Peers()} {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, &naming.Error{File: file, Err: fmt.Errorf("%w: %w", errUnreadable, err)})
		}
		files = append(files, naming.File{Name: file, Text: string(b)})
	}
	h := naming.ReadHosts(files...)
	h.Faults = append(faults, h.Faults...)
	return h
}

// unreadable reports whether a whole file could not be read.
func unreadable(h naming.Hosts) bool {
	return len(h.Faults) > 0 && errors.Is(h.Faults[0], errUnreadable)
}

// newFaults returns the faults of lines that had none. Lines are compared by their text: an edit above moves them.
func newFaults(old, found naming.Errors) (list naming.Errors) {
	id := func(e *naming.Error) string { return cmp.Or(e.Text, e.File) }
	known := make(map[string]bool, len(old))
	for _, e := range old {
		known[id(e)] = true
	}
	for _, e := range found {
		if !known[id(e)] {
			list = append(list, e)
		}
	}
	return list
}

// firstNames reads the files for data plane and resolver, before there are sessions.
// The core is told by restored: it takes what a predecessor left before anything else.
func (h *Host) firstNames() error {
	h.rendezvous.whereabouts = &nameFiles{cfg: h.cfg}
	h.hosts = readHosts(h.cfg)
	h.skipped = h.hosts.Faults
	h.logFaults(h.hosts.Faults)
	var records []dataplane.Record
	for _, r := range h.hosts.Records {
		h.records[r.NID] = r
		if r.NID != h.nid {
			records = append(records, placesOf(h.peerOf(r)))
		}
	}
	h.publishNames()
	var err error
	if unreadable(h.hosts) {
		// An earlier process knew more, and nobody has said that it is wrong.
		for _, r := range records {
			err = cmp.Or(err, h.plane.SetRecord(r))
		}
	} else {
		err = h.plane.SyncRecords(records)
	}
	if errors.Is(err, dataplane.ErrFull) {
		h.warnFull(err)
		return nil
	}
	return err
}

// warnFull says that the last correspondents have no room in the data plane: they can be
// contacted only.
func (h *Host) warnFull(err error) {
	if err != nil && h.cfg.Host.Accept != config.AcceptAny {
		h.warn(err.Error() + ", and the same of others" + raiseRoom)
	}
}

// loadNames makes the records of the files known to core, data plane and resolver. It runs inside Do.
func (h *Host) loadNames(core *ilnp.Core, hosts naming.Hosts) error {
	h.rendezvous.whereabouts = &nameFiles{cfg: h.cfg}
	h.logFaults(hosts.Faults)
	full, err := h.useHosts(time.Now(), core, book{Hosts: hosts, before: hosts}, true)
	h.warnFull(full)
	return err
}

// forget forgets a correspondent that is in no file any more. The sessions of one that is retired go on.
func forget(h *Host, now time.Time, core *ilnp.Core, nid roam.NID, retired bool) {
	delete(h.records, nid)
	if !retired {
		core.RemovePeer(now, nid)
		return
	}
	core.RetirePeer(now, nid)
	h.engine.SaveNow(now) // its record is gone from the files: without this its sessions would go with it
}

// differences returns who is to be forgotten, as the files do not name them any more, and the records that are new or
// others than before; with all, every record.
//
// A peer that was known may stand in a line that has a fault since, wholly or with its key. It stays as it was known
// until somebody corrects or deletes that line: only what the change of a book itself says is taken over meanwhile.
func differences(h *Host, b book, all bool) (gone []roam.NID, news []naming.Record) {
	var touched map[roam.NID]bool
	spoilt := len(newFaults(h.skipped, b.before.Faults)) > 0
	if spoilt {
		touched = b.touched()
	}
	stays := func(nid roam.NID) bool { return spoilt && !touched[nid] }
	wanted := make(map[roam.NID]bool)
	for _, r := range b.Records {
		wanted[r.NID] = true
		old, known := h.records[r.NID]
		if !known || !stays(r.NID) && (all || !reflect.DeepEqual(old, r)) {
			news = append(news, r)
		}
	}
	for nid := range h.records {
		// A file that cannot be read does not say that anybody is gone.
		if !wanted[nid] && !stays(nid) && !unreadable(b.Hosts) {
			gone = append(gone, nid)
		}
	}
	return gone, news
}

// useHosts takes over the differences of what the files say; the sessions of a peer that is retired
// go on. full says who has no room in the data plane; err is any other failure.
func (h *Host) useHosts(now time.Time, core *ilnp.Core, b book, all bool) (full, err error) {
	gone, news := differences(h, b, all)
	for _, nid := range gone {
		forget(h, now, core, nid, nid == b.retired)
		if err := h.plane.Forget(nid); err != nil {
			return nil, err
		}
	}
	for _, r := range news {
		if _, known := h.records[r.NID]; b.retired != 0 && !known {
			core.RemovePeer(now, r.NID) // a session under the new identifier has proven nothing before
		}
		err := h.know(now, core, r)
		if err != nil && !errors.Is(err, dataplane.ErrFull) {
			return nil, err
		}
		full = cmp.Or(full, err)
	}
	h.skipped = newFaults(newFaults(h.skipped, b.before.Faults), b.Faults)
	h.hosts = b.Hosts
	h.publishNames()
	return full, nil
}

// restored tells the core what the files say, when it has what a predecessor has left:
// the files may have changed while no daemon ran. It runs in the engine's goroutine.
func (h *Host) restored(now time.Time) {
	core := h.engine.Core()
	for _, nid := range core.KnownNIDs() {
		if _, ok := h.records[nid]; !ok && !unreadable(h.hosts) {
			core.RemovePeer(now, nid)
			h.log.Info("a correspondent is in no file any more, and is forgotten", "nid", nid)
		}
	}
	for _, r := range h.hosts.Records {
		if p := h.peerOf(r); r.NID != h.nid && !core.Knows(p) {
			core.AddPeer(now, p)
		}
	}
	h.listLiterals(now)
	core.SetOldKey(now, h.oldKey)
}

// mostFaults bounds the lines of the log about faults of the files.
const mostFaults = 20

func (h *Host) logFaults(faults naming.Errors) {
	for _, f := range faults[:min(len(faults), mostFaults)] {
		h.log.Warn("a line is skipped", "at", naming.Place{File: f.File, Line: f.Line}, "err", f.Err)
	}
	if more := len(faults) - mostFaults; more > 0 {
		h.log.Warn("more lines are skipped: `roam config check` names them", "lines", more)
	}
}

// raiseRoom is what to do where correspondents cannot be noted.
const raiseRoom = ": raise ilnp.max_sessions"

// know makes one correspondent known, in place of what was known of it.
func (h *Host) know(now time.Time, core *ilnp.Core, r naming.Record) error {
	h.records[r.NID] = r
	if r.NID == h.nid {
		return nil // our own names are answered, but we are not our correspondent
	}
	p := h.peerOf(r)
	err := h.plane.SetRecord(placesOf(p)) // first: what comes from there need not wait
	core.AddPeer(now, p)
	return err
}

// placesOf returns a peer as the data plane takes it.
func placesOf(p ilnp.Peer) dataplane.Record {
	if p.Secret.Present() { // what comes from it waits for its proof, wherever it is
		return dataplane.Record{NID: p.NID}
	}
	r := dataplane.Record{NID: p.NID, Anywhere: p.Anywhere}
	for _, l := range p.Locators {
		r.Locators = append(r.Locators, l.L64)
	}
	return r
}

// peerOf returns a record as the core takes it.
func (h *Host) peerOf(r naming.Record) ilnp.Peer {
	p := ilnp.Peer{NID: r.NID, Names: r.Names, Rule: coreRule[h.cfg.ILNP.Checksum], DraftLU: h.cfg.ILNP.LUFormat == config.LUDraft}
	p.NonceAlways, p.NonceFixed = r.Nonce == naming.NonceAlways, r.Nonce != naming.NonceUnset
	p.OldFirst = r.Order == naming.OrderOld
	p.Anywhere, p.Guarded, p.Optional = r.Anywhere == naming.AnywhereYes, r.Guarded(), r.Optional
	if r.Checksum != naming.ChecksumUnset {
		p.Rule, p.RuleFixed = ilnp.RuleIPv6, true
		if r.Checksum == naming.ChecksumRFC6741 {
			p.Rule = ilnp.RuleRFC6741
		}
	}
	if r.Update != naming.UpdateUnset {
		p.DraftLU = r.Update == naming.UpdateDraft
	}
	if h.key != nil && r.Key.Present() {
		secret, err := h.key.Shared(r.Key.Public)
		if err != nil { // the parser refuses such a key
			h.log.Warn("a peer's key is not used", "peer", r.NID, "err", err)
		}
		p.Secret, p.Public = secret, r.Key.Public
	}
	for _, l := range r.Locators {
		p.Locators = append(p.Locators, ilnp.RemoteLocator{L64: l.L64, Preference: l.Preference, Lifetime: roam.Infinite})
	}
	return p
}

// publishNames gives the resolver a new table.
func (h *Host) publishNames() {
	records := make([]naming.Record, 0, len(h.records))
	for _, r := range h.records {
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
		h.log.Warn("name is not used", "err", err)
	}
	h.names.Store(table)
	if h.dns != nil {
		h.dns.SetTable(table)
	}
}

// startDNS starts the resolver. Without it sessions work by address only, so a
// fault is a warning.
func (h *Host) startDNS() {
	c := h.cfg.DNS
	if !c.Enabled {
		return
	}
	upstream, err := upstreamOf(h.cfg)
	if err != nil {
		h.warn("names that are not ours are not resolved: " + err.Error())
	}
	server, err := dnsio.Start(dnsio.Config{Listen: c.Listen, Prefix: h.cfg.Host.SessionPrefix, Upstream: upstream, Asked: h.asked})
	if err != nil {
		h.warn("correspondents are not found by name: " + err.Error())
		return
	}
	server.SetTable(h.names.Load())
	h.dns = server
	if c.ManageResolvConf {
		keeper := newResolvKeeper(resolvConf(h.cfg), c.Listen)
		servers, err := keeper.take()
		if err != nil {
			h.warn("applications do not query Roam's resolver: " + err.Error())
			return
		}
		if len(c.Upstream) == 0 {
			server.SetUpstream(servers) // systemd-resolved begins to ask us now, and may not be asked
		}
		h.resolv = keeper
	}
}

// askedWithin is how long an answer may wait for the engine; it does without it
// then, as the first packet does.
const askedWithin = 2 * time.Millisecond

// asked has the session stand ready whose address is about to be given out.
func (h *Host) asked(nid roam.NID) {
	ctx, cancel := context.WithTimeout(context.Background(), askedWithin)
	defer cancel()
	_ = h.engine.Do(ctx, func(now time.Time) { h.engine.Core().Preinstall(now, nid) })
}

// stopDNS ends the resolver, and lets applications ask the host's own again
// before that: without us nobody would answer.
func (h *Host) stopDNS() error {
	var err error
	if h.resolv != nil {
		err = h.resolv.file.Restore()
	}
	if h.dns != nil {
		err = errors.Join(err, h.dns.Close())
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

func (h *Host) warn(what string) {
	if !slices.Contains(h.warnings, what) {
		h.warnings = append(h.warnings, what)
	}
	h.log.Warn(what)
}

// nameOf returns the chief name of a correspondent, or "".
func (h *Host) nameOf(nid roam.NID) string {
	if r, ok := h.names.Load().ByNID(nid); ok && len(r.Names) > 0 {
		return r.Names[0]
	}
	return ""
}
