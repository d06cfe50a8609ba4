// Package slowpath is what an ILNPv6 host does with the packets that its data plane
// hands to the daemon: first packets wait until their session exists (queue.go), a copy
// of them is kept for the other checksum rule (copies.go), packets of a pending peer
// wait until it is validated (pending.go), unless it is a probe (probe.go), ICMPv6 errors are judged and translated
// between the wire and the host's own stack (errors.go), and path MTUs that the stack
// has learned are remembered, so that it can be made to forget them (pathmtu.go).
//
// It omits the translation itself, which is wire/xlate's, and everything that the core
// decides. It has no clock and sends nothing: it is driven by internal/role/ilnphost/engine and sim.
package slowpath
