// Package dataplane is the door to eBPF for any system: it loads sets of objects,
// pins and adopts their maps, attaches their programs and reads their rings and
// counters. It imports no core. The typed tables of a system are in a package below
// it, as ilnphost is.
//
// Maps and links are pinned, each set's in a directory of its own, so that packets
// keep flowing while no daemon runs. A new daemon adopts the pins and updates the
// programs in place. Each set has its own ABI number: a new number replaces the maps
// of that set alone.
//
// Omitted: programs on more than one hook of netfilter.
package dataplane
