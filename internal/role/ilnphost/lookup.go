package ilnphost

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
)

// lookEvery is how often names are looked up again while a correspondent is held
// for dead. A look at files that have not changed costs two system calls.
const lookEvery = 5 * time.Second

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

// rendezvous looks names up again when both ends have moved at once and lost
// each other: whoever keeps the names knows where the other one is (RFC 6740
// §6.2). It is used in the engine's goroutine.
type rendezvous struct {
	lost   map[ilnp.SessionKey]roam.NID // correspondents that are held for dead
	looked time.Time
	marks  [2]mark // of the hosts file and of the added peers, as they were read
}

// note follows who is lost.
func (r *rendezvous) note(ev ilnp.Event) {
	switch ev.Kind {
	case ilnp.PeerDead:
		if r.lost == nil {
			r.lost = make(map[ilnp.SessionKey]roam.NID)
		}
		r.lost[ev.Key] = ev.Key.Remote
		r.looked = time.Time{} // at once
	case ilnp.PeerAlive, ilnp.SessionEnded, ilnp.SessionReplaced:
		delete(r.lost, ev.Key)
	}
}

// due reports whether to look, and whether the files are others than those that
// were read.
func (r *rendezvous) due(now time.Time, hosts, peers string) bool {
	if len(r.lost) == 0 || now.Sub(r.looked) < lookEvery {
		return false
	}
	r.looked = now
	return marksOf(hosts, peers) != r.marks
}

// lookAgain takes over what the names say by now of those that are lost, if the
// files have changed. Nobody is forgotten by it: the file may be one that is
// being written.
func (h *Host) lookAgain(now time.Time) {
	r := &h.rendezvous
	if !r.due(now, h.cfg.Host.Hosts, h.cfg.Peers()) {
		return
	}
	r.marks = marksOf(h.cfg.Host.Hosts, h.cfg.Peers())
	var err error
	for _, record := range readHosts(h.cfg).Records {
		if err == nil && slices.Contains(slices.Collect(maps.Values(r.lost)), record.NID) {
			if err = h.know(now, h.engine.Core(), record); errors.Is(err, dataplane.ErrFull) {
				err = nil // said when the names were loaded
			}
		}
	}
	if err != nil {
		h.log.Warn("names could not be looked up again", "err", err)
		return
	}
	h.publishNames()
	h.log.Info("names were looked up again", "lost", len(r.lost))
}
