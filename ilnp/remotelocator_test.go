package ilnp

import (
	"slices"
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestLocatorsOfACorrespondentAreBounded: one that tells ever other locators does
// not fill our memory, and what it has told last, or uses, is there.
func TestLocatorsOfACorrespondentAreBounded(t *testing.T) {
	for name, form := range map[string]ilnpwire.LocatorUpdate{
		"replaced": {},
		"added":    {Form: ilnpwire.FormDraft, Code: ilnpwire.CodeAddSoft},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			next := netR
			for range 10 {
				lu := form
				lu.Locators = []ilnpwire.LocatorEntry{entry(netP, 1, 100)}
				for len(lu.Locators) < ilnpwire.MaxLocators {
					next += 1 << 16
					lu.Locators = append(lu.Locators, entry(next, 10, 100))
				}
				b.receive(1, b.update(netP, peerNonce, lu))
			}
			var kept []roam.L64
			for _, r := range b.Peers(b.now)[0].Locators {
				kept = append(kept, r.L64)
			}
			if len(kept) != maxRemotes {
				t.Errorf("%d locators kept, want %d", len(kept), maxRemotes)
			}
			if !slices.Contains(kept, next) {
				t.Error("the last one told is not among them")
			}
			b.wantTargets(netP)
		})
	}
}
