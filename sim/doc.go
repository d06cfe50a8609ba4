// Package sim is a network in virtual time that drives any core. One seed gives one
// course of events, to the last packet.
//
// It implements links with delay, jitter, loss, duplication, a rate, a queue, an MTU and
// cuts, for each direction and for pairs of addresses; routers that forward by longest prefix
// match, decrement hop limits and send ICMPv6 errors; hosts with plain IPv6. Anything else in
// the network is a Node: it receives packets on its links, names its next deadline,
// and is polled for packets, as the cores are.
//
//	Node --- Link --- Router --- Link --- Router --- Link --- Host
//	            |
//	          Watch: captures the packets of one end
//
// It omits link layers, Neighbor Discovery, and the rate limit of ICMPv6 errors: the lab
// has those, with real kernels. It is driven by tests, and by the kinds of nodes below it,
// such as ilnphost.
package sim
