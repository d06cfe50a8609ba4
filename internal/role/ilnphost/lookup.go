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
	// look returns the records of some nodes, as far as there are any.
	look(nids []roam.NID) []naming.Record
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
	records []naming.Record
}

func (f *nameFiles) look(nids []roam.NID) []naming.Record {
	if now := marksOf(f.cfg.Host.Hosts, f.cfg.Peers()); now != f.marks {
		f.marks, f.records = now, readHosts(f.cfg).Records
	}
	return slices.DeleteFunc(slices.Clone(f.records), func(r naming.Record) bool { return !slices.Contains(nids, r.NID) })
}

// rendezvous looks names up again when both ends have moved at once and lost each other:
// whoever keeps the names knows where the other one is (RFC 6740 §6.2). It is used in the
// engine's goroutine.
type rendezvous struct {
	whereabouts
	since  time.Time // somebody has been sought without a break; zero: nobody is
	looked time.Time
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

// lookAgain takes over what the names say by now of the correspondents that are sought.
// Nobody is forgotten by it: the file may be one that is being written.
func (r *rendezvous) lookAgain(now time.Time, h *Host) {
	core := h.engine.Core()
	sought := core.Sought()
	if !r.due(now, len(sought) > 0) {
		return
	}
	found := 0
	for _, record := range r.look(sought) {
		if record.NID == h.nid || core.Knows(h.peerOf(record)) {
			continue
		}
		found++
		err := h.know(now, core, record)
		if err != nil && !errors.Is(err, dataplane.ErrFull) { // that was said when the names were loaded
			h.log.Warn("names could not be looked up again", "err", err)
			return
		}
	}
	if found > 0 {
		h.publishNames()
		h.log.Info("names were looked up again", "sought", len(sought), "found", found)
	}
}
