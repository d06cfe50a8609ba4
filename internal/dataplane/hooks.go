package dataplane

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// hooks loads the programs that look for hooks, for all sets of the process.
var hooks = sync.OnceValues(func() (*hooksObjects, error) {
	var o hooksObjects
	if err := loadHooksObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load the search for hooks: %w", err)
	}
	return &o, nil
})

// PrepareHooks loads what looks for hooks, which takes 25 ms of a processor and more on a busy machine: a loop that
// asks must not wait for that. It may run beside the loading of a set.
func PrepareHooks() { _, _ = hooks() } // whoever asks gets the error

// HasOutputHooks reports whether anything would see packets of local sockets before they leave a
// link, such as rules of a firewall for output. It asks about the network namespace of the calling
// thread. A kernel that cannot tell is an error each time.
func HasOutputHooks() (bool, error) {
	return has(func(o *hooksObjects) *ebpf.Program { return o.HasOutputHooks })
}

// HasForwardHooks reports the same of packets that the host forwards: firewalls, IPsec, rules of
// routing and routes by source count.
func HasForwardHooks() (bool, error) {
	return has(func(o *hooksObjects) *ebpf.Program { return o.HasForwardHooks })
}

func has(program func(*hooksObjects) *ebpf.Program) (bool, error) {
	o, err := hooks()
	if err != nil {
		return false, err
	}
	hooked, err := program(o).Run(&ebpf.RunOptions{})
	if err != nil {
		return false, fmt.Errorf("look for hooks: %w", err)
	}
	return hooked != 0, nil
}
