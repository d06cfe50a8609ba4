// Package suite tests Roam against one other ILNPv6 stack, case by case: set-up from both
// sides over TCP, UDP and ping, both checksum rules, moves of either side and of both,
// duality, reboots, and the other stack with ILNP disabled.
//
// A case is a network of its own: a host with the real roamd, a router, and on a link of
// the router the target, either a scripted host (lab/interop) or a foreign one that this
// machine reaches by a link. The verdict depends on the data that applications received and
// on whether the packets were ILNP's. It omits performance. It is driven by cmd/roam-lab,
// lab/runner and tests.
package suite
