// Package naming parses the text forms of a correspondent into records: the hosts file, and
// the line by which two hosts without DNS exchange their names.
//
// It implements the hosts file in the syntax of the papers and in a plain one, the pairing
// line with its checksum, and the table that maps names and Node Identifiers to records. It
// omits the DNS protocol, which internal/dnsio implements, and checks of locators that
// depend on the host, such as its session prefix. It is driven by internal/role/ilnphost,
// internal/dnsio, internal/doctor and cmd/roam.
package naming
