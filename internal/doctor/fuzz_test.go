package doctor

import (
	"net/netip"
	"testing"
)

// FuzzFirewall reads any rule sets, as other programs print them: a diagnosis
// ends, and never in a panic.
func FuzzFirewall(f *testing.F) {
	session := netip.MustParsePrefix("fd69:6c6e:7000:2627::/64")
	f.Add(chained("input", "drop"), "-P INPUT DROP\n-A INPUT -s fc00::/7 -j ACCEPT\n")
	f.Add(`{"nftables":[{"set":{"table":"t","name":"s","elem":[{"prefix":{"addr":"fc00::","len":700}}]}}]}`, "-A")
	f.Add(`{"nftables":[{"rule":{"expr":[{"match":{"op":"==","left":{"payload":{"protocol":"ip6","field":"saddr"}},"right":"@s"}},{"accept":null}]}}]}`, "*filter\n-A INPUT -s ::/x -j")
	f.Add(withChain(chained("output", "drop", protoMap), "in", typeSet+`{"goto": {"target": "c"}}`),
		"*filter\n:OUTPUT DROP [0:0]\n:a - [0:0]\n-A OUTPUT ! -o lo -j a\n-A a -m comment --comment \"x \\\" y\" -g a\n")
	f.Fuzz(func(_ *testing.T, nft, save string) {
		var e examination
		parseNft(nft, save).judge(&e, session, []string{"wlan0"})
		judgeIPTables(&e, save, session, []string{"wlan0"})
		TrustedByNft([]byte(nft), session)
		TrustedByIPTables(save, session)
	})
}

// FuzzLinks reads any output of ip -j: what is not understood is passed over.
func FuzzLinks(f *testing.F) {
	f.Add(`[{"ifname":"eth0","mtu":1500,"flags":["UP"],"addr_info":[{"family":"inet6","local":"2001:db8::1","prefixlen":64,"scope":"global"}]}]`, `[{"dst":"default","dev":"eth0"}]`)
	f.Add(`[{"addr_info":[{"family":"inet6","local":"::1","prefixlen":-1,"scope":"global"}]}]`,
		`[{"metrics":[{"mtu":-1}]}]`)
	f.Fuzz(func(_ *testing.T, addresses, routes string) {
		links(addresses, routes)
		setKinds([]Link{{Name: "eth0"}}, addresses)
		PathMTU(routes)
		sessionRoutes(routes)
	})
}
