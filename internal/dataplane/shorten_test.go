package dataplane

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Only a look-up in an array of one entry that nothing can enter from elsewhere becomes the
// address of the value.
func TestDirectLookups(t *testing.T) {
	maps := map[string]*ebpf.MapSpec{
		"one":    {Type: ebpf.Array, MaxEntries: 1},
		"many":   {Type: ebpf.Array, MaxEntries: 2},
		"percpu": {Type: ebpf.PerCPUArray, MaxEntries: 1},
		"hash":   {Type: ebpf.Hash, MaxEntries: 1},
	}
	key := asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
	}
	load := func(name string) asm.Instruction { return asm.LoadMapPtr(asm.R1, 0).WithReference(name) }
	look := asm.FnMapLookupElem.Call()
	end := asm.Return()
	// Jumps as an object file has them, by distance.
	jump := func(by int16) asm.Instruction {
		ins := asm.JEq.Imm(asm.R2, 0, "")
		ins.Offset = by
		return ins
	}
	for _, c := range []struct {
		what   string
		prog   asm.Instructions
		direct int
	}{
		{"one entry", asm.Instructions{load("one"), look, end}, 1},
		{"the key between", append(append(asm.Instructions{load("one")}, key...), look, end), 1},
		{"twice", asm.Instructions{load("one"), look, load("one"), look, end}, 2},
		{"two entries", asm.Instructions{load("many"), look, end}, 0},
		{"one for each processor", asm.Instructions{load("percpu"), look, end}, 0},
		{"a hash", asm.Instructions{load("hash"), look, end}, 0},
		{"an unknown map", asm.Instructions{load("none"), look, end}, 0},
		{"another argument", asm.Instructions{load("one"), asm.Mov.Reg(asm.R1, asm.R6), look, end}, 0},
		{"its result used between",
			asm.Instructions{load("one"), asm.StoreMem(asm.RFP, -16, asm.R0, asm.DWord), look, end}, 0},
		{"its argument used between", asm.Instructions{load("one"), asm.Mov.Reg(asm.R6, asm.R1), look, end}, 0},
		{"another call", asm.Instructions{load("one"), asm.FnMapUpdateElem.Call(), look, end}, 0},
		{"a jump between", asm.Instructions{load("one"), jump(0), look, end}, 0},
		{"a jump to the call", asm.Instructions{jump(2), load("one"), look, end}, 0},
		{"a jump past it", asm.Instructions{jump(3), load("one"), look, end}, 1},
		{"another function between", asm.Instructions{load("one"), asm.Mov.Imm(asm.R0, 0).WithSymbol("f"), look, end}, 0},
	} {
		spec := &ebpf.CollectionSpec{Maps: maps, Programs: map[string]*ebpf.ProgramSpec{"p": {Instructions: c.prog}}}
		size := c.prog.Size()
		for range 2 {
			Shorten(spec)
			values, calls := 0, 0
			for _, ins := range spec.Programs["p"].Instructions {
				if ins.IsLoadFromMap() && ins.Src == asm.PseudoMapValue {
					values++
				}
				if isLookup(&ins) {
					calls++
				}
			}
			wanted := 0
			for _, ins := range c.prog {
				if ins.IsLoadFromMap() {
					wanted++
				}
			}
			if values != c.direct || calls != max(wanted-c.direct, 0) {
				t.Errorf("%s: %d addresses and %d calls, want %d and %d", c.what, values, calls, c.direct, wanted-c.direct)
			}
		}
		if got := spec.Programs["p"].Instructions.Size(); got != size {
			t.Errorf("%s: the program has %d bytes, had %d", c.what, got, size)
		}
	}
}

// Only a load of a variable that nothing writes, behind its address without a way in between,
// becomes a number; other bytes of that section stay in memory.
func TestConstantLoads(t *testing.T) {
	variables := map[string]*ebpf.VariableSpec{
		"small":   {SectionName: constantSection, Offset: 0, Value: []byte{7, 0}},
		"large":   {SectionName: constantSection, Offset: 8, Value: []byte{0, 0, 0, 0, 1, 0, 0, 0}},
		"written": {SectionName: ".data", Offset: 32, Value: []byte{9, 0}},
	}
	address := func(at int64, section string) asm.Instruction {
		ins := asm.LoadMapValue(asm.R1, 0, uint32(at))
		return ins.WithReference(section)
	}
	load := func(to asm.Register) asm.Instruction { return asm.LoadMem(to, asm.R1, 0, asm.Half) }
	jump := asm.JEq.Imm(asm.R2, 0, "")
	copied, forgotten := asm.Mov.Reg(asm.R4, asm.R1), asm.Mov.Imm(asm.R1, 0)
	long := asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord)
	stored := asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord)
	end := asm.Return()
	for _, c := range []struct {
		what      string
		prog      asm.Instructions
		numbers   int // loads that became numbers,
		addresses int // and addresses that stay
	}{
		{"into the same register", asm.Instructions{address(0, constantSection), load(asm.R1), end}, 1, 0},
		{"into another register", asm.Instructions{address(0, constantSection), load(asm.R3), forgotten, end}, 1, 0},
		{"of an address that is used again",
			asm.Instructions{address(0, constantSection), load(asm.R3), copied, forgotten, end}, 1, 1},
		{"of an address that is stored", asm.Instructions{address(0, constantSection), stored, load(asm.R1), end}, 1, 1},
		{"a jump between", asm.Instructions{address(0, constantSection), jump, load(asm.R1), end}, 0, 1},
		{"beyond the variables", asm.Instructions{address(2, constantSection), load(asm.R1), end}, 0, 1},
		{"a variable that is written", asm.Instructions{address(32, ".data"), load(asm.R1), end}, 0, 1},
		{"too large", asm.Instructions{address(8, constantSection), long, end}, 0, 1},
	} {
		size := c.prog.Size()
		for range 2 {
			constantLoads(c.prog, variables)
		}
		numbers, addresses := 0, 0
		for _, ins := range c.prog {
			switch {
			case ins.OpCode == asm.Mov.Imm(asm.R1, 0).OpCode && ins.Constant == 7:
				numbers++
			case ins.IsLoadFromMap():
				addresses++
			}
		}
		if numbers != c.numbers || addresses != c.addresses || c.prog.Size() != size {
			t.Errorf("%s: %d numbers and %d addresses in %d bytes, want %d and %d in %d: %v", c.what,
				numbers, addresses, c.prog.Size(), c.numbers, c.addresses, size, c.prog)
		}
	}
}
