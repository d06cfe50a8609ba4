package engine

import (
	"encoding/binary"
	"net/netip"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// look is one look at the TCP connections of the host, for those who wanted it
// when it began.
type look struct {
	back  map[ilnp.SessionKey]bool // as Engine.back
	heard []heard
	list  []dataplane.Connection
	err   error
}

// tend has the TCP connections of sessions that have moved looked at, if any
// have: those that sit in time-outs are woken, and those on which nothing arrives
// are shown to firewalls. One look serves all. The kernel goes through every
// socket that there may be, 5 to 10 ms on a large machine, in which Locator
// Updates and their acknowledgements must not wait.
func (e *Engine) tend(now time.Time) {
	if e.looking || len(e.back) == 0 && !e.opener.wants(now) {
		return
	}
	l := look{back: e.back, heard: e.opener.heard}
	e.back, e.opener.heard, e.looking = make(map[ilnp.SessionKey]bool), nil, true
	go func() {
		l.list, l.err = e.cfg.Plane.Connections(e.cfg.SessionPrefix)
		e.looks <- l
	}()
}

// looked does what a look has shown to be due.
func (e *Engine) looked(now time.Time, l look) {
	e.looking = false
	if l.err != nil {
		// They try again by themselves, only later.
		e.cfg.Log.Debug("cannot look at connections", "err", l.err)
		e.opener = opener{}
		return
	}
	e.open(now, l)
	e.wake(l)
}

// wake lets TCP connections try again at once: their correspondent is within
// reach again, but each of them may sit in a retransmission time-out that was
// doubled while it was not.
//
// An ICMPv6 Destination Unreachable (no route) about the oldest segment that is
// not acknowledged makes TCP take one doubling back, and send again when that is
// due by now (RFC 6069, which Linux implements). So each connection is told as
// often as it has doubled.
//
// After an outage the correspondent is told what had arrived before it, too: the
// last acknowledgements are lost, and what it would send again first is here. TCP
// takes the answer to that for a sign that its time-out was a mistake, and waits
// another round trip before it sends what is missing (F-RTO, RFC 5682).
func (e *Engine) wake(l look) {
	for _, c := range l.list {
		k := e.sessionKey(keyOf(c))
		outage, ok := l.back[k]
		if _, still := e.entries[k]; !ok || !still {
			continue
		}
		e.takeBack(c)
		if outage && c.Open {
			e.acknowledge(c)
		}
	}
}

// keyOf returns the alias that a connection is bound to.
func keyOf(c dataplane.Connection) ilnp.SessionKey {
	return ilnp.SessionKey{Local: roam.ILVFromAddr(c.Local.Addr()).NID, Remote: roam.ILVFromAddr(c.Remote.Addr()).NID}
}

// acknowledge makes our own stack send an ACK of all that has arrived. The stack
// does so for a connection at most twice a second.
func (e *Engine) acknowledge(c dataplane.Connection) {
	e.inject(ilnpwire.OldSegment(roam.ILVFromAddr(c.Remote.Addr()), roam.ILVFromAddr(c.Local.Addr()), c.Remote.Port(), c.Local.Port(), c.Wanted, c.Unacked))
}

// takeBack tells a connection as often as it has doubled its time-out.
func (e *Engine) takeBack(s dataplane.Connection) {
	const unreachable, noRoute = 1, 0
	msg := ilnpwire.ErrorMessage{Type: unreachable, Code: noRoute, Quoted: quote(s)}
	b, err := ilnpwire.BuildError(roam.ILVFromAddr(s.Remote.Addr()), roam.ILVFromAddr(s.Local.Addr()), ilnpwire.Nonce{}, msg)
	if err != nil {
		e.report("wake a connection", err)
		return
	}
	for range s.Backoff {
		e.inject(b)
	}
}

// quote makes the beginning of the segment that a stalled connection has sent
// last, as far as TCP looks at it: addresses, ports, sequence number.
func quote(s dataplane.Connection) []byte {
	const tcp, tcpLength = 6, 20
	b := make([]byte, ip6.HeaderLen+tcpLength)
	b[0], b[6], b[7] = 6<<4, tcp, 64
	binary.BigEndian.PutUint16(b[4:], tcpLength)
	put := func(at int, a netip.Addr) {
		nbytes := a.As16()
		copy(b[at:], nbytes[:])
	}
	put(8, s.Local.Addr())
	put(24, s.Remote.Addr())
	t := b[ip6.HeaderLen:]
	binary.BigEndian.PutUint16(t, s.Local.Port())
	binary.BigEndian.PutUint16(t[2:], s.Remote.Port())
	binary.BigEndian.PutUint32(t[4:], s.Unacked)
	t[12] = tcpLength / 4 << 4
	return b
}
