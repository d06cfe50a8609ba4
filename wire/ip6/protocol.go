package ip6

import "strconv"

// protocolNames are common upper-layer protocols, as IANA's registry of protocol numbers
// calls them.
var protocolNames = map[uint8]string{
	4: "ipv4", TCP: "tcp", UDP: "udp", 33: "dccp", 41: "ipv6", 47: "gre", 50: "esp", 51: "ah", ICMPv6: "icmpv6",
	59: "none", 132: "sctp", 135: "mobility", 136: "udplite", 139: "hip", 140: "shim6",
}

// ProtocolName returns the name of an upper-layer protocol for people; its number where it
// has none here.
func ProtocolName(proto uint8) string {
	if name := protocolNames[proto]; name != "" {
		return name
	}
	return strconv.Itoa(int(proto))
}
