// Package dataplane is the only door to eBPF: it loads the programs of bpf/,
// attaches them, fills their maps and decodes what they report.
//
// Maps and links are pinned below the daemon's run directory, so that packets
// keep flowing while no daemon runs; a new daemon finds the pins, updates the
// programs in place and compares the maps with what the core wants.
// docs/maps.md describes each map.
package dataplane

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type event -type packet_event -type counter -type event_kind -type host_flags -type uplink_flags -type pair_flags -type half -type nonce -type addr -type path bpf ../../bpf/ilnp_host.bpf.c -- -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu
