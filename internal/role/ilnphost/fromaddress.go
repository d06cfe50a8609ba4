package ilnphost

import (
	"context"
	"fmt"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/hostnet"
)

const (
	// addressPoll is the pause between two looks for an address.
	addressPoll = 100 * time.Millisecond
	// addressSettles is how long an address has to get better, or a better one to come: duplicate address detection
	// takes a second (RFC 4862 §5.1).
	addressSettles = 2 * time.Second
)

// nidFromAddress returns the low half of a global address of this host. It waits for one until ctx is done: a boot
// starts the daemon before the network. waits is called with what it waits for, once. Temporary addresses come together
// with a permanent one, and both have to pass duplicate address detection first: the identifier is that of neither
// before addressSettles.
func nidFromAddress(ctx context.Context, cfg config.Config, waits func(string)) (roam.NID, error) {
	tick := time.NewTicker(addressPoll)
	defer tick.Stop()
	var lesser time.Time // when such an address was seen first
	for said := false; ; {
		best, rest, err := hostnet.GlobalAddresses(cfg.Host.SessionPrefix, cfg.Uplinks.Allows)
		switch now := time.Now(); {
		case err != nil:
			return 0, fmt.Errorf("take the node identifier from an address: %w", err)
		case len(best) > 0:
			return roam.ILVFromAddr(best[0]).NID, nil
		case len(rest) == 0:
			lesser = time.Time{}
		case lesser.IsZero():
			lesser = now
		case now.Sub(lesser) >= addressSettles:
			return roam.ILVFromAddr(rest[0]).NID, nil
		}
		if !said {
			waits(`a global IPv6 address, for host.nid is "from-address"`)
			said = true
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for an address to take the node identifier from: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
