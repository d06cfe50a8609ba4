// Package ilnphost is the ILNP host as a node of package sim: an ilnp core, a data plane
// and applications, many of which meet over access links with delay, loss, reordering and
// duplication, which come and go. One seed gives one course of events, to the last packet.
//
// Each node has a data plane that decides by wire/xlate/decide, as bpf/ does. This package
// holds only the contents of its maps, and the packets that the daemon holds. Applications
// exchange numbered datagrams, so that tests can count the packets that a handoff loses, and
// segments of TCP connections that retransmit (tcp.go). A tcpassist.Machine on each node wakes
// these connections after a move and resyncs firewalls that track them (assist.go). All access
// links end at one router, which has neither delay nor loss. Some hosts have no ILNP; they
// send and receive datagrams only.
//
// The rate of a host on a link may be limited (rate.go); the excess is queued. The package
// omits all other limits of bandwidth, full queues, congestion control, the checksums of data
// and the payload of transport protocols: the lab has those, with real kernels. It is driven by
// tests and by the virtual engine of the lab, which connect and disconnect networks; Check
// compares the outcome with a reference model of which nodes must reach each other.
package ilnphost
