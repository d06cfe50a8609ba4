package engine

import (
	"errors"
	"time"

	"roam"
	"roam/ilnp"
	"roam/ilnp/slowpath"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/wire/ip6"
)

// ForgedError is the reason in Refused for an ICMPv6 error that claims to be of
// a correspondent and does not have its nonce (RFC 6741 §11.1).
const ForgedError = "ICMPv6 error from a correspondent without its nonce"

// errorIn takes an ICMPv6 error about a packet of a session: it is the core's, or for
// our own stack.
func (e *Engine) errorIn(now time.Time, ev dataplane.Event) {
	x, err := e.host().ReadError(ev.Packet)
	if err != nil {
		e.refused["malformed ICMPv6 error"]++
		return
	}
	if e.core.HandleError(now, x.Packet) {
		return // it answers a probe: no application asked
	}
	if x.AboutNonce() {
		e.core.HandlePacket(now, ev.Link, x.Packet)
		return
	}
	asked := x.IsAsked()
	if errors.Is(asked, slowpath.ErrQuoted) {
		e.refused["malformed packet in an ICMPv6 error"]++
		return
	}
	p, ok := e.session(ev.Key)
	if !ok {
		e.refused["ICMPv6 error about no session"]++
		return
	}
	if asked != nil {
		return
	}
	if mtu, names := x.MTU(); names {
		e.pathMTUs.Note(ev.Key, mtu)
		e.core.HandleTooBig(now, ev.Key, mtu)
	}
	packets, err := x.ForStack(p)
	for _, b := range packets {
		e.inject(b)
	}
	switch {
	case errors.Is(err, slowpath.ErrForged):
		e.refused[ForgedError]++
		e.lastForged = dataplane.Refusal{At: now, Link: ev.Link, Remote: x.Src, Local: x.Dst, Proto: ip6.ICMPv6, Type: x.Message.Type}
	case err != nil:
		e.refused["ICMPv6 error that cannot be translated"]++
		e.cfg.Log.Debug("ICMPv6 error cannot be translated", "err", err)
	}
}

// TooBig returns the size that the last Packet Too Big about a session named, 0 if
// there was none; use it inside Do only.
func (e *Engine) TooBig(k ilnp.SessionKey) int { return e.pathMTUs.Last(k) }

// errorOut translates an ICMPv6 error that our own stack sends about a packet
// of a session, and sends it on the session's first path; or to a pending peer, to where
// its packet came from.
func (e *Engine) errorOut(ev dataplane.Event) {
	var (
		link roam.LinkID
		b    []byte
		err  error
	)
	if ev.OwnNonce.Present() {
		link = ev.Link
		b, err = e.host().ErrorToPending(ev.Packet, slowpath.PendingAnswer{
			Key: ev.Key, Local: ev.Local, Remote: ev.Remote, OwnNonce: ev.OwnNonce, Found: ev.Found, Encapsulated: ev.Encapsulated,
		})
	} else {
		p, ok := e.entries[ev.Key]
		if !ok || len(p.Paths) == 0 {
			e.refused["ICMPv6 error of ours without a path"]++
			return
		}
		link = p.Paths[0].Local.Link
		b, err = e.host().ErrorOut(ev.Packet, p, p.Paths[0])
	}
	if err != nil {
		e.refused["ICMPv6 error of ours that cannot be translated"]++
		return
	}
	e.send("send ICMPv6 error", link, b)
}

// tellTooBig has our own stack learn a path MTU.
func (e *Engine) tellTooBig(o ilnp.TooBig) {
	b, err := e.host().TooBig(o)
	if err != nil {
		e.report("report a path MTU to the own stack", err)
		return
	}
	e.inject(b)
}
