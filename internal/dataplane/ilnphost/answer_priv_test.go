package ilnphost

import (
	"encoding/binary"
	"testing"

	"roam"
	"roam/flowrule"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// labelOf returns the flow label of an IPv6 packet.
func labelOf(b []byte) uint32 { return binary.BigEndian.Uint32(b) & 0xfffff }

// cameBy is a datagram of the peer between ports, with a flow label.
func cameBy(src, dst roam.L64, from, to uint16, label uint32) []byte {
	u := udp(10)
	binary.BigEndian.PutUint16(u, from)
	binary.BigEndian.PutUint16(u[2:], to)
	b := packet(at(src, theirs), at(dst, ours), ip6.UDP, u)
	binary.BigEndian.PutUint32(b, 6<<28|label)
	return b
}

// answering is an established session whose peer has rules: it sends from here to there, and may
// answer to else1, which the peer holds in reserve, from here and from locB.
func answering(r *rig) ilnp.Entry {
	r.uplink(here, locB)
	p := entryFor(there)
	p.Answers = true
	for _, l := range []roam.L64{here, locB} {
		p.Back = append(p.Back, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: l}, Remote: else1})
	}
	p.Accept = []roam.L64{there, else1}
	r.upsert(p)
	r.settle(p.Key)
	return p
}

// wayOut returns the locators between which a datagram leaves.
func (r *rig) wayOut(from, to uint16) way {
	r.t.Helper()
	_, out := r.egress(datagramOn(from, to, 10))
	return way{roam.L64(binary.BigEndian.Uint64(out[8:])), roam.L64(binary.BigEndian.Uint64(out[24:]))}
}

// A rule that has one path for a flow marks its packets, the same label in both directions and
// another one for other flows; what no rule matches, and what is divided, keeps its label.
func TestMarks(t *testing.T) {
	for name, c := range map[string]struct {
		rule  flowrule.Rule
		marks bool
	}{
		"failover": {by("b", flowrule.Match{}), true},
		"flow":     {flowrule.Rule{Policy: flowrule.Flow}, true},
		"lowdelay": {flowrule.Rule{Policy: flowrule.LowDelay}, true},
		"equal":    {flowrule.Rule{Policy: flowrule.Equal}, false},
		"weighted": {weighted(share("a", 80), share("b", 20)), false},
		"adaptive": {flowrule.Rule{}, false},
		"others":   {by("b", flowrule.Match{Protocol: flowrule.TCP}), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ruledSession(r, flowRules(c.rule), there)
			sent := func(from, to uint16) []byte {
				b := datagramOn(from, to, 10)
				binary.BigEndian.PutUint32(b, 6<<28|46<<22|7)
				_, out := r.egress(b)
				if got := binary.BigEndian.Uint32(out) >> 20; got != 6<<8|46<<2 {
					t.Errorf("%s: version and class are %#x", name, got)
				}
				return out
			}
			one := labelOf(sent(1000, 2000))
			if is := one != 7; is != c.marks {
				t.Errorf("%s: label %#x", name, one)
			}
			if c.marks && (labelOf(sent(2000, 1000)) != one || labelOf(sent(1000, 2001)) == one || one == 0) {
				t.Errorf("%s: labels %#x, %#x and %#x", name, one, labelOf(sent(2000, 1000)), labelOf(sent(1000, 2001)))
			}
		})
	}
}

// What came with the mark of its flow is answered there, on the compact path of ingress and on the
// full one; another label, of the same flow or of another one, has no effect and ends it.
func TestAnswerPath(t *testing.T) {
	r := newRig(t)
	ruledSession(r, flowRules(by("b", flowrule.Match{})), there)
	_, out := r.egress(datagramOn(5000, 443, 10))
	mark := labelOf(out)
	p := answering(r)
	normal, back, also := way{here, there}, way{here, else1}, way{locB, else1}
	for _, c := range []struct {
		name     string
		src, dst roam.L64
		label    uint32
		nonce    bool
		want     way
	}{
		{"before anything", 0, 0, 0, false, normal},
		{"another label", else1, here, mark ^ 2, false, normal},
		{"with the mark", else1, here, mark, false, back},
		{"to another locator", else1, locB, mark, false, also},
		{"without it", else1, here, 0, false, normal},
		{"again, with a nonce", else1, here, mark, true, back},
		{"where it is sent anyway", there, here, mark, false, normal},
	} {
		if c.src != 0 {
			b := cameBy(c.src, c.dst, 443, 5000, c.label)
			if c.nonce {
				u := b[ip6.HeaderLen:]
				b = packet(at(c.src, theirs), at(c.dst, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, u))
				binary.BigEndian.PutUint32(b, 6<<28|c.label)
			}
			if v, _ := r.ingress(b); v != passOn {
				t.Errorf("%s: verdict %d", c.name, v)
			}
		}
		if got := r.wayOut(5000, 443); got != c.want {
			t.Errorf("%s: leaves by %v, want %v", c.name, got, c.want)
		}
		if got := r.wayOut(5000, 444); got != normal {
			t.Errorf("%s: another flow leaves by %v", c.name, got)
		}
	}
	r.ingress(cameBy(else1, here, 443, 5000, mark))
	uplinks := func(ls ...roam.L64) { r.t.Helper(); r.uplink(ls...) }
	for name, c := range map[string]struct {
		change func(p *ilnp.Entry)
		want   way
	}{
		"as before":                   {func(*ilnp.Entry) {}, back},
		"without that path":           {func(p *ilnp.Entry) { p.Back = p.Back[1:] }, normal},
		"locator no more validated":   {func(p *ilnp.Entry) { p.Unvalidated = []roam.L64{else1} }, normal},
		"the peer has no rules":       {func(p *ilnp.Entry) { p.Answers = false }, normal},
		"two paths in use, one of it": {func(p *ilnp.Entry) { p.Paths, p.Back = append(p.Paths, p.Back[0]), nil }, back},
	} {
		q := p
		p.Seq++
		q.Seq = p.Seq
		c.change(&q)
		r.upsert(q)
		if got := r.wayOut(5000, 443); got != c.want {
			t.Errorf("%s: leaves by %v, want %v", name, got, c.want)
		}
	}
	p.Seq++
	r.upsert(p)
	uplinks(locB)
	if got := r.wayOut(5000, 443); got == back {
		t.Error("leaves by a link that does not work")
	}
}

// A rule of this host for a flow decides about it, also one that leaves it to the session, or
// none of whose links works.
func TestOwnRuleBeforeAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		rule flowrule.Rule
		want way
	}{
		"link":     {by("b", flowrule.Match{}), way{locB, there}},
		"adaptive": {flowrule.Rule{}, way{here, there}},
		"no link":  {by("none", flowrule.Match{}), way{here, there}},
		"others":   {by("b", flowrule.Match{Protocol: flowrule.TCP}), way{here, else1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := ruledSession(r, flowRules(by("b", flowrule.Match{})), there)
			_, out := r.egress(datagramOn(5000, 443, 10))
			q := answering(r)
			r.ingress(cameBy(else1, here, 443, 5000, labelOf(out)))
			r.uplink(locA, locB, locC)
			number := r.nextRules()
			r.writeRules(number, flowRules(c.rule))
			q.Seq, q.Rules, q.Ruled = p.Seq+5, ilnp.RuleUse{Mask: 1, Set: number}, p.Ruled[:1]
			obey(&q, flowrule.Set{c.rule})
			r.upsert(q)
			if got := r.wayOut(5000, 443); got != c.want {
				t.Errorf("%s: leaves by %v, want %v", name, got, c.want)
			}
		})
	}
}

// The wish of a peer stays until a probe that asks for a report does not have it.
func TestPeerAsksForAnswers(t *testing.T) {
	r := newRig(t)
	r.upsert(entryFor(there))
	probe := func(data []byte) bool {
		t.Helper()
		r.ingress(mustPacket(t)(ilnpwire.BuildEcho(at(there, theirs), at(here, ours), theirNonce, true, 7, 7, data)))
		acts, err := r.Activity(r.keys())
		r.must(err)
		return acts[0].AsksAnswers
	}
	asks := func(wish bool) []byte { return ilnpwire.Report{Answers: wish}.AppendRequest(nil, [16]byte{1}) }
	for i, c := range []struct {
		data []byte
		want bool
	}{
		{asks(false), false}, {asks(true), true}, {make([]byte, 16), true}, {asks(false), false}, {make([]byte, 20), false},
	} {
		if got := probe(c.data); got != c.want {
			t.Errorf("probe %d: asks %v, want %v", i, got, c.want)
		}
	}
}

// The answer to an echo request that is no probe is a packet of this host: the stack makes it, and
// the host's rules divide such answers. Without rules of its own the program answers, and
// probes always.
func TestEchoesUnderRules(t *testing.T) {
	r := newRig(t)
	rules := flowRules(weighted(share("a", 80), share("b", 20)))
	p := ruledSession(r, rules, there)
	data := make([]byte, 56)
	ping := mustPacket(t)(ilnpwire.BuildEcho(at(there, theirs), at(here, ours), theirNonce, true, 9, 7, data))
	probe := echo(t, there, theirNonce, true, 9)
	r.check([]verdictCase{
		{"ping", ping, passOn, deliveredNonce, nil},
		{"probe", probe, redirect, counts{"rx_echo_reflected": 1}, nil},
	})
	reply := toPeer(ip6.ICMPv6, append([]byte{ilnpwire.TypeEchoReply, 0, 0, 0, 0, 9, 0, 7}, data...))
	sent := map[roam.L64]int{}
	for range 100 {
		sent[r.from(reply)]++
	}
	if sent[locA] != 80 || sent[locB] != 20 {
		t.Errorf("of 100 answers %v leave, want 80 from %v and 20 from %v", sent, locA, locB)
	}
	p.Seq++
	p.Rules, p.Ruled, p.Answers = ilnp.RuleUse{}, nil, true
	r.upsert(p)
	r.check([]verdictCase{{"ping, rules of the peer alone", ping, redirect, counts{"rx_echo_reflected": 1}, nil}})
}
