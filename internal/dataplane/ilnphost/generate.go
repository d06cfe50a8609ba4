package ilnphost

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type abi_number -type event -type packet_event -type counter -type event_kind -type host_flags -type uplink_flags -type entry_flags -type rule_found -type asked -type settled_flags -type flow_rule_flags -type refusal -type half -type nonce -type addr -type socket_marks bpf ../../../bpf/ilnp/ilnp_host.bpf.c -- -O2 -mcpu=v3 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type link_list guard ../../../bpf/ilnp/guard.bpf.c -- -O2 -mcpu=v3 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type half -type addr literal ../../../bpf/ilnp/literal.bpf.c -- -O2 -mcpu=v3 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type connection stalled ../../../bpf/ilnp/stalled.bpf.c -- -O2 -mcpu=v3 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel socketwatch ../../../bpf/ilnp/socketwatch.bpf.c -- -O2 -mcpu=v3 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
