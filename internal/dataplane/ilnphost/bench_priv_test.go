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

// direction is a program and a packet for it.
type direction struct {
	name    string
	at      int32 // of the correspondent's identifier
	verdict int32
	prog    func(*rig) *ebpf.Program
	frameOf func(ilnp.Entry) []byte
}

// loaded is a plane with n sessions, its program behind a harness, and a packet of the first
// session.
func loaded(b *testing.B, n int, d direction) (alone, with *ebpf.Program, first []byte) {
	b.Helper()
	r := newRigOf(b, max(n, LeastSessions))
	r.uplink(here)
	for i := range n {
		r.upsert(numbered(i))
	}
	first = d.frameOf(numbered(0))
	alone, with = harness(b, n, first, d.at, nil), harness(b, n, first, d.at, d.prog(r))
	// What was seen of a session is cleared with its first packet.
	_, _, err := with.Benchmark(first, 5*n, nil)
	r.must(err)
	return alone, with, first
}

// benchmark measures prog on packets of n sessions, less what the harness itself takes.
func benchmark(b *testing.B, n int, d direction) {
	alone, with, first := loaded(b, n, d)
	_, own, err := alone.Benchmark(first, 1_000_000, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	v, took, err := with.Benchmark(first, b.N, b.ResetTimer)
	if err != nil {
		b.Fatal(err)
	}
	if int32(v) != d.verdict {
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

// segment is of TCP, with 1400 bytes.
func segment(src, dst roam.ILV) []byte { return frame(packet(src, dst, ip6.TCP, tcp(flagACK, 1400))) }

// patience keeps sessions settled to which nothing answers, as nothing does in a benchmark.
const patience = uint64(1e15)

func egress(r *rig) *ebpf.Program  { return r.pathsWith("silence_after", patience).Egress }
func ingress(r *rig) *ebpf.Program { return r.objs.IlnpUplinkIngress }

// benchedOut is from session addresses to the wire; benchedIn is the way back, by locator.
var (
	benchedOut = direction{"out", dstNID, redirect, egress, func(p ilnp.Entry) []byte {
		return segment(session(ours), session(p.Key.Remote))
	}}
	benchedIn = direction{"in", srcNID, passOn, ingress, func(p ilnp.Entry) []byte {
		return segment(at(there, p.RemoteNID), at(here, ours))
	}}
)

// BenchmarkEgress is the way out.
func BenchmarkEgress(b *testing.B) { benchmarkSessions(b, benchedOut) }

// BenchmarkIngress is the way in.
func BenchmarkIngress(b *testing.B) { benchmarkSessions(b, benchedIn) }

func benchmarkSessions(b *testing.B, d direction) {
	for _, n := range sessionCounts {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) { benchmark(b, n, d) })
	}
}

// BenchmarkIngressOfOthers is what the programs cost traffic that is none of
// theirs.
func BenchmarkIngressOfOthers(b *testing.B) {
	benchmark(b, 1, direction{"others", srcNID, passOn, ingress, func(ilnp.Entry) []byte {
		return segment(at(there, theirs), at(here, roam.NID(0x77)))
	}})
}

// BenchmarkIngressOfNoConnection is a segment of no connection from a correspondent
// that may have some of plain IPv6: they are looked for between all addresses of
// the two, here as many as there can be.
func BenchmarkIngressOfNoConnection(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			d := benchedIn
			d.prog = func(r *rig) *ebpf.Program {
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
				return ingress(r)
			}
			benchmark(b, 1, d)
		})
	}
}
