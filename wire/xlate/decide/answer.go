package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ip6"
)

// Rule matches the datagrams and segments to a port of peers. Of what the user's rules match the model has no
// more than that.
type Rule struct {
	Port    uint16
	OnePath bool // each of its flows takes one path: the peer answers it there
}

// flow is a flow of a session by its NIDs and ports.
type flow struct {
	near, far         roam.NID
	nearPort, farPort uint16
	proto             uint8
}

// flowEnds are the locators at the ends of a path.
type flowEnds struct{ near, far roam.L64 }

const labelMask = 0xfffff

// label returns the flow label of a flow with a rule.
func (f flow) label() uint32 {
	ports := uint32(f.nearPort)*uint32(f.farPort) + uint32(f.nearPort^f.farPort)
	return weight(roam.L64(f.near), roam.L64(f.far), ports+uint32(f.proto)<<24)&labelMask | 1
}

// flow returns the flow of a packet, given the port of this host first or last; false: it has none.
func (t *step) flow(near, far roam.NID, outward bool) (flow, bool) {
	if !t.c.isWhole() || t.c.proto != ip6.TCP && t.c.proto != ip6.UDP {
		return flow{}, false
	}
	from, to, ok := t.k.ports(t.c.at)
	if !outward {
		from, to = to, from
	}
	return flow{near, far, from, to, t.c.proto}, ok
}

// noteFlow notes by which path a packet has come, if the peer has marked it.
func (t *step) noteFlow(p *Session) {
	f, ok := t.flow(t.dst.NID, t.src.NID, false)
	b, whole := t.k.load(0, 4)
	switch {
	case !p.is(Answers) || !ok || !whole:
	case binary.BigEndian.Uint32(b)&labelMask == f.label():
		t.s.answers[f] = flowEnds{t.dst.L64, t.src.L64}
	default:
		delete(t.s.answers, f)
	}
}

// ruledPath returns the path of a packet that a rule of this host or of the peer chooses, or -1.
func (t outward) ruledPath(p *Session) (int, turn) {
	f, whole := t.flow(p.LocalNID, p.RemoteNID, true)
	rule := t.matching(p)
	if rule < 0 {
		if !whole {
			return -1, turn{}
		}
		return t.s.answerPath(p, f), turn{}
	}
	keep := t.c.proto == ip6.TCP && p.is(PerFlow)
	from, to, _ := t.k.ports(t.c.at)
	i, way := t.s.tablePath(p, p.RuleTables[rule], portsOf(from, to), keep)
	if i >= 0 && whole && t.s.Rules[rule].OnePath {
		t.out.Label = f.label()
	}
	return i, way
}

// matching returns the first rule of a session that matches the packet, or -1.
func (t outward) matching(p *Session) int {
	_, to, ok := t.k.ports(t.c.at)
	if !ok || t.c.fragment == laterFragment || t.c.proto != ip6.TCP && t.c.proto != ip6.UDP {
		return -1
	}
	for i, r := range t.s.Rules {
		if p.Rules>>i&1 != 0 && r.Port == to {
			return i
		}
	}
	return -1
}

// answerPath returns the path that leads back to where a flow came from, or -1.
func (s *State) answerPath(p *Session, f flow) int {
	e, is := s.answers[f]
	if !p.is(Answers) || !is {
		return -1
	}
	for i := range p.Paths {
		u, remote := s.uplink(p, i), p.path(i).Remote
		if (i < p.NPaths || i >= p.NPaths+p.NReserve+p.NRuled) && u.Usable && u.L64 == e.near &&
			p.Remote[remote] == e.far && p.Unvalidated>>remote&1 == 0 {
			return i
		}
	}
	return -1
}
