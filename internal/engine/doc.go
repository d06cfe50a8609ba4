// Package engine runs the core of an ILNPv6 host against the real world: one
// goroutine feeds it what the network and the data plane report, carries out
// what it wants done, in order, and arms one timer.
//
// The engine decides nothing about the protocol; it holds first packets until
// their session exists, translates ICMPv6 errors by means of wire/xlate, and
// keeps the table of uplinks.
package engine
