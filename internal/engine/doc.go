// Package engine runs the core of an ILNPv6 host against the real world: one
// goroutine feeds it what the network and the data plane report, carries out
// what it wants done, in order, and arms one timer.
//
// The engine decides nothing about the protocol. It feeds ilnp/slowpath with the packets
// that the data plane hands over, and tcpassist with lists of TCP connections, and keeps
// the table of uplinks. It reads the clock once for each event.
package engine
