// Package links tests that sessions survive on the links that people have, and that Roam
// leaves other links alone: Ethernet, flapping carriers, raw-IP modems, point-to-point
// links, bridges, macvlan, VLAN and bonds; several prefixes on one link and one on several;
// addresses from DHCPv6, from a provider or for privacy; routers that renumber, forget or
// die.
//
// It implements tests only. Each builds a mobile host, a correspondent and a router between
// them as network namespaces, runs the two binaries, moves a session with numbered
// datagrams over the link under test, and bounds their loss in each phase. A test that
// needs a missing kernel feature skips with its name. It omits Wi-Fi and cellular hardware,
// and network managers that need a machine of their own. It is driven by `go test` as root.
package links
