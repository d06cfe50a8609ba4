// Package dataplane is the only door to eBPF: it loads the programs of bpf/,
// attaches them, fills their maps and decodes what they report.
//
// Maps and links are pinned below the daemon's run directory, so that packets
// keep flowing while no daemon runs; a new daemon finds the pins, updates the
// programs in place and compares the maps with what the core wants.
// docs/maps.md describes each map.
package dataplane
