package engine

import (
	"encoding/binary"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// ForgedError is the reason in Refused for an ICMPv6 error that claims to be of
// a correspondent and does not have its nonce (RFC 6741 §11.1).
const ForgedError = "ICMPv6 error from a correspondent without its nonce"

// errorIn translates an ICMPv6 error about a packet of a session for our own
// stack. A Parameter Problem about the nonce is the core's alone: it means that
// there is no ILNP at the other end.
func (e *Engine) errorIn(now time.Time, ev dataplane.Event) {
	if inner, err := ilnpwire.Decapsulate(ev.Packet, e.cfg.UDPPort); err == nil {
		ev.Packet = inner
	}
	outer, err := ilnpwire.ParsePacket(ev.Packet)
	if err != nil {
		e.refused["malformed ICMPv6 error"]++
		return
	}
	msg, err := ilnpwire.ParseError(outer.Payload)
	if err != nil {
		e.refused["malformed ICMPv6 error"]++
		return
	}
	if e.core.HandleError(now, ev.Packet) {
		return // it answers a probe: no application asked
	}
	if aboutNonce(msg) {
		// Not for the application: TCP would give its connection up for a
		// packet that is about to be sent again without the option.
		e.core.HandlePacket(now, ev.Link, ev.Packet)
		return
	}
	quoted, err := ilnpwire.ParseQuoted(msg.Quoted)
	if err != nil {
		e.refused["malformed packet in an ICMPv6 error"]++
		return
	}
	p, ok := e.session(ev.Key)
	if !ok {
		e.refused["ICMPv6 error about no session"]++
		return
	}
	if msg.Type == ilnpwire.TypeUnreachable && e.isEncapsulated(quoted) {
		return // it has no control in UDP: no application asked
	}
	if msg.Type == ilnpwire.TypePacketTooBig {
		e.tooBig[ev.Key] = int(msg.Param)
		e.core.HandleTooBig(ev.Key)
	}
	fromPeer := outer.Src.NID == p.RemoteNID
	if fromPeer && p.State == ilnp.Established && outer.Nonce != p.RemoteNonce {
		e.refused[ForgedError]++
		e.lastForged = dataplane.Refusal{At: now, Link: ev.Link, Remote: outer.Src, Local: outer.Dst, Proto: ip6.ICMPv6, Type: msg.Type}
		return
	}
	entry := e.entry(p, quoted.Src.L64, quoted.Dst.L64)
	entry.Nonce = p.RemoteNonce // inward, an entry's nonce is the one to be met with
	if p.NonceAlways {
		entry.Spare = longestTCP
	}
	e.injectError(ev.Packet, entry)
	if p.Named {
		entry.RemoteAlias = p.RemoteNID // its socket may be one of the other alias
		e.injectError(ev.Packet, entry)
	}
}

// injectError translates an error and hands it to our own stack.
func (e *Engine) injectError(packet []byte, entry xlate.Entry) {
	b, err := xlate.ErrorInward(packet, entry)
	if err != nil {
		e.refused["ICMPv6 error that cannot be translated"]++
		e.cfg.Log.Debug("ICMPv6 error cannot be translated", "err", err)
		return
	}
	e.inject(b)
}

// isEncapsulated reports whether a quoted packet is one of our control messages in UDP.
func (e *Engine) isEncapsulated(q ilnpwire.Packet) bool {
	return q.Proto == ip6.UDP && len(q.Payload) >= 4 && e.cfg.UDPPort != 0 && binary.BigEndian.Uint16(q.Payload) == e.cfg.UDPPort &&
		binary.BigEndian.Uint16(q.Payload[2:]) == e.cfg.UDPPort
}

// TooBig returns the size that the last Packet Too Big about a session named, 0 if
// there was none; use it inside Do only.
func (e *Engine) TooBig(k ilnp.SessionKey) int { return e.tooBig[k] }

// longestTCP is the longest TCP header. Where a path takes less than the link,
// segments of a correspondent that wants every nonce are kept so much shorter
// that the data plane sees it, and puts no nonce into GSO packets.
const longestTCP = 60

// aboutNonce reports whether an error complains of the Nonce option in what it
// quotes (RFC 8200 §4.2: the pointer is the offset of the option's type).
func aboutNonce(m ilnpwire.ErrorMessage) bool {
	if m.Type != ilnpwire.TypeParameterProblem || m.Code != ilnpwire.CodeUnknownOption {
		return false
	}
	chain, err := ip6.WalkQuoted(m.Quoted)
	if err != nil {
		return false
	}
	found, err := ilnpwire.FindNonce(m.Quoted, chain)
	return err == nil && found.Ext >= 0 && int(m.Param) == found.Offset
}

// errorOut translates an ICMPv6 error that our own stack sends about a packet
// of a session, and sends it on the session's first path.
func (e *Engine) errorOut(ev dataplane.Event) {
	if ev.OwnNonce.Present() {
		e.errorToPending(ev)
		return
	}
	p, ok := e.entries[ev.Key]
	if !ok || len(p.Paths) == 0 {
		e.refused["ICMPv6 error of ours without a path"]++
		return
	}
	path := p.Paths[0]
	entry := e.entry(p, path.Local.L64, path.Remote)
	if p.State != ilnp.Plain {
		entry.Nonce = p.LocalNonce
	}
	b, err := xlate.ErrorOutward(ev.Packet, entry)
	if err != nil {
		e.refused["ICMPv6 error of ours that cannot be translated"]++
		return
	}
	e.sendError(path.Local.Link, b, p.Encap)
}

func (e *Engine) sendError(link roam.LinkID, b []byte, encap bool) {
	if encap {
		if encap, err := ilnpwire.Encapsulate(b, e.cfg.UDPPort); err == nil {
			b = encap
		}
	}
	e.send("send ICMPv6 error", link, b)
}

// errorToPending does so for a pending peer: to where its packet came from, with the
// nonce that all else bears which goes there, and which its session will have. The
// entry that may be preinstalled for that peer has another one.
func (e *Engine) errorToPending(ev dataplane.Event) {
	entry := xlate.Entry{
		SessionPrefix: e.cfg.SessionPrefix,
		LocalAlias:    ev.Key.Local, LocalNID: ev.Local.NID, LocalL64: ev.Local.L64,
		RemoteAlias: ev.Key.Remote, RemoteNID: ev.Remote.NID, RemoteL64: ev.Remote.L64,
		Nonce: ev.OwnNonce,
	}
	if ev.Found == ilnp.FoundRFC6741 {
		entry.Rule = xlate.RuleRFC6741
	}
	b, err := xlate.ErrorOutward(ev.Packet, entry)
	if err != nil {
		e.refused["ICMPv6 error of ours that cannot be translated"]++
		return
	}
	e.sendError(ev.Link, b, ev.Encapsulated)
}

// tellTooBig has our own stack learn a path MTU, for want of a router that says
// it: by an error about an echo request, which needs no socket.
func (e *Engine) tellTooBig(o ilnp.TooBig) {
	own, peer := e.sessionAddr(o.Key.Local), e.sessionAddr(o.Key.Remote)
	quoted, err := ilnpwire.BuildEcho(own, peer, ilnpwire.Nonce{}, true, 0, 0, nil)
	if err == nil {
		m := ilnpwire.ErrorMessage{Type: ilnpwire.TypePacketTooBig, Param: uint32(o.MTU), Quoted: quoted}
		quoted, err = ilnpwire.BuildError(peer, own, ilnpwire.Nonce{}, m)
	}
	if err != nil {
		e.report("tell own stack of a path MTU", err)
		return
	}
	e.inject(quoted)
}
