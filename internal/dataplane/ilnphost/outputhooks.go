package ilnphost

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// outputHooksOnce loads the program that looks for them, for all planes of the process.
var outputHooksOnce = sync.OnceValues(func() (*outputhooksObjects, error) {
	var o outputhooksObjects
	if err := loadOutputhooksObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load the search for output hooks: %w", err)
	}
	return &o, nil
})

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
	o, err := outputHooksOnce()
	if err != nil {
		return false, err
	}
	hooked, err := o.HasOutputHooks.Run(&ebpf.RunOptions{})
	if err != nil {
		return false, fmt.Errorf("look for output hooks: %w", err)
	}
	return hooked == 0, nil
}
