// Package hostnet is the only door between Roam and netlink. It turns what the
// kernel says of links, addresses, prefixes, default routes and neighbours
// into one ordered stream of events for the ILNP core, keeps prefix:NID on
// every uplink, and makes the device of the session addresses.
//
// It implements the host side of RFC 6741 §3.1 (Locators come from Router
// Advertisements), whoever manages the host's addresses: the kernel, a network
// manager, DHCPv6 or a file. It polls nothing, and leaves forwarding as it is;
// on uplinks that forward it has the kernel take Router Advertisements.
//
// What Roam changes of the host is desired state: Set says what a role wants, and
// hostnet's own wishes go the same way (apply.go). Every change is in a journal
// before it is made, so that a later process can take it back.
//
// prefix:NID is deprecated, so that no plain IPv6 starts from it as long as the
// host has another address past duplicate detection, on whatever link; in the
// first second on its only network it has none, and the kernel may take it.
//
// It omits Locators shorter or longer than 64 bits, IPv4, and links that other
// network namespaces own.
//
// Driven by the daemon, which calls Open, Setup and Start and then reads
// Events; by roles, which call Set; and by `roam down`, which calls Restore. The
// rules that turn kernel state into events (table.go, picture.go) and desired
// state into steps (package desired) have no effects.
package hostnet
