// Package suite holds Roam against one other ILNPv6 stack, case by case: set-up
// from both sides over TCP, UDP and ping, both checksum rules, moves of either
// side and of both, duality, reboots, and the other stack with ILNP disabled.
//
// A case is a network of its own: a host with the real roamd, a router, and on a
// link of the router the target, a scripted host (package interop) or a foreign
// one that this machine reaches by a link. Each is judged by what applications
// received and by whether the packets were ILNP's. It omits figures: it tells
// what works, not how fast. The command `roam-lab interop` and tests drive it.
package suite
