// Package observer is the core of a host that counts what its links carry, and changes
// nothing: packets and bytes by upper-layer protocol, Nonce option (RFC 6744 §2), Locator
// Update (RFC 6743) and state of the checksum, in both directions. The programs in
// bpf/observer count; a Core decides when to read them, makes rates of two readings, and
// reports the first Locator Update of each link and direction.
//
// Its methods are those of any core: Handle... report what happened, Poll returns what
// to do, PollTimeout and HandleTimeout its time.
//
// Omitted: addresses and ports; Locator Updates in UDP, which are counted as UDP; whether
// a checksum is valid. It is driven by internal/role/observer and by tests in sim.
package observer
