// Package decide is the model, in plain Go, of what the data plane of an ILNPv6 host
// decides: a function of what its maps hold and of a packet, to the verdict, the path,
// the counters, the events for the daemon, and what the maps hold afterwards.
//
// It implements bpf/ilnp/ilnp_host.bpf.c with the headers that it includes: packets that leave
// by the session device, packets that arrive on an uplink, pending peers, allowances of
// unvalidated locators, NID collisions, plain flows, checksum rules, and control in UDP.
// Where the C reads the bytes of a packet, so does the model. Rewrite returns the packet that
// results; the rewriting itself is that of package xlate.
//
// It omits how maps find their entries, what a kernel helper does to a packet that it
// refuses, and the order in which several processors write. A socket is known by what
// its caller says of it: Sockets for those that a packet from outside may belong to, and
// three fields of Packet for the one that sends.
//
// The package is pure: the caller passes the time. It is driven by sim, and by the tests
// of the data plane, which run the same packets through both.
package decide
