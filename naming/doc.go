// Package naming turns the written forms of a correspondent into records: the
// hosts file, and the line by which two hosts without DNS make each other
// known.
//
// It implements the hosts file in the syntax of the papers and in a plain one,
// the pairing line with its checksum, and the table that names and Node
// Identifiers are looked up in. It omits the DNS itself, which internal/dnsio
// speaks, and judgement on locators that depends on the host, such as its
// session prefix. The daemon and cmd/roam drive it.
package naming
