// Package dnsio is the only door to the DNS: a stub resolver on loopback that answers the
// names of correspondents with session addresses, and the management of resolv.conf.
//
// It implements answers from the table of package naming (AAAA, A, NID, L64 and PTR), the
// forwarding of every other question over UDP and TCP, and the replacement and restoration
// of resolv.conf. It omits a cache, validation, queries for NID and L64 records upstream,
// and dynamic update. It is driven by internal/role/ilnphost.
package dnsio
