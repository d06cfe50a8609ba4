// Package sim is a network in virtual time that drives any core. One seed gives one
// course of events, to the last packet.
//
// It implements links with delay, jitter, loss, duplication, a rate, a queue, an MTU and
// cuts, for each direction and for pairs of addresses; routers that forward by the longest
// prefix, count hops and answer with ICMPv6 errors; hosts with plain IPv6. Whatever else stands
// in the network is a Node: it receives packets on its links, names its next deadline,
// and is polled for packets, as the cores are.
//
//	Node --- Link --- Router --- Link --- Router --- Link --- Host
//	            |
//	          Watch: sees what one end sends and receives
//
// It omits link layers, neighbour discovery, and the limit on the rate of ICMPv6 errors:
// those are for the lab, with real kernels. It is driven by tests, and by the kinds of
// nodes below it, of which ilnphost is one.
package sim
