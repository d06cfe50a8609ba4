package ilnp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// newProofBenchUDP is newProofBench with hosts that have a port for UDP.
func newProofBenchUDP(t *testing.T) *proofBench {
	p := newProofBench(t)
	p.a.cfg.UDPPort, p.b.cfg.UDPPort = testPort, testPort
	return p
}

// proofPath is the path of a proofBench at one end.
func proofPath(h *bench) Path {
	if h.cfg.NIDs[0] == peerNID {
		return Path{Local: roam.LinkLocator{Link: 1, L64: netP}, Remote: netA}
	}
	return Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}
}

// formsSent returns which control messages a host has sent, "UDP" or "option" in front, and forgets all.
func (p *proofBench) formsSent(h *bench) (list []string) {
	p.t.Helper()
	h.drain()
	for _, s := range h.sent {
		q, err := ilnpwire.ParseControl(s.Packet, testPort)
		if err != nil {
			p.t.Fatal(err)
		}
		form := "option "
		if q.Encapsulated {
			form = "UDP "
		}
		switch {
		case q.Proof != nil:
			list = append(list, form+[]string{"", "offer", "answer", "confirm", "challenge", "notice"}[q.Proof.Step])
		case q.Vouch != nil:
			list = append(list, form+"vouch")
		case q.Type == ilnpwire.TypeEchoRequest:
			list = append(list, form+"probe")
		}
	}
	h.forget()
	return list
}

// encapsulated gives a packet the other form.
func (p *proofBench) encapsulated(b []byte) []byte {
	p.t.Helper()
	b, err := ilnpwire.Encapsulate(b, testPort)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// TestProofForms: offers go in the form that passes on their path, and in both where none is known to pass.
func TestProofForms(t *testing.T) {
	for _, c := range []struct {
		udp, encap bool
		n          int
		want       []bool
	}{
		{false, false, 1, []bool{false}},
		{false, false, 2, []bool{false}},
		{false, true, 2, []bool{false}},
		{true, false, 1, []bool{false}},
		{true, false, 2, []bool{false, true}},
		{true, true, 1, []bool{true}},
		{true, true, 2, []bool{true}},
	} {
		p := newProofBenchUDP(t)
		if !c.udp {
			p.a.cfg.UDPPort = 0
		}
		s, path := &session{}, proofPath(p.a)
		s.setPassage(path, passage{encap: c.encap})
		if got := p.a.proofForms(s, path, c.n); !slices.Equal(got, c.want) {
			t.Errorf("with a port %t, encapsulated %t, the %d. time: %v, want %v", c.udp, c.encap, c.n, got, c.want)
		}
	}
}

// TestProofsInUDP: where options do not pass, the messages of a proof go in UDP, and the probes ahead of them, which
// have to pass the same way.
func TestProofsInUDP(t *testing.T) {
	for _, encap := range []bool{false, true} {
		form := map[bool]string{false: "option ", true: "UDP "}[encap]
		pass := func(p *proofBench, b []byte) []byte {
			if encap {
				return p.encapsulated(b)
			}
			return b
		}
		want := func(p *proofBench, h *bench, what string, messages ...string) {
			t.Helper()
			if got := p.formsSent(h); !slices.Equal(got, messages) {
				t.Errorf("in UDP %t, %s: %v, want %v", encap, what, got, messages)
			}
		}
		p := newProofBenchUDP(t)
		p.remember()
		_, offer := p.offer()
		p.formsSent(p.b)
		p.b.receive(1, pass(p, offer))
		b := p.session(p.b)
		if b == nil || b.agreed.encap != encap || b.encaps(proofPath(p.b)) != encap {
			t.Fatalf("in UDP %t: b's session is %+v", encap, b)
		}
		answer := b.agreed.last
		if got := p.formsSent(p.b); !slices.Contains(got, form+"answer") {
			t.Errorf("in UDP %t: the answer to the offer is %v", encap, got)
		}
		p.b.receive(1, pass(p, offer))
		want(p, p.b, "the same offer", form+"probe", form+"answer")
		b.passages = nil // it goes by turns on paths of which nothing is known
		handshakes{p.b.Core}.proveTimeout(p.b.now, b)
		want(p, p.b, "no confirmation", form+"probe", form+"answer")

		s := p.session(p.a)
		p.formsSent(p.a)
		p.a.receive(1, pass(p, p.sealed(1, netP, answer, b.localNonce, s.localNonce)))
		if s.state != Established || s.encaps(proofPath(p.a)) != encap {
			t.Errorf("in UDP %t: a's session is %v", encap, s.state)
		}
		if got := p.formsSent(p.a); !slices.Contains(got, form+"confirm") {
			t.Errorf("in UDP %t: the confirmation is %v", encap, got)
		}
		handshakes{p.a.Core}.renew(p.a.now, s)
		want(p, p.a, "offered anew", form+"probe", form+"offer")
	}
}

// TestFirstOfferInUDP: an offer without an answer goes in UDP long before it is repeated, along the path that it took,
// unless there is no port, or the round trip is as long. An answer to a challenge ends that.
func TestFirstOfferInUDP(t *testing.T) {
	both := []string{"option probe", "option offer", "UDP probe", "UDP offer"}
	for name, c := range map[string]struct {
		change     func(p *proofBench)
		soon, then []string // after proofUDP, after proofFirst
		at         time.Duration
	}{
		"nothing known": {at: proofUDP, soon: both[2:], then: both},
		"no port":       {change: func(p *proofBench) { p.a.cfg.UDPPort = 0 }, at: proofUDP, then: both[:2]},
		"a round trip": {
			change: func(p *proofBench) { p.a.known[peerNID].rtt = 100 * time.Millisecond },
			at:     150 * time.Millisecond, soon: both[2:], then: both,
		},
		"a long one": {change: func(p *proofBench) { p.a.known[peerNID].rtt = proofFirst }, at: proofUDP, then: both},
	} {
		p := newProofBenchUDP(t)
		if c.change != nil {
			c.change(p)
		}
		p.offer()
		p.formsSent(p.a)
		p.a.pass(c.at - time.Millisecond)
		if got := p.formsSent(p.a); len(got) > 0 {
			t.Errorf("%s, before %v: %v", name, c.at, got)
		}
		p.a.pass(time.Millisecond)
		if got := p.formsSent(p.a); !slices.Equal(got, c.soon) {
			t.Errorf("%s, after %v: %v, want %v", name, c.at, got, c.soon)
		}
		p.a.pass(proofFirst - c.at - time.Millisecond)
		if got := p.formsSent(p.a); len(got) > 0 {
			t.Errorf("%s, before %v: %v", name, proofFirst, got)
		}
		p.a.pass(time.Millisecond)
		if got := p.formsSent(p.a); !slices.Equal(got, c.then) {
			t.Errorf("%s, after %v: %v, want %v", name, proofFirst, got, c.then)
		}
	}
	a := newAsked(t)
	h := a.session(a.a).hs
	h.inUDP = proofPath(a.a)
	if a.answer(netP, a.challenge); h.inUDP != (Path{}) || len(h.offers) != 2 {
		t.Errorf("challenged: %d offers, in UDP %v", len(h.offers), h.inUDP)
	}
}

// TestAnswerOfAPathInUDP: an answer to an offer that came with the option goes in UDP on a path where only that passes,
// if the peer takes it; so does the notice of a copied key.
func TestAnswerOfAPathInUDP(t *testing.T) {
	for _, c := range []struct{ port, encap bool }{{true, true}, {true, false}, {false, true}} {
		p := newProofBenchUDP(t)
		p.remember()
		_, offer := p.offer()
		p.b.receive(1, offer)
		b := p.session(p.b)
		b.noUDP = !c.port
		b.setPassage(proofPath(p.b), passage{encap: c.encap})
		form := map[bool]string{false: "option ", true: "UDP "}[c.port && c.encap]
		p.formsSent(p.b)
		handshakes{p.b.Core}.proveTimeout(p.b.now, b)
		if got := p.formsSent(p.b); !slices.Contains(got, form+"answer") {
			t.Errorf("with a port %t, encapsulated %t: %v", c.port, c.encap, got)
		}
		p.b.tellCopied(p.b.now, b, []roam.L64{netQ})
		if got := p.formsSent(p.b); !slices.Equal(got, []string{form + "notice"}) {
			t.Errorf("with a port %t, encapsulated %t: %v", c.port, c.encap, got)
		}
	}
}

// TestVouchForms: a vouch goes in the form that passes, and by turns in both where that is not known. The offer waits
// for what it brings about.
func TestVouchForms(t *testing.T) {
	for _, c := range []struct {
		port, encap bool
		vouches     int
		form        string
	}{
		{true, false, 0, "option "},
		{true, false, 1, "UDP "},
		{true, false, 2, "option "},
		{true, true, 0, "UDP "},
		{false, false, 1, "option "},
	} {
		p, _ := heir(t)
		if c.port {
			p.a.cfg.UDPPort = testPort
		}
		p.lossy = func(ilnpwire.Packet) bool { return true }
		p.a.known[peerNID].vouches = c.vouches
		s := p.a.known[peerNID].initiated(SessionKey{heirNID, peerNID}, heirNID, ofB)
		s.setPassage(proofPath(p.a), passage{encap: c.encap})
		p.formsSent(p.a)
		if p.a.initiate(p.a.now, s); s.hs == nil {
			t.Fatal("no handshake")
		}
		if got, want := p.formsSent(p.a), []string{c.form + "probe", c.form + "vouch"}; !slices.Equal(got, want) {
			t.Errorf("with a port %t, encapsulated %t, after %d: %v, want %v", c.port, c.encap, c.vouches, got, want)
		}
		p.a.pass(proofFirst)
		if got := p.formsSent(p.a); len(got) == 0 || !strings.HasSuffix(got[len(got)-1], " offer") {
			t.Errorf("after %v: %v", proofFirst, got)
		}
	}
}
