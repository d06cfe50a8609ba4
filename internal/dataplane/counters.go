package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"roam"
)

// Counter is one counter of an object.
type Counter struct {
	Name    string // lower case, as in the object's enum counter
	Meaning string
	Value   uint64
}

// Label names a counter.
type Label = struct{ Name, Meaning string }

// ReadCounters reads all counters of an object, in the order of its enum counter.
func ReadCounters(m *ebpf.Map, labels []Label) ([]Counter, error) {
	out := make([]Counter, 0, len(labels))
	for i, t := range labels {
		var perCPU []uint64
		if err := m.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("read counter %s: %w", t.Name, err)
		}
		c := Counter{Name: t.Name, Meaning: t.Meaning}
		for _, v := range perCPU {
			c.Value += v
		}
		out = append(out, c)
	}
	return out, nil
}

// Refusal is a packet that was dropped because its sender may have been a forger,
// as a security log wants it (RFC 6741 §11.1).
type Refusal struct {
	At               time.Time
	Link             roam.LinkID // where it came in
	Remote, Local    roam.ILV    // its source and destination, as on the wire
	Proto            uint8       // upper layer; 0: none that could be read
	Type             uint8       // of ICMPv6 messages
	SrcPort, DstPort uint16      // of TCP and UDP; 0 where the packet has none
}

// Latest returns the entry of a per-CPU array that was written last on any processor; at
// returns when.
func Latest[T any](m *ebpf.Map, key uint32, at func(T) uint64) (T, error) {
	var perCPU []T
	if err := m.Lookup(key, &perCPU); err != nil {
		var none T
		return none, err
	}
	return slices.MaxFunc(perCPU, func(a, b T) int { return cmp.Compare(at(a), at(b)) }), nil
}
