package ilnp

import (
	"io"
	"time"

	"roam"
)

// node is what all layers of a core stand on: its configuration, the outbox and the
// agenda, the host's own locators, and the sessions and correspondents. It looks things
// up and has no procedures.
type node struct {
	cfg Config
	agenda
	outbox
	host            host
	known           map[roam.NID]*correspondent
	sessions        map[SessionKey]*session
	byNIDs          map[SessionKey][]*session // by the NIDs on the wire
	names           map[SessionKey]*session   // that have the peer's NID as an alias besides their key's
	accounts        accounts
	preinstalled    map[SessionKey]*session    // see Preinstall; in none of the two above
	preinstallOrder []SessionKey               // of them, who was asked for the longest ago first
	obstructed      map[roam.NID]map[Path]bool // see HandleObstructed; none is empty
}

func (c *node) init(cfg Config) {
	c.cfg = cfg
	c.known = make(map[roam.NID]*correspondent)
	c.sessions = make(map[SessionKey]*session)
	c.byNIDs = make(map[SessionKey][]*session)
	c.names = make(map[SessionKey]*session)
	c.preinstalled = make(map[SessionKey]*session)
	c.obstructed = make(map[roam.NID]map[Path]bool)
	c.host = newHost(&c.cfg, &c.outbox, &c.agenda)
	c.host.schedule.Machine = &c.host
}

// draw returns n random bytes, or false if there is no randomness: nothing
// that needs to be unpredictable is made then.
func (c *node) draw(now time.Time, b []byte) bool {
	if _, err := io.ReadFull(c.cfg.Rand, b); err != nil {
		c.refuse(now, SessionKey{}, reasonRandom)
		return false
	}
	return true
}

func (c *node) drawNonce(now time.Time) (Nonce, bool) {
	n := Nonce{Len: c.cfg.NonceLength}
	return n, c.draw(now, n.Bytes[:n.Len])
}
