package dataplane

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// headersLen is what the harness puts back before each run: the Ethernet and
// the IPv6 header. The transport checksum drifts, which costs nothing.
const headersLen = ethLen + ip6.HeaderLen

// harness is a program that gives the packet of a test run the headers of a
// random session out of a list, and goes on into prog: a test run that repeats
// would see its own output otherwise. Without prog it measures itself.
func harness(b *testing.B, frames [][]byte, prog *ebpf.Program) *ebpf.Program {
	b.Helper()
	list, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: headersLen, MaxEntries: uint32(len(frames))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { list.Close() })
	for i, f := range frames {
		if err := list.Put(uint32(i), f[:headersLen]); err != nil {
			b.Fatal(err)
		}
	}
	next, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { next.Close() })
	if prog != nil {
		if err := next.Put(uint32(0), prog); err != nil {
			b.Fatal(err)
		}
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Imm(asm.R0, int32(len(frames))),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, list.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Mov.Imm(asm.R4, headersLen),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, next.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, -2).WithSymbol("out"),
		asm.Return(),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

// benchmark measures prog on packets of n sessions, each of which frameOf makes
// out of the session, less what the harness itself takes.
func benchmark(b *testing.B, n int, prog func(*rig) *ebpf.Program, verdict uint32, frameOf func(ilnp.Pair) []byte) {
	r := newRig(b)
	r.uplink(here)
	var frames [][]byte
	for i := range n {
		p := numbered(i)
		r.upsert(p)
		frames = append(frames, frameOf(p))
	}
	alone, with := harness(b, frames, nil), harness(b, frames, prog(r))
	_, own, err := alone.Benchmark(frames[0], 1_000_000, nil)
	r.must(err)
	b.ResetTimer()
	v, took, err := with.Benchmark(frames[0], b.N, b.ResetTimer)
	r.must(err)
	if v != verdict {
		b.Fatalf("verdict %d", int32(v))
	}
	b.ReportMetric(float64((took - own).Nanoseconds()), "ns/packet")
	b.ReportMetric(float64(own.Nanoseconds()), "ns/harness")
	b.ReportMetric(0, "ns/op")
}

var sessionCounts = []int{1, 100, 16000}

// BenchmarkEgress is one TCP segment of 1400 octets from its session addresses
// to the wire.
func BenchmarkEgress(b *testing.B) {
	for _, n := range sessionCounts {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			benchmark(b, n, func(r *rig) *ebpf.Program { return r.objs.IlnpSessionEgress }, redirect, func(p ilnp.Pair) []byte {
				return frame(packet(session(ours), session(p.Key.Remote), ip6.TCP, tcp(flagACK, 1400)))
			})
		})
	}
}

// BenchmarkIngress is the way back, by locator.
func BenchmarkIngress(b *testing.B) {
	for _, n := range sessionCounts {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			passed := int32(passOn)
			benchmark(b, n, func(r *rig) *ebpf.Program { return r.objs.IlnpUplinkIngress }, uint32(passed), func(p ilnp.Pair) []byte {
				return frame(packet(at(there, p.RemoteNID), at(here, ours), ip6.TCP, tcp(flagACK, 1400)))
			})
		})
	}
}

// BenchmarkIngressOfOthers is what the programs cost traffic that is none of
// theirs.
func BenchmarkIngressOfOthers(b *testing.B) {
	passed := int32(passOn)
	benchmark(b, 1, func(r *rig) *ebpf.Program { return r.objs.IlnpUplinkIngress }, uint32(passed), func(ilnp.Pair) []byte {
		return frame(packet(at(there, theirs), at(here, roam.NID(0x77)), ip6.TCP, tcp(flagACK, 1400)))
	})
}
