package dataplane

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// DirectLookups has the programs of a collection load the address of the one value of an
// array where they look that up. The kernel writes a look-up in an array as a dozen
// instructions, about a cache line of code; with the address, its verifier takes out the test
// for null as well. Arrays of one entry, whose key is 0 everywhere, are what an object has for
// variables that it shares with a daemon.
//
// A look-up stays as it is where other code may jump between its parts. To call it again
// changes nothing.
func DirectLookups(spec *ebpf.CollectionSpec) {
	for _, p := range spec.Programs {
		directLookups(p.Instructions, spec.Maps)
	}
}

func directLookups(prog asm.Instructions, maps map[string]*ebpf.MapSpec) {
	entered := jumpTargets(prog)
	var load *asm.Instruction // of such a map as the first argument of the next call
	for it := prog.Iterate(); it.Next(); {
		ins := it.Ins
		if entered[it.Offset] || ins.Symbol() != "" {
			load = nil
		}
		switch {
		case loadsSingle(ins, maps):
			load = ins
		case load != nil && isLookup(ins):
			load.Src, load.Constant = asm.PseudoMapValue, 0
			mov := asm.Mov.Reg(asm.R0, asm.R1)
			ins.OpCode, ins.Dst, ins.Src, ins.Constant = mov.OpCode, mov.Dst, mov.Src, 0
			load = nil
		case ins.OpCode.Class().IsJump() || ins.Dst == asm.R1 || ins.OpCode.Mode() == asm.AtomicMode:
			load = nil
		}
	}
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
