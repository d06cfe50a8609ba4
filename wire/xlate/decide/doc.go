// Package decide models the decisions of an ILNPv6 host's data plane in plain Go: a
// function from the contents of its maps and a packet to the verdict, the path, the
// counters, the events for the daemon, and the new contents of the maps.
//
// It implements bpf/ilnp/ilnp_host.bpf.c with the headers that it includes: packets that
// leave by the session device, packets that arrive on an uplink, pending peers,
// allowances of unvalidated locators, NID collisions, plain flows, checksum rules, and
// UDP encapsulation. The model reads the bytes of a packet where the C does. Rewrite
// returns the resulting packet; package xlate does the rewriting.
//
// It omits how maps find their entries, how a kernel helper changes a packet that it
// refuses, and the order in which several CPUs write. The caller describes the sockets:
// Sockets finds those that may receive a packet, three fields of Packet describe the
// one that sent it.
//
// The package is pure: the caller passes the time. It is driven by the tests of
// internal/dataplane/ilnphost, which run the same packets through both.
package decide
