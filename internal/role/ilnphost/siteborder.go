package ilnphost

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/internal/hostnet"
	"roam/internal/rawio"
	"roam/nidkey"
	"roam/wire/ilnp"
)

const (
	// showNonces is the least time between two notices of a border that have effect.
	showNonces = 5 * time.Second
	// askBorder is how often a border is asked, and askBorderAgain the least time between two
	// questions on a link.
	askBorder      = time.Minute
	askBorderAgain = 100 * time.Millisecond
	// leaveBorder is how long a border leaves questions unanswered before another one on its link
	// counts: two that answer in turn would have the host announce other locators each time.
	leaveBorder = 30 * time.Second
	// mostOfSite is how many locators of the site count for one of ours: those of a proof.
	mostOfSite = ilnp.ProofLocators
)

// siteBorders is what this host knows of the site borders on its links. But for run it belongs to the
// engine's goroutine.
type siteBorders struct {
	socket *rawio.SiteNotices // nil: none
	send   func(link roam.LinkID, to netip.Addr, n ilnp.SiteNotice) error
	host   siteHost
	core   siteCore
	log    *slog.Logger
	links  map[roam.LinkID]*siteBorder
	// left is since when the core has what a border said that is not named any more; zero: it has nothing such.
	left time.Time
}

// siteHost is the host, as far as its borders matter.
type siteHost interface {
	uplinks() map[roam.LinkID]hostnet.Uplink
	borderKeys() []nidkey.Public // of the borders that the configuration names
	namesBorders() bool
	sessionPrefix() roam.L64
}

// siteCore is the core, as far as borders matter to it.
type siteCore interface {
	HandleBorder(now time.Time, link roam.LinkID, anew bool)
	HandleSite(now time.Time, sites map[roam.L64][]roam.L64)
	Sites() map[roam.L64][]roam.L64
}

// bordersHost is the siteHost of a Host.
type bordersHost struct{ h *Host }

func (b bordersHost) uplinks() map[roam.LinkID]hostnet.Uplink { return b.h.engine.Links() }
func (b bordersHost) namesBorders() bool                      { return len(b.h.cfg.Uplinks.Border) > 0 }
func (b bordersHost) sessionPrefix() roam.L64                 { return b.h.cfg.Host.SessionPrefix }

// siteBorder is the border on one link.
type siteBorder struct {
	showed   time.Time             // when its notice had effect last
	noticed  map[netip.Addr]uint64 // number of the latest notice from an address
	anew     bool                  // it began anew since one had effect
	asked    time.Time             // when it was asked last,
	key      nidkey.Key            // with that key,
	secrets  []borderSecret        // of which and each border's, as an answer costs no operation with a public key
	answered bool                  // it has answered that
	since    time.Time             // of the first question after its latest answer
	public   nidkey.Public         // of the border that counts; zero: none yet
	sequence uint64                // of its latest answer
	sites    map[roam.L64][]roam.L64
}

// borderSecret is what a question has for one border.
type borderSecret struct {
	of     nidkey.Public
	secret nidkey.Secret
}

// open opens the socket; a host without it does without what borders tell.
func (b *siteBorders) open(h *Host) {
	b.host, b.core, b.log, b.links = bordersHost{h}, h.engine.Core(), h.log, make(map[roam.LinkID]*siteBorder)
	if h.cfg.ILNP.UDPPort == 0 {
		return
	}
	s, err := rawio.OpenSiteNotices(h.cfg.ILNP.UDPPort)
	if err != nil {
		h.log.Warn("notices of site borders are not received", "err", err)
		return
	}
	b.socket, b.send = s, s.Send
}

// run takes notices until the socket is closed.
func (b *siteBorders) run(ctx context.Context, h *Host) {
	if b.socket != nil {
		b.socket.Run(func(n rawio.SiteNotice) {
			_ = h.do(ctx, func(now time.Time) { b.handle(now, n) }) // its error: the host ends
		})
	}
}

// on returns the border on a link.
func (b *siteBorders) on(link roam.LinkID) *siteBorder {
	if b.links[link] == nil {
		b.links[link] = &siteBorder{}
	}
	return b.links[link]
}

// handle takes a notice or an answer from a link.
func (b *siteBorders) handle(now time.Time, n rawio.SiteNotice) {
	if _, uplink := b.host.uplinks()[n.Link]; !uplink {
		return
	}
	at := b.on(n.Link)
	switch n.Kind {
	case ilnp.NoticeOfSite:
		at.note(n)
		if now.Sub(at.showed) >= showNonces {
			b.core.HandleBorder(now, n.Link, at.anew)
			at.showed, at.anew = now, false
		}
		if n.Sequence != at.sequence {
			b.ask(now, n.Link)
		}
	case ilnp.SiteAnswer:
		asked := !at.asked.IsZero() && !at.answered && n.Asker == at.key.Public
		of, known := borderOf(n.SiteNotice, at.secrets)
		if asked && known && at.counts(now, of) {
			at.answered, at.public, at.sequence = true, of, n.Sequence
			at.learn(usableSites(n.SiteNotice, b.host.sessionPrefix()))
			b.tell(now)
		}
	}
}

// mostBorders is of how many borders on a link the notices are told apart.
const mostBorders = 8

// note notes the number of a notice. Each border numbers its own.
func (at *siteBorder) note(n rawio.SiteNotice) {
	at.anew = at.anew || beganAnew(at.noticed[n.From], n.Sequence)
	if at.noticed == nil || len(at.noticed) >= mostBorders {
		at.noticed = make(map[netip.Addr]uint64)
	}
	at.noticed[n.From] = n.Sequence
}

// mostChanges is by how many changes a border is ahead of its latest notice at most. It numbers them from
// the time of its start on, in ns.
const mostChanges = 1 << 20

// beganAnew reports whether a border has been started between two notices.
func beganAnew(before, now uint64) bool {
	return before != 0 && (now < before || now-before > mostChanges)
}

// learn takes what a border says. While all providers of an internal locator are down it keeps the
// latest that is known: peers must not be told the internal one.
func (at *siteBorder) learn(sites map[roam.L64][]roam.L64) {
	for own, list := range at.sites {
		if sites[own] == nil {
			sites[own] = list
		}
	}
	at.sites = sites
}

// counts reports whether a border is the one on its link: the first that answered, until it is silent
// or no longer named.
func (at *siteBorder) counts(now time.Time, of nidkey.Public) bool {
	named := slices.ContainsFunc(at.secrets, func(s borderSecret) bool { return s.of == at.public })
	return of == at.public || !named || now.Sub(at.since) >= leaveBorder
}

// borderOf returns which of the borders with which there are these secrets has made an answer.
func borderOf(n ilnp.SiteNotice, secrets []borderSecret) (of nidkey.Public, ok bool) {
	i := slices.IndexFunc(secrets, func(s borderSecret) bool { return n.Verify(s.secret.Bytes()) })
	if i < 0 {
		return of, false
	}
	return secrets[i].of, true
}

// secretsWith returns what a key shares with each of the borders.
func secretsWith(asked nidkey.Key, borders []nidkey.Public) (list []borderSecret) {
	for _, p := range borders {
		if secret, err := asked.Shared(p); err == nil {
			list = append(list, borderSecret{p, secret})
		}
	}
	return list
}

// usableSites returns what an answer says, without what no locator can be.
func usableSites(n ilnp.SiteNotice, session roam.L64) map[roam.L64][]roam.L64 {
	sites := n.Sites()
	for own, list := range sites {
		list = slices.DeleteFunc(list, func(l roam.L64) bool { return !l.Usable() || l == session })
		if sites[own] = list[:min(len(list), mostOfSite)]; len(list) == 0 {
			delete(sites, own)
		}
	}
	return sites
}

// tell gives the core what all borders say.
func (b *siteBorders) tell(now time.Time) {
	var known map[roam.L64][]roam.L64
	if b.isAwaited(now) {
		known = b.core.Sites()
	} else {
		b.left = time.Time{}
	}
	b.core.HandleSite(now, b.whole(known))
}

// isAwaited reports whether what the core has of the site stays as some border has not answered yet.
func (b *siteBorders) isAwaited(now time.Time) bool {
	isLong := !b.left.IsZero() && now.Sub(b.left) >= leaveBorder
	return b.host.namesBorders() && !isLong && b.waits(now, slices.Collect(maps.Keys(b.host.uplinks())))
}

// waits reports whether the border of one of these links, if it has one, has not answered yet: a link whose
// questions stay unanswered has none.
func (b *siteBorders) waits(now time.Time, links []roam.LinkID) bool {
	return slices.ContainsFunc(links, func(l roam.LinkID) bool {
		at := b.links[l]
		return at == nil || at.sites == nil && now.Sub(at.since) < leaveBorder
	})
}

// whole returns what all borders say. For an internal locator on several links the first one counts.
// Of those of which none says anything, known stays: a daemon that was restarted knows what it had been
// told, and the borders of its links do not answer at once.
func (b *siteBorders) whole(known map[roam.L64][]roam.L64) map[roam.L64][]roam.L64 {
	all := make(map[roam.L64][]roam.L64)
	for _, link := range slices.Sorted(maps.Keys(b.links)) {
		for own, list := range b.links[link].sites {
			if all[own] == nil {
				all[own] = list
			}
		}
	}
	for own, list := range known {
		if all[own] == nil {
			all[own] = list
		}
	}
	return all
}

// ask asks the routers on a link for the locators of the site, if the hosts file has the key of a
// border.
func (b *siteBorders) ask(now time.Time, link roam.LinkID) {
	at, borders := b.on(link), b.host.borderKeys()
	if now.Sub(at.asked) < askBorderAgain || len(borders) == 0 {
		return
	}
	var random [nidkey.KeyLen]byte
	rand.Read(random[:]) // never fails
	key, err := nidkey.Ephemeral(random)
	if err != nil {
		b.log.Warn("draw a key to ask a site border with", "err", err)
		return
	}
	at.question(now, key, secretsWith(key, borders))
	request := ilnp.SiteNotice{Kind: ilnp.SiteRequest, Asker: key.Public}
	if err := b.send(link, rawio.AllRouters, request); err != nil {
		b.log.Debug("a site border was not asked", "err", err)
	}
}

// question notes that the border on a link is asked with a key.
func (at *siteBorder) question(now time.Time, key nidkey.Key, secrets []borderSecret) {
	if at.answered || at.asked.IsZero() {
		at.since = now
	}
	at.asked, at.key, at.answered, at.secrets = now, key, false, secrets
}

// tick asks on links where nobody was asked for long, and forgets links that have gone, and borders that are not
// named any more. What such a border said goes when the others have answered, after leaveBorder at the latest: peers
// must not be told the internal locators while a key is exchanged for another.
func (b *siteBorders) tick(now time.Time) {
	if b.socket == nil {
		return
	}
	links, named, borders := b.host.uplinks(), b.host.borderKeys(), len(b.links)
	maps.DeleteFunc(b.links, func(l roam.LinkID, at *siteBorder) bool {
		_, there := links[l]
		unnamed := at.sites != nil && !slices.Contains(named, at.public)
		if unnamed {
			b.left = now
		}
		return !there || unnamed
	})
	gone := len(b.links) < borders
	for link, u := range links {
		if u.Up && now.Sub(b.on(link).asked) >= askBorder {
			b.ask(now, link)
		}
	}
	if gone || !b.host.namesBorders() || !b.left.IsZero() && !b.isAwaited(now) {
		b.tell(now)
	}
}

// borderKeys returns the keys of the borders that the configuration names.
func (b bordersHost) borderKeys() (list []nidkey.Public) {
	for _, name := range b.h.cfg.Uplinks.Border {
		if r, ok := b.h.names.Load().ByName(name); ok && r.Key.Present() {
			list = append(list, r.Key.Public)
		}
	}
	return list
}
