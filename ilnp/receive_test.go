package ilnp

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestRefusedInput: each is counted by its reason, and the session stays as it
// is.
func TestRefusedInput(t *testing.T) {
	wrong := Nonce{Len: 4, Bytes: [12]byte{9}}
	one := []ilnpwire.LocatorEntry{entry(netQ, 10, 100)}
	update := func(b *bench, n Nonce, list ...ilnpwire.LocatorEntry) []byte {
		return b.update(netP, n, ilnpwire.LocatorUpdate{Locators: list})
	}
	// patched changes one byte of the ICMPv6 message, which stands behind the
	// header and the nonce, and puts the checksum right again.
	patched := func(b *bench, offset int, v byte) []byte {
		p := update(b, peerNonce, one...)
		sum := uint32(p[50])<<8 | uint32(p[51])
		old, at := uint32(p[48+offset]), 8*(1-offset%2)
		sum = uint32(^uint16(sum)) + uint32(v)<<at + (0xffff - old<<at)
		sum = sum&0xffff + sum>>16
		sum = sum&0xffff + sum>>16
		p[48+offset], p[50], p[51] = v, byte(^uint16(sum)>>8), byte(^uint16(sum))
		return p
	}
	for _, c := range []struct {
		name   string
		packet func(b *bench) []byte
		reason string
	}{
		{"no packet", func(*bench) []byte { return nil }, reasonMalformed},
		{"truncated", func(b *bench) []byte { return update(b, peerNonce, one...)[:60] }, reasonMalformed},
		{"wrong checksum", func(b *bench) []byte {
			p := update(b, peerNonce, one...)
			p[50] ^= 1
			return p
		}, reasonMalformed},
		{"no nonce", func(b *bench) []byte {
			p := update(b, peerNonce, one...)
			p[5] -= 8 // the header with the nonce
			p[6] = p[40]
			return slices.Delete(p, 40, 48)
		}, reasonNoNonce},
		{"wrong nonce", func(b *bench) []byte { return update(b, wrong, one...) }, reasonWrongNonce},
		{"longer nonce", func(b *bench) []byte {
			return update(b, Nonce{Len: 12, Bytes: peerNonce.Bytes}, one...)
		}, reasonWrongNonce},
		{"nobody's", func(b *bench) []byte {
			p, _ := ilnpwire.BuildUpdate(roam.ILV{NID: 77, L64: netP}, roam.ILV{NID: ownNID, L64: netA}, peerNonce,
				ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: one})
			return p
		}, reasonNoSession},
		{"no locators", func(b *bench) []byte { return patched(b, 4, 0) }, reasonNoLocators},
		{"more locators than there are", func(b *bench) []byte { return patched(b, 4, 2) }, reasonMalformed},
		{"code 1", func(b *bench) []byte {
			return b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Code: 1, Form: ilnpwire.FormDraft, Locators: one})
		}, reasonCode},
		{"code 8", func(b *bench) []byte { return patched(b, 1, 8) }, reasonCode},
		{"operation 3", func(b *bench) []byte { return patched(b, 5, 3) }, reasonMalformed},
		{"multicast", func(b *bench) []byte { return update(b, peerNonce, entry(0xff02<<48, 10, 100)) }, reasonLocator},
		{"link-local", func(b *bench) []byte { return update(b, peerNonce, entry(0xfe80<<48, 10, 100)) }, reasonLocator},
		{"loopback", func(b *bench) []byte { return update(b, peerNonce, entry(0, 10, 100)) }, reasonLocator},
		{"session prefix", func(b *bench) []byte {
			return update(b, peerNonce, entry(netQ, 10, 100), entry(roam.DefaultSessionPrefix, 20, 100))
		}, reasonLocator},
		{"acknowledgement of nothing", func(b *bench) []byte {
			return b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: one})
		}, reasonUnexpected},
		{"echo request", func(b *bench) []byte {
			p, _ := ilnpwire.BuildEcho(roam.ILV{NID: peerNID, L64: netP}, roam.ILV{NID: ownNID, L64: netA}, peerNonce, true, 1, 1, nil)
			return p
		}, reasonUnexpected},
		{"short reply", func(b *bench) []byte {
			p, _ := ilnpwire.BuildEcho(roam.ILV{NID: peerNID, L64: netP}, roam.ILV{NID: ownNID, L64: netA}, peerNonce, false, 1, 1, nil)
			return p
		}, reasonMalformed},
		{"reply to nothing", func(b *bench) []byte {
			p, _ := ilnpwire.BuildEcho(roam.ILV{NID: peerNID, L64: netP}, roam.ILV{NID: ownNID, L64: netA}, peerNonce, false, 1, 1, make([]byte, 16))
			return p
		}, reasonToken},
		{"parameter problem about a live session", func(b *bench) []byte { return problem(b, netP, b.entries[theKey].LocalNonce, 2) }, reasonQuote},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			before := b.entries[theKey]
			b.receive(1, c.packet(b))
			if n := b.RejectedInput()[c.reason]; n != 1 {
				t.Errorf("refusals %v, want one for %q", b.RejectedInput(), c.reason)
			}
			if !sameEntry(before, b.entries[theKey]) || len(b.sent) != 0 {
				t.Errorf("bad input changed the session or was answered")
			}
			if b.count(Refused) != 1 {
				t.Errorf("%d events about it, want 1", b.count(Refused))
			}
		})
	}
}

// problem makes a Parameter Problem that quotes a packet of ours.
func problem(b *bench, from roam.L64, quoted Nonce, code uint8) []byte {
	b.t.Helper()
	us, them := roam.ILV{NID: ownNID, L64: netA}, roam.ILV{NID: peerNID, L64: from}
	q, err := ilnpwire.BuildEcho(us, them, quoted, true, 1, 1, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := ilnpwire.BuildError(them, us, Nonce{}, ilnpwire.ErrorMessage{
		Type: ilnpwire.TypeParameterProblem, Code: code, Param: 42, Quoted: q,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func TestFloodOfBadInputIsToldOncePerSecond(t *testing.T) {
	b := newBench(t)
	for range 1000 {
		b.receive(1, nil)
		b.pass(3 * time.Millisecond)
	}
	if n := b.count(Refused); n != 3 || b.RejectedInput()[reasonMalformed] != 1000 {
		t.Errorf("%d events about %d refusals in 3 s, want 3 about 1000", n, b.RejectedInput()[reasonMalformed])
	}
}

func TestUpdateOf255Locators(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	lu := ilnpwire.LocatorUpdate{}
	for i := range 255 {
		lu.Locators = append(lu.Locators, entry(netR+roam.L64(i)<<16, uint16(1000-i), 100))
	}
	b.receive(1, b.update(netP, peerNonce, lu))
	acks := b.messages(ilnpwire.Acknowledgement)
	if len(acks) != 1 || !slices.Equal(acks[0].Locators, lu.Locators) {
		t.Fatalf("%d acknowledgements, want one with the same body", len(acks))
	}
	state := b.Peers(b.now)[0]
	if len(state.Locators) != 256 {
		t.Errorf("%d locators kept, want all 255 and the dropped one in grace", len(state.Locators))
	}
	p := b.entries[theKey]
	b.wantTargets(netR + 254<<16)
	if len(p.Accept) != 256 {
		t.Errorf("%d locators accepted by the entry, want all that are kept", len(p.Accept))
	}
	for i, l := range p.Accept {
		if want := netR + roam.L64(254-i)<<16; i < 255 && l != want {
			t.Errorf("accepts %v as number %d, want the best ones first: %v", l, i, want)
		}
	}
}

func TestEqualLocatorsAreCutTo8(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	lu := ilnpwire.LocatorUpdate{}
	for i := range 20 {
		lu.Locators = append(lu.Locators, entry(netR+roam.L64(i)<<16, 10, 100))
	}
	b.receive(1, b.update(netR, peerNonce, lu))
	if n := len(b.targets()); n != MaxRemote {
		t.Errorf("sends to %d locators, want %d", n, MaxRemote)
	}
	if n := len(b.probesSent()); n != probesPerSession {
		t.Errorf("%d probes at once, want %d", n, probesPerSession)
	}
	b.pass(2 * time.Second)
	if n := len(b.probesSent()); n != MaxRemote {
		t.Errorf("%d probes, want one for each of %d", n, MaxRemote)
	}
}

func TestLifetimesOfAnUpdate(t *testing.T) {
	for _, c := range []struct {
		name     string
		draft    bool
		lifetime uint32
		want     time.Duration
	}{
		{"one second", false, 1, time.Second},
		{"the largest of the RFC form", false, 65535, 65535 * time.Second},
		{"a large one of the draft form", true, 100_000, 100_000 * time.Second},
		{"the largest of the draft form", true, 0xffff_ffff, roam.Infinite},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		lu := ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netQ, 10, c.lifetime)}}
		if c.draft {
			lu.Form, lu.Code = ilnpwire.FormDraft, ilnpwire.CodeReplaceSoft
		}
		b.receive(1, b.update(netQ, peerNonce, lu))
		b.wantTargets(netQ)
		if got := b.Peers(b.now)[0].Locators[0].Lifetime; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLifetimeZeroEndsALocator(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{
		entry(netP, 10, 0), entry(netQ, 20, 100),
	}}))
	b.wantTargets(netQ)
	// The last one is kept, however often it is ended.
	b.receive(1, b.update(netQ, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netQ, 10, 0)}}))
	b.wantTargets(netQ)
	b.receive(1, b.update(netQ, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netR, 10, 0)}}))
	if len(b.targets()) != 1 {
		t.Error("an update of ended locators left the session without any")
	}
	if len(b.messages(ilnpwire.Acknowledgement)) != 3 {
		t.Error("not every update was acknowledged")
	}
}

func TestRemoteLifetimesRunOut(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netQ, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{
		entry(netQ, 10, 5), entry(netR, 20, 60),
	}}))
	b.wantTargets(netQ)
	b.pass(6 * time.Second)
	b.wantTargets(netR)
	if !slices.Contains(b.entries[theKey].Accept, netQ) {
		t.Error("packets in flight from a locator past its lifetime are not accepted")
	}
	b.pass(11 * time.Second)
	if slices.Contains(b.entries[theKey].Accept, netQ) {
		t.Error("still accepted after its grace")
	}
	b.pass(2 * time.Minute)
	b.wantTargets(netR) // past its lifetime, but the only one
	shown := b.Peers(b.now)[0].Locators
	if len(shown) != 2 || shown[0].State != Expired || shown[1].L64 != netQ || shown[1].State != Aged {
		t.Errorf("shown as %+v, want netR EXPIRED and netQ AGED", shown)
	}
}

// TestAgedLocatorIsTheLastResort: a locator past its lifetime is asked when the
// others are silent, and sent to if it answers; an update that does not list it
// ends that, and no more than a few are kept.
func TestAgedLocatorIsTheLastResort(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 5), entry(netR, 20, 600))))
	b.answerProbes()
	b.pass(30 * time.Second)
	b.answerProbes()
	b.wantTargets(netR)
	b.forget()
	silence(b)
	b.answerProbesTo(netQ, peerNonce)
	b.pass(time.Second)
	b.wantTargets(netQ)
	if !slices.Contains(b.entries[theKey].Accept, netQ) {
		t.Error("sent to, and not accepted")
	}
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netR, 10, 600))))
	b.pass(11 * time.Second)
	if n := len(b.Peers(b.now)[0].Locators); n != 1 {
		t.Errorf("%d locators after an update that lists one", n)
	}
	for i := range roam.L64(10) {
		b.receive(1, b.update(netR, peerNonce, ilnpwire.LocatorUpdate{Form: ilnpwire.FormDraft, Code: ilnpwire.CodeAddSoft,
			Locators: []ilnpwire.LocatorEntry{entry(netQ+i<<16, 10, 1)}}))
		b.pass(2 * time.Second)
	}
	b.pass(time.Minute)
	if n := len(b.Peers(b.now)[0].Locators); n != 1+maxAged {
		t.Errorf("%d locators are kept, want %d past their lifetime", n, maxAged)
	}
}

func TestGraceOfDroppedLocators(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netQ, 10, 100)}}))
	b.wantTargets(netQ)
	b.pass(9 * time.Second)
	if !slices.Contains(b.entries[theKey].Accept, netP) {
		t.Error("dropped locator not accepted any more after 9 s")
	}
	b.pass(2 * time.Second)
	if slices.Contains(b.entries[theKey].Accept, netP) {
		t.Error("dropped locator still accepted after 11 s")
	}
}

func TestDraftCodes(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	send := func(code uint8, list ...ilnpwire.LocatorEntry) {
		b.receive(1, b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Code: code, Form: ilnpwire.FormDraft, Locators: list}))
		b.answerProbes()
	}
	send(ilnpwire.CodeReplaceSoft, entry(netP, 10, 100))
	send(ilnpwire.CodeAddSoft, entry(netQ, 10, 100))
	b.wantTargets(netP, netQ)
	send(ilnpwire.CodeAddHard, entry(netR, 10, 100))
	b.wantTargets(netP, netQ, netR)
	send(ilnpwire.CodeDeleteSoft, entry(netP, 10, 100), entry(netR, 10, 100))
	b.wantTargets(netQ)
	send(ilnpwire.CodeDeleteHard, entry(netQ, 10, 100))
	b.wantTargets(netQ) // the last one stays
	send(ilnpwire.CodeReplaceHard, entry(netR, 10, 100))
	b.wantTargets(netR)
}

func TestRepeatedLocatorInAnUpdate(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{
		entry(netQ, 10, 100), entry(netR, 20, 100), entry(netQ, 30, 0),
	}}))
	b.wantTargets(netQ)
}

// isAck reports whether a packet that was sent acknowledges a Locator Update.
func (b *bench) isAck(x Transmit) bool {
	lu, err := ilnpwire.ParseLocatorUpdate(b.parse(x).Payload)
	return err == nil && lu.Operation == ilnpwire.Acknowledgement
}

// TestNothingGoesToWithdrawnLocatorsAfterTheAcknowledgement: the data plane is
// told before the correspondent is.
func TestNothingGoesToWithdrawnLocatorsAfterTheAcknowledgement(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.HandlePacket(b.now, 1, b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netQ, 10, 100)}}))
	told := false
	for out, ok := b.Poll(); ok; out, ok = b.Poll() {
		switch out := out.(type) {
		case Upsert:
			told = told || !slices.ContainsFunc(out.Entry.Paths, func(p Path) bool { return p.Remote == netP })
		case Transmit:
			if b.isAck(out) && !told {
				t.Error("acknowledged while the data plane still sends to what was withdrawn")
			}
		}
	}
	if !told {
		t.Error("the data plane was never told")
	}
}

// TestWhereAcknowledgementsGo: to the source of the update when it is listed,
// else to the best listed one; from where it was received.
func TestWhereAcknowledgementsGo(t *testing.T) {
	for _, c := range []struct {
		name string
		from roam.L64
		link roam.LinkID
		list []ilnpwire.LocatorEntry
		want Path
	}{
		{"source listed", netQ, 1, []ilnpwire.LocatorEntry{entry(netP, 5, 9), entry(netQ, 10, 9)}, Path{roam.LinkLocator{Link: 1, L64: netA}, netQ}},
		{"source not listed, the best one has its probe", netP, 1, []ilnpwire.LocatorEntry{entry(netR, 20, 9), entry(netQ, 10, 9)}, Path{roam.LinkLocator{Link: 1, L64: netA}, netP}},
		{"source not listed, the best one ended", netP, 1, []ilnpwire.LocatorEntry{entry(netQ, 10, 0), entry(netR, 20, 9)}, Path{roam.LinkLocator{Link: 1, L64: netA}, netP}},
		{"source not listed, the best one validated", netP, 1, []ilnpwire.LocatorEntry{entry(netR, 20, 9), entry(netS, 10, 9)}, Path{roam.LinkLocator{Link: 1, L64: netA}, netS}},
		{"received on a link that is not ours", netQ, 7, []ilnpwire.LocatorEntry{entry(netQ, 10, 9)}, Path{roam.LinkLocator{Link: 2, L64: netB}, netQ}},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.prefix(2, netB, roam.Infinite)
		b.open(netP, netS)
		b.receive(c.link, b.update(c.from, peerNonce, ilnpwire.LocatorUpdate{Locators: c.list}))
		i := slices.IndexFunc(b.sent, func(x Transmit) bool { return b.isAck(x) })
		if i < 0 {
			t.Fatalf("%s: no acknowledgement sent", c.name)
		}
		p := b.parse(b.sent[i])
		got := Path{roam.LinkLocator{Link: b.sent[i].Link, L64: p.Src.L64}, p.Dst.L64}
		if got != c.want || p.TrafficClass != ilnpwire.TrafficClassCS6 || p.Nonce != b.entries[theKey].LocalNonce {
			t.Errorf("%s: acknowledgement %v, want %v, in CS6 and with our nonce", c.name, got, c.want)
		}
	}
}

// TestAcknowledgementDoesNotStray: an update that came to a locator which is
// not listed any more is acknowledged from one that is.
func TestAcknowledgementDoesNotStray(t *testing.T) {
	b := newBench(t, inMode(Hard))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.forget()
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 100))))
	acks := slices.DeleteFunc(slices.Clone(b.sent), func(x Transmit) bool { return !b.isAck(x) })
	if len(acks) != 1 {
		t.Fatalf("%d acknowledgements, want one", len(acks))
	}
	for _, x := range b.sent { // beside it, the path in use is probed
		if b.parse(x).Src.L64 != netB {
			t.Errorf("a packet leaves from %v, want the listed locator", b.parse(x).Src.L64)
		}
	}
}

func FuzzHandlePacket(f *testing.F) {
	b := &bench{t: &testing.T{}}
	f.Add(b.update(netQ, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netQ, 10, 100)}}))
	f.Add(problem(b, netP, peerNonce, 2))
	f.Fuzz(func(t *testing.T, packet []byte) {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.receive(1, packet)
		b.pass(time.Minute)
		if len(b.entries) != 1 || len(b.entries[theKey].Paths) == 0 {
			t.Error("one packet ended the session")
		}
	})
}

// TestRandomPackets feeds packets with bytes changed at random to sessions in
// all states.
func TestRandomPackets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	good := b.update(netQ, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{entry(netQ, 10, 100), entry(netR, 20, 100)}})
	for range 20_000 {
		p := slices.Clone(good)
		for range 1 + r.IntN(3) {
			p[r.IntN(len(p))] = byte(r.Uint32())
		}
		b.HandlePacket(b.now, 1, p[:r.IntN(len(p)+1)])
	}
	b.drain()
	if len(b.entries) != 1 {
		t.Error("session is gone")
	}
}
