// Package interop emulates ILNPv6 hosts that run other stacks than Roam, so that
// tests can run the real roamd against them.
//
// It implements a small host on a TAP device, written from the texts of RFC 6740 to
// 6744 and the published descriptions of two kernels with ILNP: Nonce option, TCP and
// UDP checksums of either rule, Locator Updates of either form and their
// acknowledgements, the Neighbor Discovery that a router needs, and echo services
// over UDP and over a minimal TCP. Each difference between two stacks is a field of
// Stack; a Profile describes a stack that exists.
//
// It shares no code with ilnp, wire or bpf, so that it cannot repeat their
// misreadings of an RFC. It omits security, fragments and congestion control. It is
// driven by its own tests and by lab/interop/suite.
package interop
