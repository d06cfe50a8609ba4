package ilnphost

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"roam"
	dataplane "roam/internal/dataplane/ilnphost"
)

// startLiterals attaches the hooks for real addresses of known correspondents.
// Without them sessions are reached by name only, so a fault is a warning.
// Their table stays as a predecessor has left it until the core knows them.
//
// Hooks that a predecessor has left are detached where this process does not attach its own:
// nobody would keep their table, and a peer that is forgotten would be out of reach.
func (h *Host) startLiterals() {
	if h.cfg.Literals.Enabled {
		cgroup, err := h.cgroup()
		if err == nil {
			h.literals, err = dataplane.OpenLiterals(h.cfg.Pins(), cgroup, h.cfg.Host.SessionPrefix)
		}
		if err == nil {
			return
		}
		h.warn("real addresses of correspondents are not turned into sessions: " + err.Error())
	}
	if err := dataplane.DetachLiterals(h.cfg.Pins()); err != nil {
		h.warn("real addresses of correspondents may still be turned into sessions: " + err.Error())
	}
}

// listLiterals follows the correspondents' locators; it runs in the engine's
// goroutine.
func (h *Host) listLiterals(now time.Time) {
	if h.literals == nil {
		return
	}
	want := make(map[roam.ILV]roam.NID)
	for _, p := range h.engine.Core().KnownPeers(now) {
		for _, l := range p.Locators {
			want[roam.ILV{L64: l.L64, NID: p.NID}] = p.Key.Remote
		}
	}
	h.engine.OmitObstructed(want, h.literals.Listed) // what IPsec or a VPN takes there is left to them
	fault := ""
	if err := h.literals.Set(want); err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != h.literalFault { // the same each second else
		h.log.Warn("table of literal addresses", "err", fault)
	}
	h.literalFault = fault
}

var errNoCgroup2 = errors.New("no cgroup2 hierarchy is mounted; mount one, or set literals.cgroup or literals.enabled = false")

// cgroup returns the cgroup whose sockets the hooks see.
func (h *Host) cgroup() (string, error) {
	if h.cfg.Literals.Cgroup != "" {
		return h.cfg.Literals.Cgroup, nil
	}
	return cgroup2Root()
}

// cgroup2Root finds where cgroup2 is mounted.
func cgroup2Root() (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup2: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		left, right, ok := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		if ok && len(fields) > 4 && strings.HasPrefix(right, "cgroup2 ") {
			return fields[4], nil
		}
	}
	return "", errNoCgroup2
}
