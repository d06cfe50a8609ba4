// Package sim is a network in virtual time: it drives many ilnp cores over
// links with delay, loss, reordering and duplication, which come and go. One
// seed gives one course of events, to the last packet.
//
// Each node has a data plane that does what bpf/ does, as far as it matters to
// the core: the choice of a path, the rules of the nonce, pending peers, hints, the
// reflection of probes, and the observations that the core lives on. Numbered
// datagrams flow through it, so that what a handoff costs can be counted. So do the
// segments of TCP connections that retransmit (tcp.go), which a tcpassist.Machine on
// each node helps over moves and past firewalls that track connections (assist.go).
// The network between the access links is without delay or loss of its own.
//
// It omits bandwidth, queues, congestion control and the payload of transport
// protocols: those are for the lab, with real kernels. It is driven by tests, which say when networks come and
// go; Check compares the outcome with a reference model of who should be able
// to reach whom.
package sim
