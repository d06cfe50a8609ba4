package ilnphost

import "roam/internal/dataplane"

// TranslatesAtUplinks reports whether packets between session addresses may leave by an
// uplink with a MAC header at once: the outbound program is at its egress, and nobody sees
// such packets before and expects them on the session device, as rules of a firewall for
// output do. An attachment through clsact, which other programs replace, does not count. It
// asks about the network namespace of the calling thread. A kernel that cannot tell is an
// error each time.
func TranslatesAtUplinks(p *Plane) (bool, error) {
	if !p.set.TCX() || p.set.Behind() {
		return false, nil
	}
	hooked, err := dataplane.HasOutputHooks()
	return err == nil && !hooked, err
}
