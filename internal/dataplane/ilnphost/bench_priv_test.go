package ilnphost

import (
	"encoding/binary"
	"fmt"
	"net/netip"
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

// harness is a program that gives the packet of a test run its headers back,
// with the identifier of a random session out of n at offset at, and goes on
// into prog: a test run that repeats would see its own output otherwise. The
// identifier is reckoned and not looked up, so that the harness leaves the
// caches to prog. Without prog it measures itself.
func harness(b *testing.B, n int, first []byte, at int32, prog *ebpf.Program) *ebpf.Program {
	b.Helper()
	headers, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: headersLen, MaxEntries: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { headers.Close() })
	if err := headers.Put(uint32(0), first[:headersLen]); err != nil {
		b.Fatal(err)
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
	store := func(from asm.Register, offset, size int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R3, from), asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, offset),
			asm.Mov.Imm(asm.R4, size), asm.Mov.Imm(asm.R5, 0), asm.FnSkbStoreBytes.Call(),
		}
	}
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, headers.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	}
	ins = append(ins, store(asm.R0, 0, headersLen)...)
	ins = append(ins,
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Imm(asm.R0, int32(n)),
		asm.LoadImm(asm.R1, int64(binary.BigEndian.Uint64(first[at:])), asm.DWord),
		asm.Add.Reg(asm.R0, asm.R1),
		asm.HostTo(asm.BE, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, -16, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R0, asm.RFP),
		asm.Add.Imm(asm.R0, -16),
	)
	ins = append(ins, store(asm.R0, at, 8)...)
	ins = append(ins,
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, next.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, -2).WithSymbol("out"),
		asm.Return(),
	)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: ins})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

// benchmark measures prog on packets of n sessions, of the first of which
// frameOf makes one with the correspondent's identifier at offset at, less what
// the harness itself takes.
func benchmark(b *testing.B, n int, at int32, prog func(*rig) *ebpf.Program, verdict uint32, frameOf func(ilnp.Entry) []byte) {
	r := newRigOf(b, max(n, LeastSessions))
	r.uplink(here)
	for i := range n {
		r.upsert(numbered(i))
	}
	first := frameOf(numbered(0))
	alone, with := harness(b, n, first, at, nil), harness(b, n, first, at, prog(r))
	_, own, err := alone.Benchmark(first, 1_000_000, nil)
	r.must(err)
	// What was seen of a session is cleared with its first packet.
	_, _, err = with.Benchmark(first, 5*n, nil)
	r.must(err)
	b.ResetTimer()
	v, took, err := with.Benchmark(first, b.N, b.ResetTimer)
	r.must(err)
	if v != verdict {
		b.Fatalf("verdict %d", int32(v))
	}
	b.ReportMetric(float64((took - own).Nanoseconds()), "ns/packet")
	b.ReportMetric(float64(own.Nanoseconds()), "ns/harness")
	b.ReportMetric(0, "ns/op")
}

// sessionCounts: one hot key, the 100 that the bound refers to, and 100,000.
var sessionCounts = []int{1, 100, 16000, 100_000}

// Where the correspondent's identifier stands in a frame on its way out and in.
const (
	dstNID = ethLen + 32
	srcNID = ethLen + 16
)

// BenchmarkEgress is one TCP segment of 1400 bytes from its session addresses
// to the wire.
func BenchmarkEgress(b *testing.B) {
	for _, n := range sessionCounts {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			benchmark(b, n, dstNID, func(r *rig) *ebpf.Program { return r.objs.IlnpSessionEgress }, redirect, func(p ilnp.Entry) []byte {
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
			benchmark(b, n, srcNID, func(r *rig) *ebpf.Program { return r.objs.IlnpUplinkIngress }, uint32(passed), func(p ilnp.Entry) []byte {
				return frame(packet(at(there, p.RemoteNID), at(here, ours), ip6.TCP, tcp(flagACK, 1400)))
			})
		})
	}
}

// BenchmarkIngressOfOthers is what the programs cost traffic that is none of
// theirs.
func BenchmarkIngressOfOthers(b *testing.B) {
	passed := int32(passOn)
	benchmark(b, 1, srcNID, func(r *rig) *ebpf.Program { return r.objs.IlnpUplinkIngress }, uint32(passed), func(ilnp.Entry) []byte {
		return frame(packet(at(there, theirs), at(here, roam.NID(0x77)), ip6.TCP, tcp(flagACK, 1400)))
	})
}

// BenchmarkIngressOfNoConnection is a segment of no connection from a correspondent
// that may have some of plain IPv6: they are looked for between all addresses of
// the two, here as many as there can be.
func BenchmarkIngressOfNoConnection(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			passed := int32(passOn)
			benchmark(b, 1, srcNID, func(r *rig) *ebpf.Program {
				r.change(func(s *HostSettings) { s.RealNID = true })
				var reals []netip.Addr
				var remote []roam.L64
				for i := range roam.L64(n) {
					reals = append(reals, at(here+i, ours).Addr())
					remote = append(remote, there+i)
				}
				r.must(r.SetServerAddrs(reals))
				p := entryFor(remote...)
				p.Key.Remote, p.RemoteNID = numbered(0).Key.Remote, numbered(0).RemoteNID
				r.upsert(p)
				return r.objs.IlnpUplinkIngress
			}, uint32(passed), func(p ilnp.Entry) []byte {
				return frame(packet(at(there, p.RemoteNID), at(here, ours), ip6.TCP, tcp(flagACK, 1400)))
			})
		})
	}
}
