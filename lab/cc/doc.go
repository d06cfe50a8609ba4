// Package cc gives experiments the congestion controls that their papers used:
// the kernel's where it has them, else Hybla and Veno as BPF programs
// (bpf/cc/hybla.bpf.c, bpf/cc/veno.bpf.c) that it registers and takes away again.
//
// Implements registration, its removal also after a crash, and models of both
// algorithms that tests compare with what the kernel did. Omits every other
// congestion control that a kernel may lack. Driven by experiments; it needs
// root.
package cc
