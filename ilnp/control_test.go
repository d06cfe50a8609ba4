package ilnp

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// overNIDs has a packet summed over NIDs.
func overNIDs(t testing.TB, packet []byte) []byte {
	t.Helper()
	if err := ilnpwire.FinishOverNIDs(packet); err != nil {
		t.Fatal(err)
	}
	return packet
}

// openMute sets up a session with a correspondent that has answered no probe.
func (b *bench) openMute() {
	b.t.Helper()
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Names: []string{"peer"}, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
	// The one who answered is who it says; only its probes are without an answer.
	b.sessions[theKey].confirmed = true
	b.forget()
}

// sums returns, of the control messages of a type that were sent, which are over NIDs.
func (b *bench) sums(typ uint8) (list []bool) {
	b.t.Helper()
	for _, s := range b.sent {
		p, err := ilnpwire.ParseControl(s.Packet, testPort)
		if err != nil {
			b.t.Fatal(err)
		}
		if p.Type == typ && !p.Encapsulated {
			list = append(list, p.OverNIDs)
		}
	}
	return list
}

// replyOverNIDs answers a probe over NIDs.
func (b *bench) replyOverNIDs(p ilnpwire.Packet) {
	b.t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	packet, err := ilnpwire.BuildEcho(p.Dst, p.Src, peerNonce, false, e.ID, e.Seq, e.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.receive(1, overNIDs(b.t, packet))
}

// An update is acknowledged with its own body, in its own form and by its own rule.
func TestUpdatesAreAnsweredInKind(t *testing.T) {
	for _, form := range []ilnpwire.Form{ilnpwire.FormRFC, ilnpwire.FormDraft, ilnpwire.FormLinux} {
		for _, nids := range []bool{false, true} {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			lu := updateOf(entry(netQ, 10, 0), entry(netR, 7, 30))
			lu.Operation, lu.Form = ilnpwire.Advertisement, form
			want := []roam.L64{netR}
			switch form {
			case ilnpwire.FormDraft:
				lu.Code = ilnpwire.CodeReplaceSoft
			case ilnpwire.FormLinux: // in order, whatever stands behind the locator
				lu.Locators[0].Preference, want = 1<<20, []roam.L64{netQ}
			}
			packet := b.update(netP, peerNonce, lu)
			if nids {
				packet = overNIDs(t, packet)
			}
			b.receive(1, packet)
			acks := b.messages(ilnpwire.Acknowledgement)
			if len(acks) != 1 || !reflect.DeepEqual(acks[0], lu.Ack()) {
				t.Fatalf("form %v: acknowledged with %+v, want %+v", form, acks, lu.Ack())
			}
			if got := b.sums(ilnpwire.TypeLocatorUpdate); !slices.Equal(got, []bool{nids}) {
				t.Errorf("form %v: over NIDs %v, want %v", form, got, nids)
			}
			if got := b.targets(); !slices.Equal(got, want) {
				t.Errorf("form %v: sends to %v, want %v", form, got, want)
			}
			if p := b.entries[theKey]; (p.ICMPRule == RuleRFC6741) != nids {
				t.Errorf("form %v: ICMPv6 by rule %v, over NIDs %v", form, p.ICMPRule, nids)
			}
			if got, want := b.Peers(b.now)[0].ICMPRule, b.entries[theKey].ICMPRule.String(); got != want {
				t.Errorf("form %v: people are shown %q, want %q", form, got, want)
			}
			b.forget()
			b.prefix(2, netB, roam.Infinite)
			if own := b.updates(); len(own) != 1 || own[0].Form != form || !slices.Equal(b.sums(ilnpwire.TypeLocatorUpdate), []bool{nids}) {
				t.Errorf("form %v: own update %+v, over NIDs %v, want %v", form, own, b.sums(ilnpwire.TypeLocatorUpdate), nids)
			}
		}
	}
}

// While the rule is unknown repetitions alternate; what comes back settles it.
func TestUpdatesAlternateRules(t *testing.T) {
	b := newBench(t)
	b.openMute()
	b.prefix(2, netB, roam.Infinite)
	b.pass(2 * time.Second)
	if got := b.sums(ilnpwire.TypeLocatorUpdate); len(got) < 3 || !slices.Equal(got[:3], []bool{false, true, true}) {
		t.Fatalf("over NIDs: %v, want every second one, from each of two sources", got)
	}
	list := b.updates()
	b.receive(1, overNIDs(t, b.update(netP, peerNonce, list[0].Ack())))
	if b.count(UpdateAcked) != 1 || b.entries[theKey].ICMPRule != RuleRFC6741 || b.sessions[theKey].icmp != icmpTakesNIDs {
		t.Fatalf("acknowledged %d times, ICMPv6 by rule %v", b.count(UpdateAcked), b.entries[theKey].ICMPRule)
	}
	b.forget()
	b.prefix(3, netC, roam.Infinite)
	b.pass(5 * time.Second)
	if got := b.sums(ilnpwire.TypeLocatorUpdate); len(got) < 2 || !got[0] || got[1] {
		t.Errorf("over NIDs: %v, want the first one, as that rule was answered", got)
	}
	// An answer by another rule than what was asked is its own.
	b.sessions[theKey].icmp = icmpSought
	b.forget()
	b.prefix(4, netS, roam.Infinite)
	b.receive(1, overNIDs(t, b.update(netP, peerNonce, b.updates()[0].Ack())))
	if got := b.sessions[theKey].icmp; got != icmpOverNIDs {
		t.Errorf("rule %v after an answer over NIDs to one that was not", got)
	}
}

// An acknowledgement in the form of our update shows no form of its own: people may
// want another one later.
func TestAcksRepeatTheForm(t *testing.T) {
	b := newBench(t, func(c *Config) { c.DraftLU = true })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.AddPeer(b.now, Peer{NID: peerNID, DraftLU: true, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.sessions[theKey].form = ilnpwire.FormDraft
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	if k := b.known[peerNID]; b.count(UpdateAcked) != 1 || k.shown || k.form != ilnpwire.FormDraft {
		t.Fatalf("acknowledged %d times, the record has %+v", b.count(UpdateAcked), k.control)
	}
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	if k := b.known[peerNID]; k.form != ilnpwire.FormRFC {
		t.Errorf("form %v after people want that of the RFC", k.form)
	}
}

// Roam takes the ordinary rule, and is known by its probes.
func TestRoamIsNotAskedOverNIDs(t *testing.T) {
	b := newBench(t)
	b.openMute()
	b.HandleActivity(b.now, []Activity{{Key: theKey, Asks: true}})
	b.drain()
	b.prefix(2, netB, roam.Infinite)
	b.remember(t)
	b.pass(60 * time.Second)
	updates, probes := b.sums(ilnpwire.TypeLocatorUpdate), b.sums(ilnpwire.TypeEchoRequest)
	if len(updates) < updateTries || len(probes) < 3 || slices.Contains(updates, true) || slices.Contains(probes, true) {
		t.Errorf("updates over NIDs %v, probes %v, want none", updates, probes)
	}
	if !b.RunsRoam(theKey) || b.RunsRoam(SessionKey{ownNID, 9}) {
		t.Error("who runs Roam is not known")
	}
}

// The second probe of a round is over NIDs. A reply over NIDs to that one may have come
// from a host that leaves the sum as it was: it settles the rule of probes alone.
func TestProbesAlternateRules(t *testing.T) {
	b := newBench(t)
	b.openMute()
	b.remember(t)
	b.pass(3 * time.Second)
	if got := b.sums(ilnpwire.TypeEchoRequest); len(got) < 3 || got[0] == got[1] || got[1] == got[2] {
		t.Fatalf("over NIDs: %v, want every second one", got)
	}
	for _, p := range b.probesSent() {
		if p.OverNIDs {
			b.replyOverNIDs(p)
			break
		}
	}
	r := b.Peers(b.now)[0].Locators[0]
	if !r.Validated || b.sessions[theKey].icmp != icmpTakesNIDs {
		t.Fatalf("locator %+v, rule %v", r, b.sessions[theKey].icmp)
	}
	b.forget()
	b.prefix(2, netB, roam.Infinite)
	b.pass(5 * time.Second)
	if got := b.sums(ilnpwire.TypeLocatorUpdate); len(got) < 2 || !got[0] || got[1] {
		t.Errorf("updates over NIDs: %v, want every second one from the first on", got)
	}
	b.receive(1, b.update(netP, peerNonce, b.updates()[0].Ack()))
	if s := b.sessions[theKey]; s.icmp != icmpOrdinary {
		t.Errorf("rule %v after an acknowledgement by the ordinary one", s.icmp)
	}
}

// Of a correspondent whose rule is known to be the ordinary one, a reply over NIDs to a
// probe over NIDs changes nothing; one to a probe by the ordinary rule does.
func TestReflectedSumsAreNoSign(t *testing.T) {
	b := newBench(t)
	b.openMute()
	b.remember(t)
	b.pass(time.Second)
	probes := b.probesSent()
	for _, p := range probes {
		if !p.OverNIDs {
			b.reply(p, peerNonce)
			break
		}
	}
	for _, p := range probes {
		if p.OverNIDs {
			b.replyOverNIDs(p)
			break
		}
	}
	if s := b.sessions[theKey]; s.icmp != icmpOrdinary || b.entries[theKey].ICMPRule != RuleIPv6 {
		t.Fatalf("rule %v", s.icmp)
	}
	b.forget()
	b.remember(t)
	b.pass(time.Second)
	for _, p := range b.probesSent() {
		b.replyOverNIDs(p)
		break
	}
	if s := b.sessions[theKey]; s.icmp != icmpOverNIDs {
		t.Errorf("rule %v after a reply with a sum of its own", s.icmp)
	}
}

// Once an exchange was given up both rules are tried, whatever was known.
func TestGivenUpUpdatesTryBothRules(t *testing.T) {
	b := newBench(t)
	b.openMute()
	b.sessions[theKey].icmp = icmpOverNIDs
	b.prefix(2, netB, roam.Infinite)
	b.pass(time.Minute)
	if b.count(UpdateFailed) != 1 {
		t.Fatalf("given up %d times", b.count(UpdateFailed))
	}
	got := b.sums(ilnpwire.TypeLocatorUpdate)
	if first := got[:updateTries]; slices.Contains(first, false) {
		t.Errorf("over NIDs: %v, want all", first)
	}
	if rest := got[updateTries:]; len(rest) < 2 || !slices.Contains(rest, false) || !slices.Contains(rest, true) {
		t.Errorf("later over NIDs: %v, want both", rest)
	}
}

// remember has the locator unvalidated again, so that it is probed.
func (b *bench) remember(t *testing.T) {
	t.Helper()
	s := b.sessions[theKey]
	for i := range s.remotes {
		s.remotes[i].validated = false
	}
	s.echoes = true // updates do not take the place of probes
	b.restartProbes(b.now, s)
	b.drain()
}

// What has not the right nonce teaches nothing, under either rule and in any form.
func TestForgeriesTeachNothing(t *testing.T) {
	wrong := Nonce{Len: 4, Bytes: [12]byte{9}}
	for _, form := range []ilnpwire.Form{ilnpwire.FormRFC, ilnpwire.FormLinux} {
		for _, op := range []ilnpwire.Operation{ilnpwire.Advertisement, ilnpwire.Acknowledgement} {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			before, record := *b.sessions[theKey], b.known[peerNID].profile
			lu := updateOf(entry(netQ, 10, 30))
			lu.Form, lu.Operation = form, op
			b.receive(1, overNIDs(t, b.update(netP, wrong, lu)))
			if s := b.sessions[theKey]; s.profile != before.profile || b.known[peerNID].profile != record || len(b.sent) != 0 {
				t.Errorf("form %v, operation %v: profile %+v, sent %d", form, op, s.profile, len(b.sent))
			}
			if n := b.RejectedInput()[reasonWrongNonce]; n != 1 {
				t.Errorf("form %v, operation %v: refusals %v", form, op, b.RejectedInput())
			}
		}
	}
}

// What was learned serves later sessions, and a successor.
func TestControlIsRemembered(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	lu := updateOf(entry(netP, 10, 30))
	lu.Form = ilnpwire.FormLinux
	b.receive(1, overNIDs(t, b.update(netP, peerNonce, lu)))
	want := control{form: ilnpwire.FormLinux, shown: true, icmp: icmpOverNIDs}
	if k := b.known[peerNID]; k.control != want {
		t.Fatalf("the record has %+v, want %+v", k.control, want)
	}
	told := Peer{NID: peerNID, Names: []string{"peer"}, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}}
	if !b.Knows(told) {
		t.Error("what a peer has shown counts as another record")
	}
	b.AddPeer(b.now, told)
	next := newBench(t)
	if err := next.Restore(b.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]control{"record": b.known[peerNID].control, "successor's session": next.sessions[theKey].control, "successor's record": next.known[peerNID].control} {
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A kernel that takes the first entry of a list acknowledges that one alone.
func TestAckOfFormLinux(t *testing.T) {
	for _, c := range []struct {
		list []ilnpwire.LocatorEntry
		want int
	}{
		{[]ilnpwire.LocatorEntry{entry(netB, 77, 0)}, 1},
		{[]ilnpwire.LocatorEntry{entry(netB, 10, 30), entry(netA, 10, 30)}, 1},
		{[]ilnpwire.LocatorEntry{entry(netA, 10, 30)}, 0},
		{[]ilnpwire.LocatorEntry{entry(netB, 10, 30), entry(netA, 10, 30), entry(netC, 10, 30)}, 0},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.prefix(2, netB, roam.Infinite)
		ack := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Form: ilnpwire.FormLinux, Locators: c.list}
		b.receive(2, overNIDs(t, b.update(netP, peerNonce, ack)))
		if n := b.count(UpdateAcked); n != c.want {
			t.Errorf("%v acknowledges %d times, want %d", c.list, n, c.want)
		}
	}
}

// A stack that has shown to be another one gets nothing in UDP.
// A pending peer is asked by the other rule before it is asked in UDP, unless its packets
// are probes as Roam's.
func TestPendingPeersAreAskedByBothRules(t *testing.T) {
	for found, want := range map[FoundRule][]string{NotFound: {"ordinary", "over NIDs", "udp"}, FoundProbe: {"ordinary", "udp"}} {
		b := newBench(t, withUDP)
		b.prefix(1, netA, roam.Infinite)
		b.see(Observation{Trigger: SeenPending, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA},
			Nonce: peerNonce, OwnNonce: Nonce{Len: 4, Bytes: [12]byte{7}}, Found: found, Bytes: 800})
		b.accounts.received(b.now, roam.ILV{NID: peerNID, L64: netP}, 800, 10)
		b.pass(pendingFirst * 16)
		var got []string
		for _, x := range b.sent {
			p, err := ilnpwire.ParseControl(x.Packet, testPort)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, map[bool]string{false: "ordinary", true: "over NIDs"}[p.OverNIDs])
			if p.Encapsulated {
				got[len(got)-1] = "udp"
			}
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%v: asked %v, want first %v", found, got, want)
		}
	}
}

// A refusal names the session that the packet claims to be of.
func TestRefusalsNameThePeer(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	packet := b.update(netP, peerNonce, updateOf(entry(netQ, 10, 30)))
	packet[len(packet)-1] ^= 1
	b.receive(1, packet)
	i := slices.IndexFunc(b.events, func(e Event) bool { return e.Kind == Refused })
	if i < 0 || b.events[i].Reason != reasonMalformed || b.events[i].Key != theKey {
		t.Fatalf("events %+v", b.events)
	}
	if Suspicious(reasonMalformed) || Suspicious(reasonOlderAck) || !Suspicious(reasonWrongNonce) || !Suspicious(reasonForged) {
		t.Error("faults and attacks are mixed up")
	}
}
