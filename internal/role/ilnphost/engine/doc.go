// Package engine runs the core of an ILNPv6 host against the real world, on a loop of
// internal/loop: it feeds the core what the network and the data plane report, and carries
// out what the core wants done, in order.
//
// The engine decides nothing about the protocol. It feeds ilnp/slowpath with the packets
// that the data plane hands over, and tcpassist with lists of TCP connections. Its parts
// are the table of uplinks and what is sent on them (uplinks), the paths that policies of
// the host obstruct (policy), the files of sessions (savers), and TCP connections after a
// move (assistant). It takes the time from its loop.
package engine
