package ilnphost

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// seeking is a rig with a session whose rule is sought.
func seeking(t *testing.T, change ...func(*ilnp.Entry)) *rig {
	t.Helper()
	r := segmented(t)
	p := entryFor(there)
	p.RuleSought, p.NonceUntil, p.Grace = true, time.Now().Add(time.Hour), 10*time.Millisecond
	for _, f := range change {
		f(&p)
	}
	r.upsert(p)
	return r
}

// initiated makes the session one whose peer has not answered yet.
func initiated(p *ilnp.Entry) { p.State, p.RemoteNonce, p.Grace = ilnp.Initiated, ilnp.Nonce{}, 0 }

// probe copies returns how many copies a packet of ours makes.
func (r *rig) copies(proto uint8, body []byte) uint64 {
	r.t.Helper()
	return r.counted(func() { r.egress(toPeer(proto, body)) })["tx_probe_copy"]
}

// later makes so much time pass for what goes under both rules.
func (r *rig) later(ms uint32) {
	r.t.Helper()
	r.setLive(ilnp.SessionKey{Local: ours, Remote: theirs}, func(l *noted) {
		if l.SoughtSince != 0 {
			l.SoughtSince -= ms
		}
		if l.CopySent != 0 {
			l.CopySent -= ms
		}
	})
}

// While no answer shows the rule, first packets go under both once one has waited for
// 200 ms or two round trips, and so do no other ones.
func TestProbeCopy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ilnp.Entry)
		wait   uint32 // ms
		want   uint64
	}{
		"sought":                  {initiated, 201, 1},
		"too early":               {initiated, 90, 0},
		"two round trips":         {func(p *ilnp.Entry) { p.Grace = 900 * time.Millisecond }, 440, 0},
		"and more":                {func(p *ilnp.Entry) { p.Grace = 900 * time.Millisecond }, 901, 1},
		"an echo was answered":    {func(p *ilnp.Entry) {}, 201, 1},
		"the rule is known":       {func(p *ilnp.Entry) { p.RuleSought = false }, 201, 0},
		"without nonce":           {func(p *ilnp.Entry) { p.Encap = true }, 201, 0},
		"it never answers either": {initiated, 31000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := seeking(t, c.change)
			for i, step := range []struct {
				proto uint8
				body  []byte
				wait  uint32
				want  uint64
			}{
				{ip6.TCP, tcp(flagSYN, 0), 0, 0},
				{ip6.TCP, tcp(flagSYN, 0), 0, 0}, // of another connection
				{ip6.TCP, tcp(flagSYN, 0), c.wait, c.want},
				{ip6.TCP, tcp(flagSYN, 0), 0, 0},
				{ip6.TCP, tcp(flagACK, 9), 0, 0}, // no handshake ends without showing the rule
				{ip6.UDP, udp(9), c.wait, c.want},
				{ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 1, 0, 1}, c.wait, 0}, // the same under both rules
			} {
				r.later(step.wait)
				if got := r.copies(step.proto, step.body); got != step.want {
					t.Errorf("packet %d: %d probe copies, want %d", i, got, step.want)
				}
			}
		})
	}
}

// Of a peer that asks as Roam does, our guess is as good as its own.
func TestNoProbeCopyForRoam(t *testing.T) {
	r := seeking(t)
	r.copies(ip6.UDP, udp(9))
	r.ingress(echo(t, there, theirNonce, true, 7))
	r.later(500)
	if got := r.copies(ip6.UDP, udp(9)); got != 0 {
		t.Errorf("%d probe copies", got)
	}
}

// marked makes the packet of a test run one that the daemon sends once more.
func marked(o *ebpf.RunOptions) {
	o.Context = skbContext{Mark: CopyMark, Ifindex: uint32(loopback)}
}

// A copy of a first packet leaves under the other rule, with the nonce, unless an answer
// or the rule is there by then.
func TestCopy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ilnp.Entry)
		before func(r *rig)
		sent   bool
	}{
		"nothing came":         {initiated, func(*rig) {}, true},
		"an echo was answered": {func(*ilnp.Entry) {}, func(*rig) {}, true},
		"the other guess":      {func(p *ilnp.Entry) { p.Rule = ilnp.RuleRFC6741 }, func(*rig) {}, true},
		"the rule is known":    {func(p *ilnp.Entry) { p.RuleSought = false }, func(*rig) {}, false},
		"it fell back":         {func(p *ilnp.Entry) { p.State = ilnp.Plain }, func(*rig) {}, false},
		"data has no nonce":    {func(p *ilnp.Entry) { p.Encap = true }, func(*rig) {}, false},
		"its answer shows the rule": {initiated, func(r *rig) {
			r.ingress(under(ilnp.FoundIPv6, false, at(there, theirs), theirNonce, ip6.TCP, tcp(flagSYN|flagACK, 0)))
		}, false},
		"its answer has no nonce": {func(*ilnp.Entry) {}, func(r *rig) {
			r.ingress(under(ilnp.FoundIPv6, false, at(there, theirs), ilnp.Nonce{}, ip6.TCP, tcp(flagSYN|flagACK, 0)))
		}, false},
		"it is Roam": {func(*ilnp.Entry) {}, func(r *rig) { r.ingress(echo(t, there, theirNonce, true, 7)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := seeking(t, c.change)
			c.before(r)
			guess := ilnp.FoundRFC6741
			if name == "the other guess" {
				guess = ilnp.FoundIPv6
			}
			for _, b := range [][]byte{toPeer(ip6.TCP, tcp(flagSYN, 0)), toPeer(ip6.UDP, udp(30))} {
				var v int
				var out []byte
				got := r.counted(func() { v, out = r.egress(b, marked) })
				if !c.sent {
					if v != consumed {
						t.Errorf("verdict %d", v)
					}
					r.wantCounts(name, got, counts{"tx_probe_copy_moot": 1})
					continue
				}
				q, err := ilnpwire.ParsePacket(out)
				r.must(err)
				if v != redirect || !soundUnder(guess, q) || q.Nonce != ourNonce {
					t.Errorf("verdict %d, %+v", v, q)
				}
				r.wantCounts(name, got, counts{"tx_probe_copy": 1, "tx_packets": 1, "tx_nonce": 1})
			}
		})
	}
}

// bareAnswer is a datagram without nonce that answers one of udp().
func bareAnswer(ports ...byte) []byte {
	b := udp(20)
	b[0], b[1], b[2], b[3] = b[2], b[3], b[0], b[1]
	if len(ports) > 0 {
		b[3] = ports[0]
	}
	return under(ilnp.FoundIPv6, false, at(there, theirs), ilnp.Nonce{}, ip6.UDP, b)
}

// Where only what goes under both rules is answered, it is the other rule that gets
// there. Answers to anything else, or at any other time, say nothing, and what bears no
// nonce is only a guess.
func TestOnlyProbeCopiesAreAnswered(t *testing.T) {
	copied := func(r *rig) {
		r.t.Helper()
		r.copies(ip6.UDP, udp(9))
		r.later(250)
		if r.copies(ip6.UDP, udp(9)) != 1 {
			r.t.Fatal("no probe copy")
		}
		for range 5 {
			r.copies(ip6.UDP, udp(9))
		}
	}
	for name, c := range map[string]struct {
		answers func(r *rig)
		want    []EventKind
	}{
		"each probe copy once": {func(r *rig) {
			for range 2 {
				copied(r)
				r.ingress(bareAnswer())
			}
		}, []EventKind{RuleSeen}},
		"one of them": {func(r *rig) { copied(r); r.ingress(bareAnswer()); copied(r); copied(r) }, nil},
		"what went under our guess as well": {func(r *rig) {
			for range 4 {
				copied(r)
				r.ingress(bareAnswer())
				r.ingress(bareAnswer())
			}
		}, nil},
		"other ports": {func(r *rig) {
			for range 4 {
				copied(r)
				r.ingress(bareAnswer(7))
			}
		}, nil},
		"too late": {func(r *rig) {
			for range 4 {
				copied(r)
				r.later(100)
				r.ingress(bareAnswer())
			}
		}, nil},
		"before any": {func(r *rig) {
			for range 4 {
				r.copies(ip6.UDP, udp(9))
				r.ingress(bareAnswer())
			}
		}, nil},
		"from elsewhere": {func(r *rig) {
			for range 4 {
				copied(r)
				b := bareAnswer()
				copy(b[8:], at(else1, theirs).Addr().AsSlice())
				r.ingress(b)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := seeking(t)
			c.answers(r)
			evs := r.events()
			var kinds []EventKind
			for _, ev := range evs {
				if ev.Kind == RuleSeen {
					kinds = append(kinds, ev.Kind)
					if ev.Found != ilnp.FoundOther || ev.Key != (ilnp.SessionKey{Local: ours, Remote: theirs}) {
						t.Errorf("event %+v", ev)
					}
				}
			}
			if len(kinds) != len(c.want) {
				t.Errorf("events %+v, want %v", evs, c.want)
			}
		})
	}
	r := seeking(t)
	for range 2 {
		copied(r)
		r.ingress(bareAnswer())
	}
	r.events()
	r.ingress(under(ilnp.FoundRFC6741, false, at(there, theirs), theirNonce, ip6.UDP, udp(9)))
	if evs := r.events(); len(evs) != 1 || evs[0].Found != ilnp.FoundRFC6741 {
		t.Errorf("the first nonce behind that shows no rule: %+v", evs)
	}
}
