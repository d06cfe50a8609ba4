package dataplane

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"
)

// Summed says where in the kernel's own packet (struct sk_buff) a program can read the
// state of the checksum, ip_summed: bits from Shift on of the byte at offset At. It is
// zero where the kernel does not let programs look there.
type Summed struct {
	At    uint16
	Shift uint8
}

// kernelTypes are the kernel's, from when ChecksumState has read them until programs are loaded.
var kernelTypes atomic.Pointer[btf.Cache]

// takeKernelTypes returns what ChecksumState has read, once, since they take megabytes; else a cache that reads them
// when a program needs them.
func takeKernelTypes() *btf.Cache { return cmp.Or(kernelTypes.Swap(nil), btf.NewCache()) }

// ChecksumState returns where this kernel has the state of a packet's checksum. Programs
// reach it through the function bpf_cast_to_kern_ctx (Linux 6.2). The kernel's types are
// read once, which takes some 30 ms.
var ChecksumState = sync.OnceValues(findChecksumState)

func findChecksumState() (s Summed, err error) {
	types := btf.NewCache()
	kernel, err := types.Kernel()
	if err != nil {
		return s, fmt.Errorf("read the kernel's types: %w", err)
	}
	kernelTypes.Store(types)
	var cast *btf.Func
	if err := kernel.TypeByName("bpf_cast_to_kern_ctx", &cast); err != nil {
		return s, fmt.Errorf("look for a kernel function: %w", err)
	}
	var packet *btf.Struct
	if err := kernel.TypeByName("sk_buff", &packet); err != nil {
		return s, fmt.Errorf("look for a kernel type: %w", err)
	}
	bit, ok := bitOf(packet.Members, 0, "ip_summed")
	if !ok || bit>>3 > 0xffff {
		return s, fmt.Errorf("sk_buff has no field ip_summed: %w", btf.ErrNotFound)
	}
	return Summed{At: uint16(bit >> 3), Shift: uint8(bit & 7)}, nil
}

// bitOf returns the offset in bits of a member, also of one in a struct without a name.
func bitOf(members []btf.Member, from btf.Bits, name string) (btf.Bits, bool) {
	for _, m := range members {
		if m.Name == name {
			return from + m.Offset, true
		}
		if m.Name != "" {
			continue
		}
		switch t := m.Type.(type) {
		case *btf.Struct:
			if bit, ok := bitOf(t.Members, from+m.Offset, name); ok {
				return bit, true
			}
		case *btf.Union:
			if bit, ok := bitOf(t.Members, from+m.Offset, name); ok {
				return bit, true
			}
		}
	}
	return 0, false
}
