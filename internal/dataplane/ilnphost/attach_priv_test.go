package ilnphost

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	"roam/internal/testutil"
)

// A successor learns to which links the programs of an uplink are attached: not
// to the session device and its like, and not to what was let go or is gone.
func TestAttachedUplinks(t *testing.T) {
	r := newRig(t)
	testutil.Need(t, "ip")
	pid := os.Getpid()
	name := func(end string) string { return fmt.Sprint(end, pid) }
	linkOf := func(end string) roam.LinkID {
		l, err := net.InterfaceByName(name(end))
		r.must(err)
		return roam.LinkID(l.Index)
	}
	for _, entry := range []string{"a", "b"} {
		ip(t, "link add "+name(entry)+" type veth peer name "+name(entry+"x"))
	}
	want := func(what string, links ...roam.LinkID) {
		t.Helper()
		got, err := r.AttachedUplinks()
		r.must(err)
		slices.Sort(got)
		slices.Sort(links)
		if !slices.Equal(got, links) {
			t.Errorf("%s: attached to %v, want %v", what, got, links)
		}
	}
	want("at first")
	a, b, c := linkOf("a"), linkOf("ax"), linkOf("b")
	r.must(r.AttachUplink(loopback, true))
	r.must(r.AttachUplink(a, true))
	r.must(r.AttachUplink(b, true))
	r.must(r.AttachSession(c, linkOf("bx")))
	r.restart()
	want("after a restart", loopback, a, b)
	r.must(r.DetachUplink(loopback))
	want("detached from one", a, b)
	ip(t, "link del "+name("a"))
	want("links are gone")
	if r.set.TCX() {
		if _, err := os.Stat(r.linkPin(a)); err == nil {
			t.Error("the pin of a link that is gone stays")
		}
		r.wantDetached(ebpf.AttachTCXIngress)
	}
}

// A program of another set that stands between the wire and the host's sees packets as
// they are on the wire, on tcx and on clsact, whichever was attached first; the host goes
// on translating.
func TestProgramBesideTheHost(t *testing.T) {
	for _, classic := range []bool{false, true} {
		for _, hostFirst := range []bool{false, true} {
			t.Run(fmt.Sprint("classic ", classic, ", host first ", hostFirst), func(t *testing.T) {
				g := newGuarded(t)
				opts := g.options()
				opts.NoTCX = classic
				var err error
				g.set, err = dataplane.Open(setOptions(opts))
				g.must(err)
				testutil.NeedKernel(t, "tcx links", classic || g.set.TCX())
				up := roam.LinkID(g.near.Index)
				seen, beside := g.watcher(t)
				observer := setOptions(opts)
				observer.Name = "observer"
				set, err := dataplane.Open(observer)
				g.must(err)
				steps := []func() error{
					func() error { return g.AttachUplink(up, true) },
					func() error { return set.AttachLink(up, true, beside) },
				}
				if !hostFirst {
					slices.Reverse(steps)
				}
				for _, step := range steps {
					g.must(step())
				}
				g.uplink(here)
				g.upsert(entryFor(there))
				if !g.delivered(g.near, g.far, at(there, theirs), at(here, ours)) {
					t.Error("the host does not translate beside another program")
				}
				var upper uint64
				g.must(seen.Lookup(uint32(0), &upper))
				if want := prefixOf(here); upper != want {
					t.Errorf("the other program saw a packet to %x, want one to the locator %x", upper, want)
				}
			})
		}
	}
}

// watcher returns a program that keeps the upper half of the destination of the last UDP
// packet that it saw, and where it keeps that.
func (r *rig) watcher(t *testing.T) (*ebpf.Map, *ebpf.Program) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	r.must(err)
	t.Cleanup(func() { m.Close() })
	const nextAt, destinationAt = ethLen + 6, ethLen + 24
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R2, nextAt),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, 1),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R1, asm.RFP, -16, asm.Byte),
		asm.JNE.Imm(asm.R1, unix.IPPROTO_UDP, "pass"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, destinationAt),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, passOn).WithSymbol("pass"),
		asm.Return(),
	}})
	r.must(err)
	t.Cleanup(func() { p.Close() })
	return m, p
}
