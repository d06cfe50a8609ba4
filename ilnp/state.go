package ilnp

import "time"

// Export returns what a successor needs to keep the sessions. It holds nonces:
// only its owner may read it.
func (c *Core) Export() []byte { return nil }

// Restore takes what an Export of a predecessor returned, with times made
// absolute, and upserts every session that is still alive. It is to be called
// before any Handle method.
func (c *Core) Restore(now time.Time, state []byte) error { return nil }
