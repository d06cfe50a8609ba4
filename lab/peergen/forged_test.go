package peergen

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// Every kind is there, under both rules, with a nonce and without.
func TestForger(t *testing.T) {
	f := Forger{
		Random: rand.New(rand.NewPCG(1, 2)), Own: roam.ILV{L64: 0x2001_0db8_000e_0000, NID: 0xbad},
		Victims: []roam.ILV{{L64: 0x2001_0db8_000c_0001, NID: 0xc1}},
		Targets: []roam.ILV{{L64: 0x2001_0db8_000a_0001, NID: 0xa1}},
		Port:    7, UDPPort: 6740,
	}
	seen := map[string]bool{}
	for range 20_000 {
		b, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		c, err := ip6.Walk(b)
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		p, err := ilnpwire.ParseControl(b, f.UDPPort)
		if err != nil { // without a nonce there is one rule only
			seen["wrong sum"] = true
			continue
		}
		seen[fmt.Sprintf("protocol %d, nonce %v, in UDP %v", p.Proto, p.Nonce.Len, p.Encapsulated)] = true
		seen[fmt.Sprintf("type %d, over NIDs %v", p.Type, p.OverNIDs)] = true
		if p.Type == ilnpwire.TypeLocatorUpdate && c.Upper == ip6.ICMPv6 {
			lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
			if err != nil {
				t.Fatal(err)
			}
			seen[fmt.Sprintf("update %v, code %d, operation %d", lu.Form, lu.Code, lu.Operation)] = true
		}
	}
	if want := 1 + 3*3 + 3 + 7*2 + 1 + 2*(2+7); len(seen) < want-3 {
		t.Errorf("%d kinds, want about %d: %v", len(seen), want, seen)
	}
}
