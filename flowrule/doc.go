// Package flowrule says which of the user's rules a flow follows, and how a rule divides
// packets among links. A rule matches the peer, the cgroup of the program, ports, protocol
// and DSCP; the first rule that matches decides. A flow that no rule matches is sent as the
// session sends by itself.
//
// Implements shares from locator preferences, normalised for any number of links. Omits what
// needs measurement: the owner orders paths by delay.
//
// Driven by internal/config, which checks rules with it.
package flowrule
