// Package ilnphost is the ILNP host as a node of package sim: an ilnp core, a data plane
// and applications, many of which meet over access links with delay, loss, reordering and
// duplication, which come and go. One seed gives one course of events, to the last packet.
//
// Each node has a data plane that decides as bpf/ does: both run the cases of
// wire/xlate/decide. Here are only what its maps hold, and the packets that wait with
// the daemon. Numbered datagrams flow through it, so that what a handoff costs can be
// counted. So do the segments of TCP connections that retransmit (tcp.go), which a
// tcpassist.Machine on each node helps over moves and past firewalls that track
// connections (assist.go). All access links end at one router, which is without delay or
// loss of its own. Some hosts have no ILNP, and take part in flows only.
//
// A link may take only so many bytes a second of a host (rate.go), so that packets wait
// before it. It omits all other limits of bandwidth, full queues, congestion control, the
// checksums of data and the payload of transport protocols: those are for the lab, with real
// kernels. It is driven by tests and by the virtual engine of the lab, which say when networks come
// and go; Check compares the outcome with a reference model of who should be able to reach
// whom.
package ilnphost
