package ilnp

import (
	"testing"
	"time"

	ilnpwire "roam/wire/ilnp"

	"roam"
)

func TestForeignStacksGetNoUDP(t *testing.T) {
	for name, packet := range map[string]func(b *bench) []byte{
		"over NIDs": func(b *bench) []byte { return overNIDs(t, b.update(netP, peerNonce, updateOf(entry(netP, 10, 300)))) },
		"form": func(b *bench) []byte {
			lu := updateOf(entry(netP, 10, 300))
			lu.Form = ilnpwire.FormLinux
			return b.update(netP, peerNonce, lu)
		},
		"every nonce": func(b *bench) []byte { return b.update(netP, peerNonce, updateOf(entry(netP, 10, 300))) },
	} {
		b := newBench(t, withUDP)
		b.prefix(1, netA, roam.Infinite)
		b.openOther(netP)
		b.receive(1, packet(b))
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, WithNonce: 1}})
		b.drain()
		b.forget()
		b.prefix(2, netB, roam.Infinite)
		for range 30 {
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, WithNonce: 1}})
			b.drain()
			b.pass(time.Second)
		}
		if n := len(b.sums(ilnpwire.TypeLocatorUpdate)); n < updateTries {
			t.Errorf("%s: %d updates", name, n)
		}
		if got := b.encapSent(); len(got) != 0 {
			t.Errorf("%s: %d messages in UDP", name, len(got))
		}
	}
}
