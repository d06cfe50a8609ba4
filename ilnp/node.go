package ilnp

import (
	"io"
	"time"

	"roam/nidkey"
)

// node is what all layers of a core stand on: its configuration, the outbox and the
// agenda, the host's own locators, and the sessions and correspondents. It looks things
// up and has no procedures.
type node struct {
	cfg Config
	agenda
	outbox
	host host
	cache
	attention
	accounts     accounts
	preinstalled preinstalled
	obstructed   obstructions
	rules        ruleSet
	formerKey    *nidkey.Key  // of the former Node Identifier; nil: unknown
	ownKey       nidkey.Ready // that of the configuration
}

func (c *node) init(cfg Config) {
	c.cfg = cfg
	c.cache, c.attention, c.obstructed = newCache(), make(attention), make(obstructions)
	c.SetKey(cfg.Key)
	c.host = newHost(&c.cfg, &c.outbox, &c.agenda)
	c.host.schedule.Machine = &c.host
}

// SetKey gives this node its key pair, or takes it away (nil). AddPeer follows with the secrets.
func (c *node) SetKey(k *nidkey.Key) {
	c.cfg.Key, c.cache.proving, c.ownKey = k, k != nil, nidkey.Ready{}
	if k != nil {
		c.ownKey, _ = k.Ready() // fails for no key of 32 bytes
	}
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
