package border

import (
	"slices"
	"time"

	"roam"
	"roam/internal/keyfile"
	"roam/internal/rawio"
	"roam/wire/ilnp"
)

const (
	// noticeEvery is how often the border asks the hosts of its site for their nonces.
	noticeEvery = 10 * time.Second
	// mostAnswers bounds answers in a second: each is an operation with a public key.
	mostAnswers = 500
)

// notices are what the border tells its hosts in UDP: that it is there, so that they send their
// nonces, and, if it has a key, which locators of the site it makes of theirs.
type notices struct {
	role     *Role
	socket   *rawio.SiteNotices // nil: none
	requests chan rawio.SiteNotice
	sequence uint64
	told     []ilnp.SiteEntry // by sequence
	due      time.Time
	again    int // notices that follow soon, as one may be lost
	second   time.Time
	answers  int // in that second
}

// open opens the socket. A border without it works, but for what hosts learn by it.
func (n *notices) open(now time.Time) {
	n.requests, n.sequence, n.due = make(chan rawio.SiteNotice, 64), uint64(now.UnixNano()), now
	if n.role.Config.Border.UDPPort == 0 {
		return
	}
	s, err := rawio.OpenSiteNotices(n.role.Config.Border.UDPPort)
	if !n.role.Warn("open the socket for hosts of the site", err) {
		return
	}
	n.socket = s
	go s.Run(func(m rawio.SiteNotice) {
		select {
		case n.requests <- m:
		default: // the host asks again
		}
	})
}

func (n *notices) close() error {
	if n.socket == nil {
		return nil
	}
	return n.socket.Close()
}

// PollTimeout returns when HandleTimeout is to be called.
func (n *notices) PollTimeout() (time.Time, bool) { return n.due, n.socket != nil }

// HandleTimeout sends the notice that is due.
func (n *notices) HandleTimeout(now time.Time) {
	n.due = now.Add(noticeEvery)
	if n.again > 0 {
		n.again--
		n.due = now.Add(noticeEvery / 20)
	}
	for _, u := range n.role.links {
		if n.role.kindOf(u) == inside && u.Up {
			err := n.socket.Send(u.Link, rawio.AllNodes, ilnp.SiteNotice{Kind: ilnp.NoticeOfSite, Sequence: n.sequence})
			if err != nil {
				n.role.Log.Debug("a notice to the hosts was not sent", "err", err)
			}
		}
	}
}

// Drain has nothing of its own to carry out.
func (n *notices) Drain(time.Time) {}

// changed tells the hosts soon if what the table says to them is new.
func (n *notices) changed(now time.Time) {
	if list := n.role.core.Table().Entries(); !slices.Equal(list, n.told) {
		n.told, n.due, n.again = list, now, 2
		n.sequence++
	}
}

// handleRequest answers a host that has asked.
func (n *notices) handleRequest(now time.Time, m rawio.SiteNotice) {
	r := n.role
	if now.Sub(n.second) >= time.Second {
		n.second, n.answers = now, 0
	}
	if m.Kind != ilnp.SiteRequest || r.key == nil || n.answers >= mostAnswers || !r.isInside(m.Link) {
		return
	}
	n.answers++
	secret, err := r.key.Shared(m.Asker)
	if err != nil {
		return // a key that no host draws
	}
	a := ilnp.SiteNotice{Kind: ilnp.SiteAnswer, Sequence: n.sequence, Asker: m.Asker, Entries: n.told}
	a.Seal(secret.Bytes())
	if err := n.socket.Send(m.Link, m.From, a); err != nil {
		r.Log.Debug("an answer to a host was not sent", "host", m.From, "err", err)
	}
}

// isInside reports whether a link leads to the inside.
func (r *Role) isInside(link roam.LinkID) bool {
	for _, u := range r.links {
		if u.Link == link {
			return r.kindOf(u) == inside
		}
	}
	return false
}

// readKey reads the border's key, by which hosts know that they are told by it.
func (r *Role) readKey() error {
	k, err := keyfile.Read(r.Config)
	if err == nil {
		r.key = k
	}
	return err
}
