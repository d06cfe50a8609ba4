// Package structops registers congestion controls that are eBPF programs.
package structops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	pin        string // "": it is not pinned
}

// Register loads a collection, and registers its map ops, a struct tcp_congestion_ops, under a name of at most 15
// characters. The collection uses shared maps in place of its own; nil: none. The spec is used up.
func Register(spec *ebpf.CollectionSpec, ops, name string, shared map[string]*ebpf.Map) (*Control, error) {
	c, err := load(spec, ops, name, Linked, shared)
	if err == nil {
		if err = c.Renew(); err == nil {
			return c, nil
		}
		c.Collection.Close()
	}
	c, unlinked := load(spec, ops, name, 0, shared) // it is registered with the map
	if unlinked != nil {
		return nil, fmt.Errorf("register congestion control %s: %w", name, errors.Join(err, unlinked))
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

// Pin lets EndPinned end the registration where it would outlive this process, as it does on kernels before 6.4. Where
// it does not, nothing is pinned.
func (c *Control) Pin(path string) error {
	if c.linked {
		return nil
	}
	err := c.ops.Pin(path)
	if err == nil {
		c.pin = path
	}
	return err
}

// EndPinned ends the registration of a process that was killed, and removes the pin; without one it does nothing.
func EndPinned(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ops, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return fmt.Errorf("end congestion control: %w", err)
	}
	defer ops.Close()
	if err := ops.Delete(uint32(0)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("end congestion control: %w", err)
	}
	return os.Remove(path)
}

// Close ends the registration for good. Connections that use the control keep it until they end.
func (c *Control) Close() error {
	defer c.Collection.Close()
	_, err := c.Withdraw()
	if c.pin != "" {
		err = errors.Join(err, os.Remove(c.pin))
	}
	return err
}
