package cc

// //go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target
// bpfel -no-global-types -type cc_event -type cc_call hybla ../../bpf/cc/hybla.bpf.c -- -O2 -g
// -Wall -Werror -I/usr/include/x86_64-linux-gnu
// //go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target
// bpfel -no-global-types veno ../../bpf/cc/veno.bpf.c -- -O2 -g -Wall -Werror
// -I/usr/include/x86_64-linux-gnu
