package ilnphost

import (
	"testing"

	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// A SYN with our mark and the correspondent's nonce is for the daemon, from
// wherever the session's packets may come; any other SYN is the stack's.
func TestInboundResync(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	segment := func(n ilnp.Nonce, answer bool) []byte {
		o := ilnpwire.Resync{From: 4000, To: 22, Seq: 7, Answer: answer, Nonce: n}
		return mustPacket(t)(o.Build(at(there, theirs), at(here, ours)))[ip6.HeaderLen:]
	}
	unmarked := segment(theirNonce, false)
	unmarked[26] ^= 1
	handed, events := counts{"control_handed_over": 1}, []EventKind{Control}
	long := ilnp.Nonce{Len: 12, Bytes: [12]byte{0x71, 0x08, 0xde, 0x2b}}
	r.check([]verdictCase{
		{"opening", fromPeer(there, none, ip6.TCP, segment(theirNonce, false)), shot, handed, events},
		{"with the option", fromPeer(there, theirNonce, ip6.TCP, segment(theirNonce, false)), shot, handed, events},
		{"answer", fromPeer(there, none, ip6.TCP, segment(theirNonce, true)), shot, handed, events},
		{"same beginning, for the daemon to see", fromPeer(there, none, ip6.TCP, segment(long, true)), shot, handed, events},
		{"wrong nonce", fromPeer(there, none, ip6.TCP, segment(wrongNonce, false)), passOn, delivered, nil},
		{"another mark", fromPeer(there, none, ip6.TCP, unmarked), passOn, delivered, nil},
		{"from a strange place", fromPeer(else1, none, ip6.TCP, segment(theirNonce, false)), shot, counts{"drop_unknown_locator": 1}, nil},
	})
}
