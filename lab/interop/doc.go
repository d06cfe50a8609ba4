// Package interop plays ILNPv6 hosts with other stacks than Roam, so that tests
// can hold the real roamd against them.
//
// It implements, on a TAP device and from the texts of RFC 6740 to 6744 and the
// published descriptions of two kernels with ILNP, a host of a few hundred
// lines: Nonce option, TCP and UDP checksums of either rule, Locator Updates of
// either form and their acknowledgements, Neighbour Discovery as far as a router
// asks for it, an echo service over UDP and a TCP that is just enough for one.
// What two stacks do differently is a field of Stack; a Profile is a stack that is
// known, with all that is known of it.
//
// It shares no code with ilnp, wire or bpf: a misreading there would be made
// twice. It omits security, fragments, congestion control and everything that
// a test does not need. Tests of this package and package suite drive it.
package interop
