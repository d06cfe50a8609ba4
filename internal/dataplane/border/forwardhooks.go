package border

import "roam/internal/dataplane"

// ForwardsUnseen reports whether packets that come in may be sent on without the stack: it
// would not show them to a firewall, to IPsec, or to rules of routing or routes by source. An attachment through
// clsact, behind which other programs may stand, does not count. It asks about the network
// namespace of the calling thread.
func (p *Plane) ForwardsUnseen() (bool, error) {
	if !p.TCX() {
		return false, nil
	}
	hooked, err := dataplane.HasForwardHooks()
	return err == nil && !hooked, err
}
