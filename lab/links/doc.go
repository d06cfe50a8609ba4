// Package links proves that sessions live on the links that people have, and
// leaves those alone that are not meant: Ethernet, flapping carriers, raw-IP
// modems, point-to-point links, bridges, macvlan, VLAN and bonds; several
// prefixes on one link and one on several; addresses from DHCPv6, from a
// provider or for privacy; routers that renumber, forget or die.
//
// It implements tests only. Each builds a mobile host, a correspondent and a
// router between them as network namespaces, runs the two binaries, moves a
// session over the link at hand under numbered datagrams, and says how many of
// those may be lost, phase by phase. What a kernel lacks is skipped by name. It
// omits Wi-Fi and cellular hardware, and the managers of networks that need a
// machine of their own. It is driven by `go test` as root.
package links
