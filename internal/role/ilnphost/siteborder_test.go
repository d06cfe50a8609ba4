package ilnphost

import (
	"crypto/rand"
	"slices"
	"testing"

	"roam"
	"roam/nidkey"
	"roam/wire/ilnp"
)

func ephemeral(t *testing.T) nidkey.Key {
	t.Helper()
	var b [nidkey.KeyLen]byte
	rand.Read(b[:])
	k, err := nidkey.Ephemeral(b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealed is what a border with that key answers.
func sealed(t *testing.T, border nidkey.Key, asker nidkey.Public, entries ...ilnp.SiteEntry) ilnp.SiteNotice {
	t.Helper()
	secret, err := border.Shared(asker)
	if err != nil {
		t.Fatal(err)
	}
	n := ilnp.SiteNotice{Kind: ilnp.SiteAnswer, Asker: asker, Entries: entries}
	n.Seal(secret.Bytes())
	return n
}

// Only an answer to this very question, by a border whose key is known, counts.
func TestAnswerOfBorder(t *testing.T) {
	border, other, asked, before := ephemeral(t), ephemeral(t), ephemeral(t), ephemeral(t)
	borders := []nidkey.Public{ephemeral(t).Public, border.Public}
	if !isOfBorder(sealed(t, border, asked.Public), secretsWith(asked, borders)) {
		t.Error("the border's answer is refused")
	}
	changed := sealed(t, border, asked.Public)
	changed.Sequence++
	for name, n := range map[string]ilnp.SiteNotice{
		"another border's":              sealed(t, other, asked.Public),
		"one to an earlier question":    sealed(t, border, before.Public),
		"one that was changed":          changed,
		"one without a MAC":             {Kind: ilnp.SiteAnswer, Asker: asked.Public},
		"one by the asker's key itself": sealed(t, asked, asked.Public),
	} {
		if isOfBorder(n, secretsWith(asked, borders)) {
			t.Errorf("%s is taken", name)
		}
	}
	if isOfBorder(sealed(t, border, asked.Public), nil) {
		t.Error("without a border that is known an answer is taken")
	}
}

// Locators that nobody can have do not count, nor do more than a proof lists; while all providers
// are down, what was told before stays.
func TestUsableSites(t *testing.T) {
	const own, site roam.L64 = 0xfd00_0000_0001_0000, 0x2001_0db8_000a_0000
	n := ilnp.SiteNotice{Entries: []ilnp.SiteEntry{
		{Internal: own + 1<<16, Site: 0xfe80 << 48}, {Internal: own, Site: 0xff02 << 48},
		{Internal: own, Site: roam.DefaultSessionPrefix},
	}}
	for i := range roam.L64(mostOfSite + 2) {
		n.Entries = append(n.Entries, ilnp.SiteEntry{Internal: own, Site: site + i<<16})
	}
	sites := usableSites(n, roam.DefaultSessionPrefix)
	if len(sites) != 1 || len(sites[own]) != mostOfSite || sites[own][0] != site {
		t.Errorf("%v", sites)
	}
	at := &siteBorder{}
	at.learn(map[roam.L64][]roam.L64{own: {site}})
	at.learn(map[roam.L64][]roam.L64{})
	if !slices.Equal(at.sites[own], []roam.L64{site}) {
		t.Errorf("with all providers down: %v", at.sites)
	}
}
