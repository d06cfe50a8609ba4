package engine

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// firstOf is a first packet of a local program, whose checksum is only a seed.
func firstOf(t *testing.T, e *Engine, proto uint8, mark byte) []byte {
	t.Helper()
	b := make([]byte, ip6.HeaderLen+24)
	own, peer := e.sessionAddr(ourNID), e.sessionAddr(peerNID)
	h := ip6.Header{PayloadLen: 24, NextHeader: proto, HopLimit: 64, Src: own.Addr(), Dst: peer.Addr()}
	built(t)(h.AppendTo(b[:0]))
	up := b[ip6.HeaderLen:]
	up[1], up[3], up[5] = 7, 9, 24
	if proto == ip6.TCP {
		up[12], up[13] = 5<<4, 0x02
	}
	up[23] = mark
	return b
}

// The first segment and the first datagram of a session whose rule is sought are kept
// for a copy each, whether they waited for the session or left by one that was expected;
// of other sessions nothing is, nor is anything sent when the rule is known by then.
func TestFirstPacketsAreCopied(t *testing.T) {
	for _, c := range []struct {
		name   string
		sought bool
		kind   dataplane.EventKind
		after  func(p *ilnp.Entry)
		want   int
	}{
		{"missed", true, dataplane.Miss, nil, 2},
		{"expected", true, dataplane.First, nil, 2},
		{"the rule is known", false, dataplane.First, nil, 0},
		{"the rule is found", true, dataplane.Miss, func(p *ilnp.Entry) { p.RuleSought = false }, 0},
		{"it fell back", true, dataplane.Miss, func(p *ilnp.Entry) { p.State = ilnp.Plain }, 0},
		{"an echo was answered", true, dataplane.Miss, func(p *ilnp.Entry) { p.State = ilnp.Established }, 2},
	} {
		e, o := withSession(t, ilnp.Initiated)
		e.cfg.Plane = &table{entries: map[ilnp.SessionKey]ilnp.Entry{}}
		p := e.entries[sessionKey]
		p.RuleSought = c.sought
		if delete(e.entries, sessionKey); c.kind == dataplane.First {
			e.entries[sessionKey] = p
		}
		for mark, proto := range []uint8{ip6.ICMPv6, ip6.TCP, ip6.TCP, ip6.UDP, ip6.UDP} {
			e.handlePlane(time.Now(), dataplane.Event{Kind: c.kind, Key: sessionKey, Packet: firstOf(t, e, proto, byte(mark))})
		}
		if c.after != nil {
			c.after(&p)
		}
		e.upsert(time.Now(), p)
		o.resent = nil
		for _, datagram := range []bool{false, true, true, false} {
			e.execute(time.Now(), ilnp.Copy{Key: sessionKey, Datagram: datagram})
		}
		if len(o.copied) != c.want || len(o.resent) != 0 {
			t.Errorf("%s: %d packets copied, want %d", c.name, len(o.copied), c.want)
			continue
		}
		for i, b := range o.copied {
			if mark := []byte{1, 3}[i]; b[len(b)-1] != mark {
				t.Errorf("%s: copy %d is of packet %d, want %d", c.name, i, b[len(b)-1], mark)
			}
			h, err := ip6.Walk(b)
			if err != nil || ip6.Checksum(h.Header.Src, h.Header.Dst, h.Upper, b[ip6.HeaderLen:]) != 0 {
				t.Errorf("%s: copy %d has no sound checksum", c.name, i)
			}
		}
	}
}

// Of what was held of a pending peer, a copy under the other rule is not delivered, in
// whatever order they came: it would be there twice.
func TestAdmitDeliversOneOfTwoRules(t *testing.T) {
	packets := ofBothRules(t)
	for _, order := range [][]xlate.Rule{{xlate.RuleIPv6, xlate.RuleRFC6741}, {xlate.RuleRFC6741, xlate.RuleIPv6}} {
		for late := range 2 {
			e, o := withSession(t, ilnp.Established)
			p := &slowly{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}, unvalidated: make(chan dataplane.Event, 16)}
			e.cfg.Plane = p
			var evs []dataplane.Event
			for _, rule := range append(slices.Clone(order), order[0]) {
				evs = append(evs, dataplane.Event{Kind: dataplane.PendingPeer, Local: roam.ILV{L64: here, NID: ourNID},
					Remote: roam.ILV{L64: there, NID: peerNID}, Nonce: theirNonce, Packet: bytes.Clone(packets[rule])})
			}
			for _, ev := range evs[:len(evs)-late] {
				e.holdPending(time.Now(), &ev)
			}
			p.left = evs[len(evs)-late:]
			e.admit(ilnp.Admit{Pending: ilnp.Pending{Local: ourNID, Remote: roam.ILV{L64: there, NID: peerNID}, Nonce: theirNonce}, Key: sessionKey})
			if len(o.injected) != 2 {
				t.Errorf("order %v: %d packets delivered, want those of the first rule", order, len(o.injected))
			}
		}
	}
}

// ofBothRules is a datagram of the peer, by either rule.
func ofBothRules(t *testing.T) map[xlate.Rule][]byte {
	t.Helper()
	packets := map[xlate.Rule][]byte{}
	for _, rule := range []xlate.Rule{xlate.RuleIPv6, xlate.RuleRFC6741} {
		e, _ := withSession(t, ilnp.Established)
		b := firstOf(t, e, ip6.UDP, 1)
		if err := ip6.FinishL4(b); err != nil {
			t.Fatal(err)
		}
		peer := xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, Rule: rule, Nonce: theirNonce,
			LocalAlias: ourNID, LocalNID: peerNID, LocalL64: there, RemoteAlias: peerNID, RemoteNID: ourNID, RemoteL64: here}
		packets[rule] = built(t)(xlate.Outward(b, peer))
	}
	return packets
}
