package engine

import (
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// Stateful firewalls on a path that a session takes anew may drop what it sends
// there: they remember its connections at the sequence numbers of an earlier
// stay, or have never seen them begin. So for a while after a move the
// connections are looked at. Where no segment has arrived from one look to the
// next, the connection is shown to the firewalls once more, by a handshake at
// the sequence numbers that it has reached (ilnpwire.Resync). Linux takes a SYN
// that is answered by the other end for what is true (nf_conntrack_proto_tcp.c).
// Only correspondents with Roam get one.
const (
	openFirst = 500 * time.Millisecond // to the first look after a move, if two round trips are not more
	openSoon  = 50 * time.Millisecond  // the same, after they were gathered
	openLast  = 5 * time.Second        // looks come at intervals that double, up to this
	openTries = 3                      // for one connection after one move
	openMost  = 1024                   // resyncs of correspondents that wait for a look
)

// ends tell a connection: ours, and that of the correspondent.
type ends [2]netip.AddrPort

// opener is what the engine remembers of connections in sessions that moved.
type opener struct {
	watched map[ilnp.SessionKey]*watch
	next    time.Time // not after the next look of any of them; long gone: at once
	heard   []heard
	opened  map[ilnp.SessionKey]int // connections that waited for an answer and were shown with success
}

// Opened returns how many connections of a session stood still after moves, though
// the correspondent was there, and had to be shown to firewalls: one on the way
// had lost track of them, or the first answer took long.
func (e *Engine) Opened(k ilnp.SessionKey) int { return e.opener.opened[k] }

// heard is a conntrack resync of a correspondent.
type heard struct {
	key ilnp.SessionKey
	ilnpwire.Resync
}

// watch is one session after a move.
type watch struct {
	next time.Time // of the next look; zero: at once
	wait time.Duration
	seen map[ends]arrivals
}

// arrivals is what came on a connection.
type arrivals struct {
	segments uint32 // until the last look
	tries    int    // resyncs sent; openTries when there will be no more
	waiting  bool   // when the first of them was sent, data of ours was not acknowledged
}

// watch begins to look at the connections of a session that has a new path, or whose
// connections were gathered on one path each as one of them stands still: then there
// is nothing to wait for but the answers that are under way.
func (o *opener) watch(p ilnp.Entry, gathered bool) {
	if o.watched == nil {
		o.watched, o.opened = make(map[ilnp.SessionKey]*watch), make(map[ilnp.SessionKey]int)
	}
	o.next = time.Unix(0, 0)
	first := openFirst
	if gathered {
		first = openSoon
	}
	o.watched[p.Key] = &watch{wait: max(first, p.Grace), seen: make(map[ends]arrivals)}
}

// due returns when the next look has to be, or the zero time.
func (o *opener) due() time.Time {
	if len(o.watched) == 0 {
		return time.Time{}
	}
	return o.next
}

// wants reports whether there is anything to look for now.
func (o *opener) wants(now time.Time) bool {
	return len(o.heard) > 0 || len(o.watched) > 0 && !now.Before(o.due())
}

// opening takes a packet of the data plane if it is a conntrack resync, which counts
// only with the nonce of the session.
func (e *Engine) opening(ev dataplane.Event) bool {
	c, err := ip6.Walk(ev.Packet)
	if err != nil || c.Upper != ip6.TCP {
		return false
	}
	o, err := ilnpwire.ParseResync(ev.Packet[c.UpperOffset:c.End])
	p := e.entries[ev.Key]
	switch {
	case err != nil || p.State != ilnp.Established || o.Nonce != p.RemoteNonce:
		e.refused["resync of a firewall without the session's nonce"]++
	case len(e.opener.heard) >= openMost:
		e.refused["resync of a firewall beyond those that wait"]++
	default:
		e.opener.heard = append(e.opener.heard, heard{ev.Key, o})
	}
	return true
}

// open carries out what is due, with the connections that there are.
func (e *Engine) open(now time.Time, l look) {
	for _, h := range l.heard {
		i := slices.IndexFunc(l.list, func(c dataplane.Connection) bool {
			return c.Local.Port() == h.To && c.Remote.Port() == h.From && e.sessionKey(keyOf(c)) == h.key
		})
		if _, still := e.entries[h.key]; still && i >= 0 && l.list[i].Open {
			e.join(h, l.list[i])
		}
	}
	at := make(map[ilnp.SessionKey][]dataplane.Connection)
	for _, c := range l.list {
		if k := e.sessionKey(keyOf(c)); c.Open && e.opener.watched[k] != nil {
			at[k] = append(at[k], c)
		}
	}
	e.opener.next = now.Add(openLast)
	for k, w := range e.opener.watched {
		if !now.Before(w.next) {
			for _, c := range at[k] {
				e.look(k, w, c)
			}
			w.next = now.Add(w.wait)
			w.wait *= 2
		}
		if w.wait > openLast || len(at[k]) == 0 {
			delete(e.opener.watched, k)
		} else if w.next.Before(e.opener.next) {
			e.opener.next = w.next
		}
	}
}

// look compares a connection with the last look, and shows it to firewalls when
// nothing has arrived.
func (e *Engine) look(k ilnp.SessionKey, w *watch, c dataplane.Connection) {
	id := ends{c.Local, c.Remote}
	a, known := w.seen[id]
	silent := known && a.segments == c.Arrived
	a.segments = c.Arrived
	switch {
	case silent && a.tries < openTries && e.runsRoam(k): // others take it for a segment of the connection
		a.tries++
		a.waiting = a.waiting || c.Next != c.Unacked
		e.show(k, c, ilnpwire.Resync{})
	case !silent && a.tries > 0:
		a.tries = openTries // it has helped, or was not needed
	}
	w.seen[id] = a
}

// show sends a conntrack resync of the connection, or the answer o.
func (e *Engine) show(k ilnp.SessionKey, c dataplane.Connection, o ilnpwire.Resync) {
	o.From, o.To = c.Local.Port(), c.Remote.Port()
	o.Seq, o.Nonce = c.Next-1, e.entries[k].LocalNonce
	b, err := o.Build(roam.ILVFromAddr(c.Local.Addr()), roam.ILVFromAddr(c.Remote.Addr()))
	if err != nil {
		e.report("show a connection to firewalls", err)
		return
	}
	e.resend(b)
}

// join answers a conntrack resync, or ends the handshake when it is an answer. Then our
// own stack is made to send an ACK, which tells the correspondent what has
// arrived, and may send at once what it has in store.
func (e *Engine) join(h heard, c dataplane.Connection) {
	if !h.Answer {
		e.show(h.key, c, ilnpwire.Resync{Answer: true, Ack: h.Seq + 1})
	}
	if w := e.opener.watched[h.key]; h.Answer && w != nil && w.seen[ends{c.Local, c.Remote}].waiting {
		w.seen[ends{c.Local, c.Remote}] = arrivals{segments: c.Arrived, tries: openTries}
		e.opener.opened[h.key]++
	}
	e.acknowledge(c)
	e.takeBack(c)
	e.cfg.Log.Debug("a connection was shown to firewalls again", "answer", h.Answer, "port", c.Local.Port())
}
