// Package dnsio is the door to the DNS: a stub resolver on loopback that gives
// applications the session addresses of correspondents, and the care of
// resolv.conf.
//
// It implements answers from the table of package naming (AAAA, A, NID, L64
// and PTR), the forwarding of every other question over UDP and TCP, and the
// taking over and giving back of resolv.conf. It omits a cache, validation,
// looking for NID and L64 records upstream, and dynamic update. The daemon
// drives it.
package dnsio
