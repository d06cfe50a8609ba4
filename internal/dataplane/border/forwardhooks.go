package border

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// forwardHooksOnce loads the program that looks for them, for all planes of the process.
var forwardHooksOnce = sync.OnceValues(func() (*forwardhooksObjects, error) {
	var o forwardhooksObjects
	if err := loadForwardhooksObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load the search for forward hooks: %w", err)
	}
	return &o, nil
})

// ForwardsUnseen reports whether packets that come in may be sent on without the stack: it
// would not show them to a firewall, to IPsec or to rules of routing. An attachment through
// clsact, behind which other programs may stand, does not count. It asks about the network
// namespace of the calling thread.
func (p *Plane) ForwardsUnseen() (bool, error) {
	if !p.TCX() {
		return false, nil
	}
	o, err := forwardHooksOnce()
	if err != nil {
		return false, err
	}
	hooked, err := o.HasForwardHooks.Run(&ebpf.RunOptions{})
	if err != nil {
		return false, fmt.Errorf("look for forward hooks: %w", err)
	}
	return hooked == 0, nil
}
