package dataplane

import (
	"errors"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Flags of bpf_l4_csum_replace: BPF_F_PSEUDO_HDR, and BPF_F_IPV6 (Linux 6.16,
// and some stable kernels).
const (
	pseudoHeader = 1 << 4
	pseudoIPv6   = 1 << 7
)

// ChecksumFlags returns the flags of bpf_l4_csum_replace for a changed IPv6
// pseudo-header, csum_flags of bpf/lib/config.h.
func ChecksumFlags() uint64 {
	if haveChecksumIPv6(pseudoIPv6 | pseudoHeader) {
		return pseudoHeader | pseudoIPv6
	}
	return pseudoHeader
}

// haveChecksumIPv6 runs a two-line program: the helper refuses unknown flags
// before it looks at anything else.
func haveChecksumIPv6(flags uint64) bool {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.SchedCLS,
		License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, 14+40+16),
			asm.Mov.Imm(asm.R3, 0),
			asm.Mov.Imm(asm.R4, 0),
			asm.LoadImm(asm.R5, int64(flags), asm.DWord),
			asm.FnL4CsumReplace.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return false
	}
	defer prog.Close()
	packet := make([]byte, 14+40+20)
	packet[12], packet[13] = 0x86, 0xdd
	ret, err := prog.Run(&ebpf.RunOptions{Data: packet})
	return err == nil && int32(ret) == 0
}

// haveTCX asks for a link on a device that there is not: a kernel that knows tcx
// looks for that first. To attach something for a try, and to detach it, would
// wait twice for all programs that run.
func haveTCX() bool {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		License:      "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return false
	}
	defer prog.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: prog, Attach: ebpf.AttachTCXIngress})
	if err == nil {
		l.Close()
	}
	return err == nil || errors.Is(err, unix.ENODEV)
}

// SumsIPv6 reports whether checksum flags keep CHECKSUM_COMPLETE true for a changed IPv6
// pseudo-header.
func SumsIPv6(flags uint64) bool { return flags&pseudoIPv6 != 0 }
