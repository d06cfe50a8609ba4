package ilnphost

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// stackLimit is MAX_BPF_STACK: bytes that a program and the functions it
// calls may have together. Linux 6.1 and 6.12 count each in multiples of 32, at
// least one; newer kernels count in smaller ones and accept what those refuse,
// so that loading it on one of these proves nothing about the others.
const (
	stackLimit = 512
	stackUnit  = 32
)

// frames is what the functions of one program take of the stack, and whom
// they call.
type frames struct {
	depth map[string]int
	calls map[string]map[string]bool
	main  string
}

// framesOf reads a linked program: its first instruction and every target of
// a call begin a function.
func framesOf(p *ebpf.ProgramSpec) frames {
	f := frames{depth: map[string]int{}, calls: map[string]map[string]bool{}}
	starts := map[string]bool{p.Instructions[0].Symbol(): true}
	for _, ins := range p.Instructions {
		if ins.IsFunctionCall() {
			starts[ins.Reference()] = true
		}
	}
	var current string
	for _, ins := range p.Instructions {
		if s := ins.Symbol(); starts[s] {
			current, f.calls[s] = s, map[string]bool{}
		}
		if f.main == "" {
			f.main = current
		}
		if ins.IsFunctionCall() {
			f.calls[current][ins.Reference()] = true
		}
		f.depth[current] = max(f.depth[current], reach(ins))
	}
	return f
}

// reach returns how far below the frame pointer an instruction looks: a load,
// a store, or the sum that makes the address of a variable. Other sums with
// small negative numbers are taken for such, on the safe side.
func reach(ins asm.Instruction) int {
	class := ins.OpCode.Class()
	switch {
	case class.IsLoad() && ins.Src == asm.R10, class.IsStore() && ins.Dst == asm.R10:
		return -int(ins.Offset)
	case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource &&
		ins.Constant >= -stackLimit:
		return -int(ins.Constant)
	}
	return 0
}

// deepest returns the most that a function and those it calls take together.
func (f frames) deepest(function string) int {
	below := 0
	for callee := range f.calls[function] {
		below = max(below, f.deepest(callee))
	}
	return below + max(1, (f.depth[function]+stackUnit-1)/stackUnit)*stackUnit
}

// Every program fits into the stack as the oldest kernels that we run on count
// it.
func TestStackDepth(t *testing.T) {
	observer := func() (*ebpf.CollectionSpec, error) { return ebpf.LoadCollectionSpec("../observer/bpf_bpfel.o") }
	border := func() (*ebpf.CollectionSpec, error) { return ebpf.LoadCollectionSpec("../border/bpf_bpfel.o") }
	all := []func() (*ebpf.CollectionSpec, error){loadBpf, loadGuard, loadLiteral, loadSocketwatch, observer, border}
	for _, load := range all {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
			f := framesOf(spec.Programs[name])
			got := f.deepest(f.main)
			if got > stackLimit {
				t.Errorf("%s takes %d bytes of stack, of %d: %v", name, got, stackLimit, f.depth)
			}
			if f.main != name {
				t.Errorf("%s begins with function %s", name, f.main)
			}
			t.Logf("%s: %d bytes", name, got)
		}
	}
}
