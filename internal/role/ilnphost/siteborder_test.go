package ilnphost

import (
	"crypto/rand"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/hostnet"
	"roam/internal/rawio"
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

// bordered is a host with two links, and its core; it notes what it is given and what it sends.
type bordered struct {
	siteBorders
	keys  []nidkey.Public // of the borders that it names
	named bool
	known map[roam.L64][]roam.L64 // what the core has of the site
	given int                     // how often that was given
	shown []roam.LinkID           // where nonces are to be sent
	anew  int                     // of these, for a border that began anew
	asked []nidkey.Public         // the key of each question, and
	on    []roam.LinkID           // where it went
	links map[roam.LinkID]hostnet.Uplink
}

func newBordered(borders ...nidkey.Key) *bordered {
	b := &bordered{named: len(borders) > 0, links: map[roam.LinkID]hostnet.Uplink{1: {Up: true}, 2: {Up: true}}}
	for _, k := range borders {
		b.keys = append(b.keys, k.Public)
	}
	b.siteBorders = siteBorders{
		socket: &rawio.SiteNotices{}, host: b, core: b, log: slog.New(slog.DiscardHandler),
		links: make(map[roam.LinkID]*siteBorder),
		send: func(link roam.LinkID, to netip.Addr, n ilnp.SiteNotice) error {
			if n.Kind == ilnp.SiteRequest && to == rawio.AllRouters {
				b.asked, b.on = append(b.asked, n.Asker), append(b.on, link)
			}
			return nil
		},
	}
	return b
}

func (b *bordered) uplinks() map[roam.LinkID]hostnet.Uplink { return b.links }
func (b *bordered) borderKeys() []nidkey.Public             { return b.keys }
func (b *bordered) namesBorders() bool                      { return b.named }
func (b *bordered) sessionPrefix() roam.L64                 { return roam.DefaultSessionPrefix }
func (b *bordered) Sites() map[roam.L64][]roam.L64          { return maps.Clone(b.known) }
func (b *bordered) HandleBorder(_ time.Time, link roam.LinkID, anew bool) {
	if b.shown = append(b.shown, link); anew {
		b.anew++
	}
}
func (b *bordered) HandleSite(_ time.Time, s map[roam.L64][]roam.L64) {
	b.known, b.given = s, b.given+1
}

// from is a notice that came from a link.
func from(link roam.LinkID, n ilnp.SiteNotice) rawio.SiteNotice {
	return rawio.SiteNotice{SiteNotice: n, Link: link}
}

const (
	ownA, ownB          roam.L64 = 0xfd00_0000_0001_0000, 0xfd00_0000_0002_0000
	siteA, siteB, siteC roam.L64 = 0x2001_0db8_000a_0000, 0x2001_0db8_000b_0000, 0x2001_0db8_000c_0000
)

// Of two borders that are named and answer on one link, the first one counts until it is silent for
// leaveBorder, or not named any more; so the host does not announce the locators of one and the other
// in turn.
func TestTwoBordersOnALink(t *testing.T) {
	first, second := ephemeral(t), ephemeral(t)
	b := newBordered(second, first)
	now := time.Unix(1000, 0)
	// answers reports whether the host announces what that border says to the question that is open.
	answers := func(border nidkey.Key, site roam.L64) bool {
		before := b.given
		b.handle(now, from(1, sealed(t, border, b.asked[len(b.asked)-1], ilnp.SiteEntry{Internal: ownA, Site: site})))
		if b.given == before {
			return false
		}
		if !slices.Equal(b.known[ownA], []roam.L64{site}) {
			t.Errorf("the core has %v, want %v", b.known, site)
		}
		return true
	}
	b.ask(now, 1)
	if !answers(first, siteA) {
		t.Fatal("the first answer does not count")
	}
	if answers(first, siteC) {
		t.Error("a second answer to one question counts")
	}
	for range 10 { // each notice of the second one makes a question
		now = now.Add(time.Minute)
		b.ask(now, 1)
		if answers(second, siteB) || !answers(first, siteA) {
			t.Fatal("the border changes although it answers")
		}
	}
	b.ask(now.Add(time.Second), 1)
	now = now.Add(leaveBorder)
	b.ask(now, 1)
	if answers(second, siteB) {
		t.Error("the border changes before it is silent for long")
	}
	now = now.Add(time.Second)
	b.ask(now, 1)
	if !answers(second, siteB) {
		t.Error("a silent border stays")
	}
	b.ask(now.Add(time.Second), 1)
	if answers(first, siteA) {
		t.Error("the border that was silent counts again")
	}
	b.keys = []nidkey.Public{first.Public}
	b.ask(now.Add(2*time.Second), 1)
	if !answers(first, siteA) {
		t.Error("a border stays that is not named any more")
	}
}

// What nobody asked for, what another border says, and what comes from a link that is no uplink, changes
// nothing. A notice has nonces sent every five seconds at most, and asks anew where its number is new.
func TestNoticesOfABorder(t *testing.T) {
	border, other := ephemeral(t), ephemeral(t)
	b := newBordered(border)
	now := time.Unix(1000, 0)
	entry := ilnp.SiteEntry{Internal: ownA, Site: siteA}
	b.handle(now, from(1, sealed(t, border, other.Public, entry)))
	b.handle(now, from(3, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: 7}))
	if b.given != 0 || len(b.asked) != 0 || len(b.shown) != 0 {
		t.Fatalf("given %d, asked %d, shown %v", b.given, len(b.asked), b.shown)
	}
	for range 2 {
		b.handle(now, from(1, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: 7}))
	}
	if len(b.asked) != 1 || !slices.Equal(b.shown, []roam.LinkID{1}) {
		t.Fatalf("asked %d, shown %v", len(b.asked), b.shown)
	}
	b.handle(now, from(2, sealed(t, border, b.asked[0], entry)))
	b.handle(now, from(1, sealed(t, other, b.asked[0], entry)))
	if b.given != 0 {
		t.Fatal("an answer from another link or another border counts")
	}
	answer := ilnp.SiteNotice{Kind: ilnp.SiteAnswer, Asker: b.asked[0], Sequence: 7, Entries: []ilnp.SiteEntry{entry}}
	secret, err := border.Shared(b.asked[0])
	if err != nil {
		t.Fatal(err)
	}
	answer.Seal(secret.Bytes())
	b.handle(now, from(1, answer))
	for range 2 { // the second one has effect
		now = now.Add(showNonces/2 + 1)
		b.handle(now, from(1, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: 7}))
	}
	b.handle(now, from(1, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: 7}))
	if b.given != 1 || len(b.asked) != 1 || len(b.shown) != 2 {
		t.Errorf("given %d, asked %d, shown %v", b.given, len(b.asked), b.shown)
	}
	b.handle(now, from(1, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: 8}))
	if len(b.asked) != 2 {
		t.Error("a new number is not asked about")
	}
}

// A notice whose number is less than the latest one, or greater by more than a border can have changed, is of a
// border that began anew. The core gets that once, with the next notice that has effect.
func TestBorderBeginsAnew(t *testing.T) {
	const begun = 1_000_000_000_000_000_000 // in ns, as a border's first number
	b := newBordered()
	now := time.Unix(1000, 0)
	notice := func(link roam.LinkID, sequence uint64, want int) {
		t.Helper()
		b.handle(now, from(link, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: sequence}))
		if b.anew != want {
			t.Errorf("number %d on link %d: %d have begun anew, want %d", sequence, link, b.anew, want)
		}
	}
	notice(1, begun, 0)
	now = now.Add(showNonces)
	notice(1, begun+3, 0)                 // changes
	notice(1, begun+uint64(time.Hour), 0) // too early to have effect
	notice(2, begun, 0)                   // another border
	now = now.Add(showNonces)
	notice(1, begun+uint64(time.Hour), 1)
	notice(2, begun, 1)
	now = now.Add(showNonces)
	notice(1, begun, 2) // its clock was set back
	now = now.Add(showNonces)
	notice(1, begun, 2)
	other := from(1, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: begun + uint64(time.Hour)})
	other.From = netip.MustParseAddr("fe80::2")
	for range 5 { // two borders on one link, by turns
		now = now.Add(showNonces)
		b.handle(now, other)
		now = now.Add(showNonces)
		notice(1, begun, 2)
	}
}

// The core keeps what it knew of the site until the border of each link has answered, or has left its
// questions unanswered for long; a link that went, or a host that names no border any more, ends that.
func TestTell(t *testing.T) {
	border := ephemeral(t)
	b := newBordered(border)
	b.known = map[roam.L64][]roam.L64{ownA: {siteA}, ownB: {siteB}} // of before a restart
	now := time.Unix(1000, 0)
	is := func(when string, want map[roam.L64][]roam.L64) {
		t.Helper()
		if !maps.EqualFunc(b.known, want, slices.Equal) {
			t.Errorf("%s: %v, want %v", when, b.known, want)
		}
	}
	b.tick(now)
	if b.given != 0 || len(b.asked) != 2 {
		t.Fatalf("at the start given %d, asked %d", b.given, len(b.asked))
	}
	first := slices.Index(b.on, 1)
	b.handle(now, from(1, sealed(t, border, b.asked[first], ilnp.SiteEntry{Internal: ownA, Site: siteC})))
	is("after one answer", map[roam.L64][]roam.L64{ownA: {siteC}, ownB: {siteB}})
	now = now.Add(leaveBorder)
	b.tell(now)
	is("after a link without an answer", map[roam.L64][]roam.L64{ownA: {siteC}})
	delete(b.links, 1)
	b.tick(now)
	is("after a link that went", nil)
	b.links[3] = hostnet.Uplink{}
	b.known, b.named = map[roam.L64][]roam.L64{ownA: {siteA}}, false
	b.tick(now)
	is("without a border that is named", nil)
}

// What a border said ends when it is not named any more: at once if no other one is, else with the answer of another
// one, after leaveBorder at the latest.
func TestBorderIsNotNamedAnyMore(t *testing.T) {
	first, second := ephemeral(t), ephemeral(t)
	both, other := []nidkey.Public{first.Public, second.Public}, []nidkey.Public{second.Public}
	for name, c := range map[string]struct {
		named   []nidkey.Public
		answers bool          // the second one
		after   time.Duration // it goes
		want    []roam.L64
	}{
		"no other one":                 {},
		"another one that answers":     {named: other, answers: true, want: []roam.L64{siteB}},
		"another one that is silent":   {named: other, after: leaveBorder},
		"both are named, and it stays": {named: both, after: time.Hour, want: []roam.L64{siteA}},
	} {
		b, now := newBordered(first), time.Unix(1000, 0)
		b.links[2] = hostnet.Uplink{} // is down, so nobody is asked there
		b.tick(now)
		b.handle(now, from(1, sealed(t, first, b.asked[0], ilnp.SiteEntry{Internal: ownA, Site: siteA})))
		is := func(when string, want []roam.L64) {
			t.Helper()
			if !slices.Equal(b.known[ownA], want) {
				t.Errorf("%s: %s the core has %v, want %v", name, when, b.known[ownA], want)
			}
		}
		is("at first", []roam.L64{siteA})
		b.keys, b.named = c.named, len(c.named) > 0
		now = now.Add(time.Second)
		b.tick(now)
		if c.answers {
			is("before the answer", []roam.L64{siteA})
			b.handle(now, from(1, sealed(t, second, b.asked[len(b.asked)-1], ilnp.SiteEntry{Internal: ownA, Site: siteB})))
		}
		if c.after > 0 {
			b.tick(now.Add(c.after - time.Second))
			is("before that", []roam.L64{siteA})
			b.tick(now.Add(c.after))
		}
		is("at last", c.want)
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
