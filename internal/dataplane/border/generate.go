package border

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type handover_kind -type locator_kind -type site_flags -type fallback -type checksum_rule -type announcement -type announcing -type flow -type flow_nonces -type whole_flow bpf ../../../bpf/sbr/sbr.bpf.c -- -O2 -mcpu=v3 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
