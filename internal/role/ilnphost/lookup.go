package ilnphost

import (
	"errors"
	"os"
	"slices"
	"time"

	"roam"
	"roam/internal/config"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/naming"
)

// Names are looked up again once a second while correspondents are sought, and more rarely
// after lookSoon. A look at files that have not changed costs two system calls.
const (
	lookEvery = 5 * time.Second
	lookSoon  = time.Minute
)

// whereabouts says where correspondents are by now. The files say it; a resolver can.
type whereabouts interface {
	// look returns the records of some nodes, as far as there are any, and the faults of all that it reads.
	look(nids []roam.NID) ([]naming.Record, naming.Errors)
}

// mark tells two states of a file apart; the zero value is no file.
type mark struct {
	size     int64
	modified time.Time
}

func markOf(file string) mark {
	info, err := os.Stat(file)
	if err != nil {
		return mark{}
	}
	return mark{info.Size(), info.ModTime()}
}

func marksOf(hosts, peers string) [2]mark { return [2]mark{markOf(hosts), markOf(peers)} }

// nameFiles are the hosts file and the added peers, read again when either has changed.
type nameFiles struct {
	cfg     config.Config
	marks   [2]mark
	records map[roam.NID]naming.Record
	faults  naming.Errors
}

func (f *nameFiles) look(nids []roam.NID) (list []naming.Record, faults naming.Errors) {
	if now := marksOf(f.cfg.Host.Hosts, f.cfg.Peers()); now != f.marks {
		hosts := readHosts(f.cfg)
		f.marks, f.faults, f.records = now, hosts.Faults, make(map[roam.NID]naming.Record, len(hosts.Records))
		for _, r := range hosts.Records {
			f.records[r.NID] = r
		}
	}
	for _, nid := range nids {
		if r, there := f.records[nid]; there {
			list = append(list, r)
		}
	}
	return list, f.faults
}

// rendezvous looks names up again when both ends have moved at once and lost each other:
// whoever keeps the names knows where the other one is (RFC 6740 §6.2). It is used in the
// engine's goroutine.
type rendezvous struct {
	whereabouts
	since  time.Time // somebody has been sought without a break; zero: nobody is
	looked time.Time
	fault  string // why nothing was taken over at the last look; "": there was no new fault
}

// due reports whether to look, while some correspondents are sought, or none.
func (r *rendezvous) due(now time.Time, sought bool) bool {
	switch {
	case !sought:
		r.since = time.Time{}
		return false
	case r.since.IsZero():
		r.since = now
	case now.Sub(r.since) > lookSoon && now.Sub(r.looked) < lookEvery:
		return false
	}
	r.looked = now
	return true
}

// lookAgain takes over the locators that the names give by now to the correspondents that are
// sought. Nobody is forgotten by it: the file may be one that is being written.
func (r *rendezvous) lookAgain(now time.Time, h *Host) {
	core := h.engine.Core()
	sought := core.Sought()
	if !r.due(now, len(sought) > 0) {
		return
	}
	moved := r.moved(h, sought)
	for _, record := range moved {
		err := h.know(now, core, record)
		if err != nil && !errors.Is(err, dataplane.ErrFull) { // that was said when the names were loaded
			h.log.Warn("names could not be looked up again", "err", err)
			return
		}
	}
	if len(moved) > 0 {
		h.publishNames()
		h.log.Info("names were looked up again", "sought", len(sought), "found", len(moved))
	}
}

// moved returns the records of sought correspondents with their new locators. There are none
// while a line has a new fault: the lines left may lack a part of a record.
func (r *rendezvous) moved(h *Host, sought []roam.NID) (list []naming.Record) {
	found, faults := r.look(sought)
	was := r.fault
	if r.fault = ""; len(newFaults(h.skipped, faults)) > 0 {
		r.fault = newFaults(h.skipped, faults)[0].Error()
		if r.fault != was { // the same each second else
			h.log.Warn("names are not looked up again until this line is corrected", "err", r.fault)
		}
		return nil
	}
	for _, record := range found {
		known, there := h.records[record.NID]
		switch {
		case record.NID == h.nid:
		case !there:
			list = append(list, record)
		case record.Key.Public != known.Key.Public: // a reload or a command changes keys, and nothing else does
		case !slices.Equal(record.Locators, known.Locators):
			known.Locators = record.Locators
			list = append(list, known)
		}
	}
	return list
}
