// Package structops registers congestion controls that are eBPF programs.
package structops

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// Linked requests a map whose registration ends with its link (BPF_F_LINK of linux/bpf.h), or with the process. Kernels
// before 6.4 have none.
const Linked = 1 << 13

// Control is a congestion control that sockets of the whole machine can name until Close.
type Control struct {
	Collection *ebpf.Collection
	ops        *ebpf.Map
	link       link.Link // nil where the kernel registers without, and after Withdraw
	linked     bool
}

// Register loads a collection, and registers its map ops, a struct tcp_congestion_ops, under a name of at most 15
// characters. The spec is used up.
func Register(spec *ebpf.CollectionSpec, ops, name string) (*Control, error) {
	c, err := RegisterLinked(spec, ops, name, nil)
	if err == nil {
		return c, nil
	}
	c, unlinked := load(spec, ops, name, 0, nil) // it is registered with the map
	if unlinked != nil {
		return nil, fmt.Errorf("register congestion control %s: %w", name, errors.Join(err, unlinked))
	}
	return c, nil
}

// RegisterLinked does the same where the registration ends with the process, which kernels before 6.4 have not. The
// collection uses the shared maps in place of its own.
func RegisterLinked(spec *ebpf.CollectionSpec, ops, name string, shared map[string]*ebpf.Map) (*Control, error) {
	c, err := load(spec, ops, name, Linked, shared)
	if err != nil {
		return nil, err
	}
	if err := c.Renew(); err != nil {
		c.Collection.Close()
		return nil, err
	}
	return c, nil
}

func load(spec *ebpf.CollectionSpec, ops, name string, flags uint32, shared map[string]*ebpf.Map) (*Control, error) {
	m := spec.Maps[ops]
	m.Name = name
	m.Flags = m.Flags&^Linked | flags
	if err := setName(m, name); err != nil {
		return nil, err
	}
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, err
	}
	return &Control{Collection: all, ops: all.Maps[ops], linked: flags != 0}, nil
}

// setName writes the name into the struct that is registered.
func setName(m *ebpf.MapSpec, name string) error {
	value, ok := m.Contents[0].Value.([]byte)
	ops, isStruct := m.Value.(*btf.Struct)
	if !ok || !isStruct {
		return fmt.Errorf("name %s: the object holds no struct of operations", name)
	}
	for _, member := range ops.Members {
		if member.Name == "name" {
			field := value[member.Offset.Bytes():][:16]
			clear(field)
			copy(field[:15], name)
			return nil
		}
	}
	return fmt.Errorf("name %s: the struct of operations has no name", name)
}

// Withdraw ends the registration until Renew, and reports whether that is possible: kernels before 6.4 register a
// collection once.
func (c *Control) Withdraw() (renewable bool, err error) {
	if !c.linked {
		return false, c.ops.Delete(uint32(0))
	}
	if c.link != nil {
		err, c.link = c.link.Close(), nil
	}
	return true, err
}

// Renew registers it again.
func (c *Control) Renew() (err error) {
	c.link, err = link.AttachStructOps(link.StructOpsOptions{Map: c.ops})
	return err
}

// Close ends the registration for good. Connections that use the control keep it until they end.
func (c *Control) Close() error {
	defer c.Collection.Close()
	_, err := c.Withdraw()
	return err
}
