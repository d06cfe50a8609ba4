package ilnphost

import (
	"crypto/rand"
	"maps"
	"slices"
	"testing"
	"time"

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
	if of, ok := borderOf(sealed(t, border, asked.Public), secretsWith(asked, borders)); !ok || of != border.Public {
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
		if _, ok := borderOf(n, secretsWith(asked, borders)); ok {
			t.Errorf("%s is taken", name)
		}
	}
	if _, ok := borderOf(sealed(t, border, asked.Public), nil); ok {
		t.Error("without a border that is known an answer is taken")
	}
}

// Of two borders that are named and answer on one link, the first one counts until it is silent for
// leaveBorder, or not named any more; so the host does not announce the locators of one and the other
// in turn.
func TestTwoBordersOnALink(t *testing.T) {
	first, second, asked := ephemeral(t), ephemeral(t), ephemeral(t)
	both := secretsWith(asked, []nidkey.Public{second.Public, first.Public})
	now := time.Unix(1000, 0)
	at := &siteBorder{}
	answers := func(border nidkey.Key) bool {
		if !at.answered && at.counts(now, border.Public) {
			at.answered, at.public = true, border.Public
			return true
		}
		return false
	}
	at.question(now, asked, both)
	if !answers(first) {
		t.Fatal("the first answer does not count")
	}
	for range 10 { // each notice of the second one makes a question
		now = now.Add(time.Minute)
		at.question(now, asked, both)
		if answers(second) || !answers(first) {
			t.Fatal("the border changes although it answers")
		}
	}
	at.question(now, asked, both)
	now = now.Add(leaveBorder - time.Second)
	at.question(now, asked, both)
	if answers(second) {
		t.Error("the border changes before it is silent for long")
	}
	now = now.Add(time.Second)
	at.question(now, asked, both)
	if !answers(second) || answers(first) {
		t.Error("a silent border stays")
	}
	at.question(now, asked, secretsWith(asked, []nidkey.Public{first.Public}))
	if !answers(first) {
		t.Error("a border stays that is not named any more")
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

// After a restart the border of one link answers before that of another: what that one had told stays
// until it answers.
func TestBordersOfSeveralLinksAfterARestart(t *testing.T) {
	const ownA, ownB, siteA, siteB, siteC roam.L64 = 0xfd00_0000_0001_0000, 0xfd00_0000_0002_0000,
		0x2001_0db8_000a_0000, 0x2001_0db8_000b_0000, 0x2001_0db8_000c_0000
	links := []roam.LinkID{1, 2}
	b := &siteBorders{links: make(map[roam.LinkID]*siteBorder)}
	restored := map[roam.L64][]roam.L64{ownA: {siteA}, ownB: {siteB}}
	now := time.Now()
	if !b.waits(now, links) {
		t.Error("no border has answered, and none is waited for")
	}
	for _, l := range links {
		b.on(l).question(now, nidkey.Key{}, nil)
	}
	if b.waits(now.Add(leaveBorder), links) {
		t.Error("links whose questions stay unanswered have borders to wait for")
	}
	b.on(1).learn(map[roam.L64][]roam.L64{ownA: {siteC}})
	want := map[roam.L64][]roam.L64{ownA: {siteC}, ownB: {siteB}}
	if got := b.whole(restored); !b.waits(now, links) || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("after the first answer %v, want %v", got, want)
	}
	b.on(2).learn(map[roam.L64][]roam.L64{ownB: {siteA}})
	want[ownB] = []roam.L64{siteA}
	if got := b.whole(nil); b.waits(now, links) || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("after both answers %v, want %v", got, want)
	}
}
