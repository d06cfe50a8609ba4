package dataplane

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// constantSection is where clang puts such variables.
const constantSection = ".rodata"

// Shorten takes two kinds of code out of the programs of a collection, whose variables are set. Each is
// about a cache line of the kernel's machine code where a packet passes.
//
// A look-up in an array of one entry, whose key is 0 everywhere, becomes the address of the value:
// the kernel writes a look-up as a dozen instructions, and its verifier then takes out the test for
// null as well. Such arrays are what an object has for variables that it shares with a daemon.
//
// A load of a variable that nothing writes becomes its value.
//
// Where other code may jump between the parts, they stay as they are. To call it again changes
// nothing.
func Shorten(spec *ebpf.CollectionSpec) {
	for _, p := range spec.Programs {
		directLookups(p.Instructions, spec.Maps)
		constantLoads(p.Instructions, spec.Variables)
	}
}

func directLookups(prog asm.Instructions, maps map[string]*ebpf.MapSpec) {
	entered := jumpTargets(prog)
	var load *asm.Instruction  // of such a map as the first argument of the next call
	var key []*asm.Instruction // what makes the second argument, right before that
	for it := prog.Iterate(); it.Next(); {
		ins := it.Ins
		if entered[it.Offset] || ins.Symbol() != "" {
			load, key = nil, nil
		}
		switch {
		case loadsSingle(ins, maps):
			if load = ins; len(key) < 2 {
				key = nil
			}
			continue
		case load != nil && isLookup(ins):
			load.Dst, load.Src, load.Constant = asm.R0, asm.PseudoMapValue, 0
			for _, dead := range append(key, ins) {
				skip(dead)
			}
		case load != nil && spares(ins):
			key = nil
			continue // the second argument may come behind the first
		case len(key) == 0 && isKeyPointer(ins), len(key) == 1 && isKeyOffset(ins):
			key = append(key, ins)
			continue
		}
		load, key = nil, nil
	}
}

// spares reports whether an instruction between the load of a map and the look-up leaves R1 alone, from
// which the look-up takes it, and R0, which gets the address earlier now.
func spares(ins *asm.Instruction) bool {
	class := ins.OpCode.Class()
	number := class == asm.StClass || class.IsALU() && ins.OpCode.Source() == asm.ImmSource // no other source
	return !class.IsJump() && ins.OpCode.Mode() != asm.AtomicMode && ins.Dst > asm.R1 && (number || ins.Src > asm.R1)
}

// isKeyPointer and isKeyOffset tell the two instructions that make the address of a key on the stack.
func isKeyPointer(ins *asm.Instruction) bool {
	mov := asm.Mov.Reg(asm.R2, asm.RFP)
	return ins.OpCode == mov.OpCode && ins.Dst == mov.Dst && ins.Src == mov.Src
}

func isKeyOffset(ins *asm.Instruction) bool {
	return ins.OpCode == asm.Add.Imm(asm.R2, 0).OpCode && ins.Dst == asm.R2
}

// skip has an instruction do nothing. The kernel takes such ones out.
func skip(ins *asm.Instruction) {
	ins.OpCode, ins.Dst, ins.Src, ins.Offset, ins.Constant = asm.Ja.Op(asm.ImmSource), 0, 0, 0, 0
}

// constantLoads writes the values of variables that nothing writes into the code, where the code
// runs straight from the address to its load. The address becomes a zero if nothing else uses it.
func constantLoads(prog asm.Instructions, variables map[string]*ebpf.VariableSpec) {
	entered := jumpTargets(prog)
	var at [asm.R10 + 1]*asm.Instruction // the address that a register has
	var used [asm.R10 + 1]bool           // by what stays
	forget := func(r asm.Register) {
		if at[r] != nil && !used[r] {
			*at[r] = asm.LoadImm(r, 0, asm.DWord).WithMetadata(at[r].Metadata).WithReference("")
		}
		at[r], used[r] = nil, false
	}
	for it := prog.Iterate(); it.Next(); {
		ins := it.Ins
		if entered[it.Offset] || ins.Symbol() != "" || ins.OpCode.Class().IsJump() {
			clear(at[:]) // which may be used elsewhere
			clear(used[:])
		}
		switch {
		case ins.IsLoadFromMap() && ins.Src == asm.PseudoMapValue && ins.Reference() == constantSection:
			forget(ins.Dst)
			at[ins.Dst] = ins
		case ins.OpCode.Class() == asm.LdXClass && ins.OpCode.Mode() == asm.MemMode && at[ins.Src] != nil:
			offset := int64(uint64(at[ins.Src].Constant)>>32) + int64(ins.Offset)
			v, ok := valueAt(variables, offset, ins.OpCode.Size().Sizeof())
			if !ok || int64(int32(v)) != v {
				used[ins.Src] = true
			} else {
				mov := asm.Mov.Imm(ins.Dst, int32(v))
				ins.OpCode, ins.Src, ins.Offset, ins.Constant = mov.OpCode, 0, 0, v
			}
			forget(ins.Dst)
		case ins.OpCode.Class().IsStore():
			used[ins.Src], used[ins.Dst] = true, true
			if ins.OpCode.Mode() == asm.AtomicMode { // which may write the source, or R0
				at[ins.Src], at[asm.R0] = nil, nil
			}
		default:
			used[ins.Src] = true
			if ins.OpCode.Class().IsALU() && ins.OpCode.ALUOp() != asm.Mov {
				used[ins.Dst] = true
			}
			forget(ins.Dst)
		}
	}
}

// valueAt returns the number of so many bytes at a place in the section of constants, if that is in
// a variable.
func valueAt(variables map[string]*ebpf.VariableSpec, at int64, size int) (int64, bool) {
	var b []byte
	for _, v := range variables {
		from := at - int64(v.Offset)
		if v.SectionName == constantSection && from >= 0 && from+int64(size) <= int64(len(v.Value)) {
			b = v.Value[from:]
		}
	}
	if b == nil {
		return 0, false
	}
	switch size {
	case 1:
		return int64(b[0]), true
	case 2:
		return int64(binary.NativeEndian.Uint16(b)), true
	case 4:
		return int64(binary.NativeEndian.Uint32(b)), true
	case 8:
		return int64(binary.NativeEndian.Uint64(b)), true //nolint:gosec // the bits, whatever they say
	}
	return 0, false
}

// loadsSingle reports whether an instruction loads an array of one entry into R1, where a
// call has its first argument.
func loadsSingle(ins *asm.Instruction, maps map[string]*ebpf.MapSpec) bool {
	if !ins.IsLoadFromMap() || ins.Src != asm.PseudoMapFD || ins.Dst != asm.R1 {
		return false
	}
	m := maps[ins.Reference()]
	return m != nil && m.Type == ebpf.Array && m.MaxEntries == 1
}

func isLookup(ins *asm.Instruction) bool {
	return ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnMapLookupElem
}

// jumpTargets returns where a program is entered by jumps.
func jumpTargets(prog asm.Instructions) map[asm.RawInstructionOffset]bool {
	targets := make(map[asm.RawInstructionOffset]bool)
	for it := prog.Iterate(); it.Next(); {
		op := it.Ins.OpCode
		if !op.Class().IsJump() || op.JumpOp() == asm.Call || op.JumpOp() == asm.Exit {
			continue
		}
		by := int64(it.Ins.Offset)
		if op.Class() == asm.Jump32Class && op.JumpOp() == asm.Ja {
			by = it.Ins.Constant
		}
		targets[asm.RawInstructionOffset(int64(it.Offset)+1+by)] = true
	}
	return targets
}
