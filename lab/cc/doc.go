// Package cc provides the congestion controls that the papers used: the kernel's if it has
// them, else Hybla and Veno as BPF programs (bpf/cc/hybla.bpf.c, bpf/cc/veno.bpf.c).
//
// It implements registration, its removal even after a crash, and models of both algorithms
// that tests compare with the kernel's behavior. It omits other congestion controls that a
// kernel may lack. It is driven by experiments; it needs root.
package cc
