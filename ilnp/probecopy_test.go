package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// copies returns what the core wanted copied, and when, since the session began.
func (b *bench) copies(d time.Duration) (segments, datagrams []time.Duration) {
	b.t.Helper()
	began := epoch
	for b.now.Sub(began) < d {
		b.other = nil
		b.pass(time.Millisecond)
		for _, o := range b.other {
			switch o, is := o.(Copy); {
			case is && o.Datagram:
				datagrams = append(datagrams, b.now.Sub(began))
			case is:
				segments = append(segments, b.now.Sub(began))
			}
		}
	}
	return segments, datagrams
}

// begin makes the session by a first packet of ours, to a peer of that profile.
func (b *bench) begin(p Peer) {
	b.t.Helper()
	b.prefix(1, netA, roam.Infinite)
	p.NID, p.Locators = peerNID, []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}
	b.AddPeer(b.now, p)
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
}

// The first segment goes under the other rule 150 ms behind the first packet, the first
// datagram 200 ms behind it if no echo was answered, or two round trips where these are
// known; plain IPv6 is tried when the answers to both had their time.
func TestFirstPacketsAreCopied(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		peer                Peer
		rtt                 time.Duration // of an earlier session
		then                func(b *bench)
		segments, datagrams []time.Duration
		falls               time.Duration // 0: never
	}{
		"nothing known":        {Peer{}, 0, nil, []time.Duration{150 * ms}, []time.Duration{200 * ms}, 950 * ms},
		"the rule is known":    {Peer{Rule: RuleRFC6741, RuleFixed: true}, 0, nil, nil, nil, 950 * ms},
		"a short way":          {Peer{}, 50 * ms, nil, []time.Duration{150 * ms}, []time.Duration{200 * ms}, 950 * ms},
		"a long way":           {Peer{}, 600 * ms, nil, []time.Duration{150 * ms}, []time.Duration{1200 * ms}, 1900 * ms},
		"an echo was answered": {Peer{}, 0, (*bench).answerProbes, []time.Duration{150 * ms}, nil, 0},
		"the rule is shown": {Peer{}, 0, func(b *bench) {
			b.answerProbes()
			b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundRFC6741})
		}, nil, nil, 0},
		"it has no ILNP":         {Peer{}, 0, func(b *bench) { b.see(Observation{Trigger: SeenRefusal, Key: theKey}) }, nil, nil, 1},
		"it is known to be Roam": {Peer{}, 0, func(b *bench) { b.sessions[theKey].asks = true }, nil, nil, 950 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			if c.rtt > 0 {
				b.AddPeer(b.now, Peer{NID: peerNID})
				b.known[peerNID].rtt = c.rtt
			}
			b.begin(c.peer)
			if c.then != nil {
				c.then(b)
			}
			segments, datagrams := b.copies(3 * time.Second)
			if !slices.Equal(segments, c.segments) || !slices.Equal(datagrams, c.datagrams) {
				t.Errorf("segments %v, datagrams %v, want %v, %v", segments, datagrams, c.segments, c.datagrams)
			}
			fell := time.Duration(0)
			for _, e := range b.events {
				if e.Kind == SessionFellBack {
					fell = max(e.Time.Sub(epoch), 1)
				}
			}
			if fell != c.falls {
				t.Errorf("fell back after %v, want %v", fell, c.falls)
			}
		})
	}
}

// Where only copies are answered the session takes the other rule for the more likely
// one, until a packet with the nonce shows which it is; nothing is kept of it beyond the
// session, and a rule that people fixed stays.
func TestOtherRuleIsGuessed(t *testing.T) {
	b := newBench(t)
	b.begin(Peer{})
	b.answerProbes()
	for _, want := range []ChecksumRule{RuleRFC6741, RuleIPv6, RuleRFC6741} {
		b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundOther})
		if p := b.entries[theKey]; p.Rule != want || !p.RuleSought || !p.NonceAlways {
			t.Fatalf("rule %v, sought: %v; want %v", p.Rule, p.RuleSought, want)
		}
	}
	if k := b.known[peerNID]; k.rule != RuleIPv6 || !k.sought {
		t.Error("the guess outlives the session")
	}
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundIPv6})
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundOther})
	if p := b.entries[theKey]; p.Rule != RuleIPv6 || p.RuleSought {
		t.Errorf("rule %v, sought: %v after a nonce showed it", p.Rule, p.RuleSought)
	}
	b = newBench(t)
	b.begin(Peer{Rule: RuleIPv6, RuleFixed: true})
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundOther})
	if p := b.entries[theKey]; p.Rule != RuleIPv6 {
		t.Error("a rule that people fixed changes")
	}
}

// Of a pending peer the first rule that it shows counts: a copy may follow.
func TestFirstRuleOfPendingPeersCounts(t *testing.T) {
	for _, first := range []FoundRule{FoundIPv6, FoundRFC6741} {
		k := &pendingPeer{}
		for _, f := range []FoundRule{NotFound, first, FoundProbe, FoundIPv6, FoundRFC6741} {
			k.learn(f)
		}
		if k.found != first || !k.runsRoam {
			t.Errorf("found %v, want %v", k.found, first)
		}
	}
}
