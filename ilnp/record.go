package ilnp

import (
	"fmt"
	"slices"
	"time"
)

// Recall takes what an Export of an earlier run returned of which nothing else is
// left: the data plane was removed, or the machine has rebooted. Of that, sessions
// whose correspondent had sent its nonce are upserted, without paths until there
// are locators, if they have not been idle for IdleTimeout: a correspondent
// that still has its half, and cannot know of the reboot, is answered with the
// nonces that it holds. What is known of correspondents is taken as well.
// Modes, links and connections ended with that run; sessions of NIDs that are not ours
// any more stay behind, and those with a longer nonce than is configured now. It is to be called first, before any other
// method; an error wraps ErrState and leaves the core empty.
func (c *Core) Recall(now time.Time, state []byte) error {
	st, err := parseState(state)
	if err != nil {
		return err
	}
	sessions := slices.DeleteFunc(st.Sessions, func(v savedSession) bool {
		// The session device leaves room for a nonce of the configured length.
		tooLong := len(v.LocalNonce) > int(c.cfg.NonceLength)
		return v.Preinstalled || v.State != Established || !slices.Contains(c.cfg.NIDs, v.LocalNID) || tooLong
	})
	for _, v := range sessions {
		if err := c.check(v); err != nil {
			return fmt.Errorf("session %v: %w", SessionKey{v.Local, v.Remote}, err)
		}
	}
	c.host.restoreBorder(st.Border)
	c.prover.counter = st.Offers
	c.restoreKnown(st.Known)
	for _, v := range sessions {
		c.restoreSession(now, v.ended(now))
	}
	c.forgetUnused()
	return nil
}

// ended returns a session as it is when all that was under way has ended: its
// paths are asked again, and the correspondent is sent the locators of now.
func (v savedSession) ended(now time.Time) savedSession {
	v.Seq, v.Dead, v.Encapsulated, v.Long, v.AsksPerFlow = 0, false, nil, nil, false
	if v.Update != untold {
		v.Update = suspended
	}
	// A clock that has lost the time must not keep a session for ever.
	for _, t := range []*time.Time{&v.Started, &v.LastRx, &v.LastTx, &v.LastMove, &v.ToldAt, &v.NonceUntil} {
		if t.After(now) {
			*t = now
		}
	}
	return v
}
