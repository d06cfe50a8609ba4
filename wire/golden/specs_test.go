package golden_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// specs lists the golden cases.
func specs(t *testing.T) []spec {
	return slices.Concat(outwardSpecs(t), inwardSpecs(t), amongSpecs(t), controlSpecs(t))
}

var (
	synOptions = []byte{2, 4, 0x05, 0xa0, 4, 2, 8, 10, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 1, 3, 3, 7}
	ackOptions = []byte{1, 1, 8, 10, 0x11, 0x22, 0x33, 0x99, 0x55, 0x66, 0x77, 0x88}
)

const (
	flagSYN = 0x02
	flagPSH = 0x18 // with ACK
)

func outwardSpecs(t *testing.T) []spec {
	syn, data := tcp(flagSYN, synOptions, nil), tcp(flagPSH, ackOptions, text(1001))
	ping := upper(t, ilnp.Echo{Request: true, ID: 77, Seq: 1, Data: text(56)})
	const out = golden.Outward
	return []spec{
		{name: "tcp-syn", description: "TCP SYN with options, nonce of 4 bytes", direction: out, proto: ip6.TCP, upper: syn},
		{name: "tcp-data", description: "TCP segment of odd length, no nonce due", direction: out, proto: ip6.TCP,
			upper: data, edit: noNonce},
		{name: "tcp-data-nonce", description: "TCP segment of odd length with nonce", direction: out,
			proto: ip6.TCP, upper: data},
		{name: "nonce-12", description: "TCP SYN with a nonce of 12 bytes", direction: out, proto: ip6.TCP,
			upper: syn, edit: longNonce},
		{name: "udp", description: "UDP datagram", direction: out, proto: ip6.UDP, upper: udp(text(333))},
		{name: "udp-zero", description: "UDP datagram without checksum: zero stays zero", direction: out, proto: ip6.UDP,
			upper: udp(text(40)), raw: true},
		{name: "udp-ffff", description: "UDP datagram whose checksum becomes zero, hence 0xffff", direction: out,
			proto: ip6.UDP, upper: ffff(t)},
		{name: "udp-no-nonce", description: "UDP datagram, no nonce due", direction: out, proto: ip6.UDP,
			upper: udp(text(332)), edit: noNonce},
		{name: "echo", description: "ICMPv6 echo request", direction: out, proto: ip6.ICMPv6, upper: ping},
		{name: "fragment-first", description: "first fragment of a UDP datagram: nonce ahead of the Fragment header",
			direction: out,
			exts:      []ext{fragment(0, true)}, proto: ip6.UDP, upper: firstPart(t), raw: true},
		{name: "fragment-later", description: "later fragment: no checksum to adjust", direction: out,
			exts: []ext{fragment(512, false)}, proto: ip6.UDP, upper: text(300), raw: true},
		{name: "hop-by-hop", description: "Hop-by-Hop header stays first, the nonce goes behind it", direction: out,
			exts: []ext{hopByHop()}, proto: ip6.UDP, upper: udp(text(64))},
		{name: "hop-by-hop-no-nonce", description: "Hop-by-Hop header, no nonce due", direction: out,
			exts: []ext{hopByHop()}, proto: ip6.UDP, upper: udp(text(64)), edit: noNonce},
		{name: "destination-options", description: "the application's Destination Options header stands behind the nonce's",
			direction: out,
			exts:      []ext{destOptions()}, proto: ip6.UDP, upper: udp(text(65))},
		{name: "rfc6741-tcp", description: "TCP under the rule that counts locators as zero", direction: out, proto: ip6.TCP,
			upper: syn, edit: oldRule},
		{name: "rfc6741-udp", description: "UDP under the rule that counts locators as zero", direction: out, proto: ip6.UDP,
			upper: udp(text(90)), edit: oldRule},
		{name: "rfc6741-echo", description: "ICMPv6 keeps the ordinary checksum under either rule", direction: out,
			proto: ip6.ICMPv6, upper: ping, edit: oldRule},
		{name: "icmp-rfc6741-echo", description: "ICMPv6 to a correspondent that wants it over NIDs, too", direction: out,
			proto: ip6.ICMPv6, upper: ping, edit: icmpRule},
		{name: "handle-icmp-rfc6741", description: "the same, where the remote handle is not the remote NID", direction: out,
			proto: ip6.ICMPv6, upper: ping,
			edit: func(e *xlate.Entry) { handles(e); icmpRule(e) }},
		{name: "handle", description: "the remote handle is not the remote NID", direction: out, proto: ip6.TCP,
			upper: data, edit: handles},
		{name: "handle-rfc6741", description: "handle and old rule together", direction: out, proto: ip6.TCP, upper: syn,
			edit: func(e *xlate.Entry) { handles(e); oldRule(e) }},
		{name: "udp-lite", description: "UDP-Lite adjusts like UDP", direction: out, proto: ip6.UDPLite,
			upper: lite(), raw: true},
		{name: "other-transport", description: "an experimental protocol: only the addresses change", direction: out,
			proto: 253, upper: text(48), raw: true},
	}
}

func inwardSpecs(t *testing.T) []spec {
	syn, data := tcp(flagSYN, synOptions, nil), tcp(flagPSH, ackOptions, text(1001))
	reply := upper(t, ilnp.Echo{ID: 77, Seq: 1, Data: text(56)})
	const in = golden.Inward
	return []spec{
		{name: "in-tcp-syn", description: "TCP SYN: the nonce and its header go", direction: in, proto: ip6.TCP, upper: syn},
		{name: "in-tcp-data", description: "TCP segment without nonce", direction: in, proto: ip6.TCP,
			upper: data, edit: noNonce},
		{name: "in-nonce-12", description: "TCP segment with a nonce of 12 bytes", direction: in, proto: ip6.TCP,
			upper: data, edit: longNonce},
		{name: "in-udp", description: "UDP datagram", direction: in, proto: ip6.UDP, upper: udp(text(333))},
		{name: "in-udp-zero", description: "UDP datagram without checksum: zero stays zero", direction: in, proto: ip6.UDP,
			upper: udp(text(40)), raw: true},
		{name: "in-echo-reply", description: "ICMPv6 echo reply with nonce", direction: in, proto: ip6.ICMPv6, upper: reply},
		{name: "in-fragment-first", description: "first fragment with nonce", direction: in,
			exts: []ext{fragment(0, true)}, proto: ip6.UDP, upper: firstPart(t), raw: true},
		{name: "in-fragment-later", description: "later fragment with nonce", direction: in,
			exts: []ext{fragment(512, false)}, proto: ip6.UDP, upper: text(300), raw: true},
		{name: "in-hop-by-hop", description: "nonce behind a Hop-by-Hop header, which moves up", direction: in,
			exts: []ext{hopByHop()}, proto: ip6.UDP, upper: udp(text(64))},
		{name: "in-rfc6741-tcp", description: "TCP under the rule that counts locators as zero", direction: in,
			proto: ip6.TCP, upper: data, edit: oldRule},
		{name: "in-ordinary-udp", description: "a peer that counts locators as zero answers without nonce, by the " +
			"ordinary rule", direction: in,
			proto: ip6.UDP, upper: udp(text(90)), edit: bareOldRule, foreign: true},
		{name: "in-ordinary-syn", description: "such a peer begins as plain IPv6", direction: in,
			proto: ip6.TCP, upper: syn, edit: bareOldRule, foreign: true},
		{name: "in-rfc6741-bare", description: "such a peer leaves the nonce out and keeps its rule", direction: in,
			proto: ip6.UDP, upper: udp(text(90)), edit: bareOldRule},
		{name: "in-icmp-rfc6741", description: "echo reply summed over NIDs, which its nonce permits", direction: in,
			proto: ip6.ICMPv6, upper: reply, edit: icmpRule},
		{name: "in-icmp-rfc6741-12", description: "the same with a nonce of 12 bytes, odd length, and a handle",
			direction: in, proto: ip6.ICMPv6,
			upper: upper(t, ilnp.Echo{ID: 77, Seq: 1, Data: text(333)}), edit: func(e *xlate.Entry) {
				handles(e)
				longNonce(e)
				icmpRule(e)
			}},
		{name: "in-handle", description: "the remote handle is not the remote NID", direction: in, proto: ip6.TCP,
			upper: data, edit: handles},
	}
}

func controlSpecs(t *testing.T) []spec {
	const out = golden.Outward
	lu := spec{direction: out, proto: ip6.ICMPv6, class: ilnp.TrafficClassCS6}
	rfc, ack, draft, long, linux := lu, lu, lu, lu, lu
	rfc.name, rfc.description, rfc.upper = "lu", "Locator Update, 12-byte entries", upper(t, update(false))
	ack.name, ack.description, ack.upper = "lu-ack", "Locator Update acknowledgement", upper(t, update(false).Ack())
	draft.name, draft.description, draft.upper = "lu-draft", "Locator Update in the draft form, 16-byte entries",
		upper(t, update(true))
	long.name, long.description, long.upper, long.edit = "lu-nonce-12", "Locator Update with a nonce of 12 bytes",
		upper(t, update(false)), longNonce
	le := update(false)
	le.Form = ilnp.FormLinux
	linux.name, linux.description, linux.upper, linux.edit = "lu-linux-rfc6741", "Locator Update as a Linux kernel has "+
		"it: code 0, 16-byte entries, over NIDs", upper(t, le), icmpRule
	return []spec{rfc, ack, draft, long, linux}
}

func noNonce(e *xlate.Entry)     { e.Nonce = ilnp.Nonce{} }
func longNonce(e *xlate.Entry)   { e.Nonce = nonce(12) }
func oldRule(e *xlate.Entry)     { e.Rule = xlate.RuleRFC6741 }
func bareOldRule(e *xlate.Entry) { oldRule(e); noNonce(e) }
func icmpRule(e *xlate.Entry)    { e.ICMPRule = xlate.RuleRFC6741 }
func handles(e *xlate.Entry)     { e.RemoteAlias = 0x0200_0000_0000_0001 }

// destOptions is a header of the application's own with an unknown option.
func destOptions() ext {
	return ext{proto: ip6.DestOpts, body: []byte{0, 0, 0x1e, 4, 1, 2, 3, 4}}
}

// firstPart is the first 512 bytes of a UDP datagram of 812, whose checksum,
// over parts that are not all here, is whatever the sender says.
func firstPart(t *testing.T) []byte {
	t.Helper()
	e := entry()
	whole := packet(t, session(e, true), session(e, false), nil, ip6.UDP, udp(append(text(504), text(300)...)), true)
	return whole[ip6.HeaderLen : ip6.HeaderLen+512]
}

// ffff is a datagram whose checksum over the wire addresses is zero.
func ffff(t *testing.T) []byte {
	t.Helper()
	e := entry()
	d := udp(append(text(32), 0, 0))
	p := packet(t, wire(e, true), wire(e, false), nil, ip6.UDP, d, true)
	// Adding its own complement to a sum makes it 0xffff, whose complement is 0.
	copy(d[len(d)-2:], p[ip6.HeaderLen+6:ip6.HeaderLen+8])
	return d
}

// lite is a UDP-Lite packet that covers its header only, valid for the session
// addresses.
func lite() []byte {
	e := entry()
	d := udp(text(50))
	binary.BigEndian.PutUint16(d[4:], 8) // coverage, in place of UDP's length
	sum := ip6.Checksum(session(e, true).Addr(), session(e, false).Addr(), ip6.UDPLite, d[:8])
	// The pseudo-header holds the whole length, of which 8 is counted already.
	sum = ip6.Adjust(sum, 8, uint16(len(d)))
	binary.BigEndian.PutUint16(d[6:], sum)
	return d
}
