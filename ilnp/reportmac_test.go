package ilnp

import (
	"testing"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// sealing is a keyed session of two paths with a peer that reports.
type sealing struct {
	*keyedBench
}

// openSealing opens one. Its peer has said nothing of reports so far.
func openSealing(t *testing.T) *sealing {
	t.Helper()
	k := &sealing{&keyedBench{bench: counting(t), secret: secretOf(t, 7)}}
	k.AddPeer(k.now, k.record())
	k.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	k.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
	k.sessions[theKey].asks = true
	k.answerProbes()
	k.meet()
	k.forget()
	return k
}

// ask returns a probe that asks for a report.
func (k *sealing) ask() ilnpwire.Packet {
	k.t.Helper()
	return k.askReports()[0]
}

// pathOf is the path of a probe.
func pathOf(p ilnpwire.Packet) Path {
	link := map[roam.L64]roam.LinkID{netA: 1, netB: 2, netC: 3}[p.Src.L64]
	return Path{Local: roam.LinkLocator{Link: link, L64: p.Src.L64}, Remote: p.Dst.L64}
}

// answer makes the data of an answer to a probe, with a MAC by a key.
func (k *sealing) answer(p ilnpwire.Packet, key []byte, r ilnpwire.Report, about Path) []byte {
	k.t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		k.t.Fatal(err)
	}
	return sealedReport(token(e.Data), key, r, about)
}

func sealedReport(t token, key []byte, r ilnpwire.Report, about Path) []byte {
	r.Counted, r.Epoch, r.Sealed = true, 1, true
	b := r.AppendReply(nil, t)
	mac := ilnpwire.ReportMAC([ilnpwire.MACKeyLen]byte(key), b, about.Remote, about.Local.L64)
	copy(b[ilnpwire.ReportLen:], mac[:])
	return b
}

// honest is what the peer's programs answer.
func (k *sealing) honest(p ilnpwire.Packet) []byte {
	n := ilnpwire.Counts{Packets: 7, Bytes: 700}
	return k.answer(p, k.peer.in, ilnpwire.Report{Clock: 5, Received: n, Sent: n}, pathOf(p))
}

// isAnswered reports whether a reply counted as an answer, and whether its report did.
func (k *sealing) isAnswered(p ilnpwire.Packet) (is, reported bool) {
	e := k.sessions[theKey].reports.estimates[pathOf(p)]
	if e == nil {
		return false, false
	}
	s := e.State(k.now)
	return s.RTT == 170*time.Millisecond, !s.Out.At.IsZero()
}

// TestReportForged: only a report with the MAC of this session, of this probe and of its path counts. All others are
// refused and counted, and are answers to the probe nevertheless.
func TestReportForged(t *testing.T) {
	flip := func(b []byte, at int) []byte { b[at] ^= 1; return b }
	other := func(p ilnpwire.Packet) Path {
		q := pathOf(p)
		q.Local.L64 ^= netA ^ netB
		return q
	}
	for name, c := range map[string]struct {
		reason string
		data   func(k *sealing, p ilnpwire.Packet) []byte
	}{
		"right": {"", func(k *sealing, p ilnpwire.Packet) []byte { return k.honest(p) }},
		"without a MAC": {reasonReportNoMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			return k.honest(p)[:ilnpwire.ReportLen]
		}},
		"truncated": {reasonReport, func(k *sealing, p ilnpwire.Packet) []byte {
			return k.honest(p)[:ilnpwire.SealedReportLen-1]
		}},
		"longer":        {reasonReport, func(k *sealing, p ilnpwire.Packet) []byte { return append(k.honest(p), 0) }},
		"another MAC":   {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte { return flip(k.honest(p), 79) }},
		"other counts":  {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte { return flip(k.honest(p), 39) }},
		"another clock": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte { return flip(k.honest(p), 31) }},
		"another epoch": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte { return flip(k.honest(p), 27) }},
		"no counts": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			b := k.honest(p)
			b[21] &^= 2
			return b
		}},
		"a key made up": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			return k.answer(p, make([]byte, 16), ilnpwire.Report{}, pathOf(p))
		}},
		"the other direction": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			return k.answer(p, k.peer.out, ilnpwire.Report{}, pathOf(p))
		}},
		"another session": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			key := directionKey(k.secret, ownNID, peerNID, forged, peerNonce)
			return k.answer(p, key, ilnpwire.Report{}, pathOf(p))
		}},
		"the other path": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			return k.answer(p, k.peer.in, ilnpwire.Report{}, other(p))
		}},
		"replayed": {reasonReportWrongMAC, func(k *sealing, p ilnpwire.Packet) []byte {
			earlier := sealedReport(token{9}, k.peer.in, ilnpwire.Report{}, pathOf(p))
			return append(k.honest(p)[:16:16], earlier[16:]...)
		}},
	} {
		k := openSealing(t)
		p := k.ask()
		if e, err := ilnpwire.ParseEcho(p.Payload); err != nil || len(e.Data) != ilnpwire.SealedReportLen {
			t.Fatalf("%s: the probe has %d bytes of data, %v", name, len(e.Data), err)
		}
		k.now = k.now.Add(20 * time.Millisecond)
		k.report(p, peerNonce, c.data(k, p))
		if is, reported := k.isAnswered(p); !is || reported != (c.reason == "") {
			t.Errorf("%s: answered %t, with a report %t", name, is, reported)
		}
		for _, reason := range []string{reasonReport, reasonReportNoMAC, reasonReportWrongMAC} {
			if n := k.RejectedInput()[reason]; (n == 1) != (reason == c.reason) {
				t.Errorf("%s: %d times %q, want %q", name, n, reason, c.reason)
			}
		}
		if !Suspicious(reasonReportNoMAC) || !Suspicious(reasonReportWrongMAC) {
			t.Error("the security log does not have it")
		}
	}
}

// TestReportAboutAnotherPathForged: a report about another path than that of its probe is bound to that.
func TestReportAboutAnotherPathForged(t *testing.T) {
	for name, right := range map[string]bool{"about that path": true, "about the probe's own": false} {
		k := openSealing(t)
		k.ask()
		s := k.sessions[theKey]
		by, about := s.entry.Paths[0], s.entry.Paths[1]
		k.forget()
		k.askAside(k.now, s, probe{path: by, about: about})
		k.drain()
		p := k.probesSent()[0]
		is := about
		if !right {
			is = by
		}
		data := k.answer(p, k.peer.in, ilnpwire.Report{Other: true}, is)
		k.report(p, peerNonce, data)
		if n := k.RejectedInput()[reasonReportWrongMAC]; (n == 0) != right {
			t.Errorf("%s: refused %d times", name, n)
		}
	}
}

// TestReportsOfBuildsBefore: a keyed peer that makes no MACs gives reports without one, after a few probes. One that
// has shown a MAC, by a report or by its proof, never does again, nor after a restart: it is asked for none for a
// while, and then, or when paths change, for one with a MAC again.
func TestReportsOfBuildsBefore(t *testing.T) {
	size := func(p ilnpwire.Packet) int { return len(p.Payload) - 8 }
	for name, show := range map[string]func(k *sealing){
		"before": func(*sealing) {},
		"after": func(k *sealing) {
			p := k.ask()
			k.report(p, peerNonce, k.honest(p))
			k.now = k.now.Add(suppressedLately)
		},
		"proven": func(k *sealing) { k.sessions[theKey].agreed = &agreement{reports: true, confirmed: true} },
	} {
		k := openSealing(t)
		show(k)
		s := k.sessions[theKey]
		isBefore := name == "before"
		if sealsReports(s) == isBefore || isSavedSealing(k.bench) == isBefore {
			t.Errorf("%s: sure %t, saved %t", name, sealsReports(s), isSavedSealing(k.bench))
		}
		asked := 0
		for s.asksReport() && s.reports.macs != macsNone && asked < 10 {
			for _, p := range k.askReports() {
				if asked++; size(p) != ilnpwire.SealedReportLen {
					t.Errorf("%s: a request of %d bytes", name, size(p))
				}
			}
			k.answerProbes() // as they went
		}
		if asked < reportsUnfilled || s.asksReport() != isBefore || (s.reports.macs == macsNone) != isBefore {
			t.Errorf("%s: after %d answers it asks for reports %t, %v", name, asked, s.asksReport(), s.reports.macs)
		}
		if !isBefore {
			k.wantPause(name)
			continue
		}
		p := k.ask()
		_, data := dataOf(t, p)
		k.report(p, peerNonce, data)
		if _, reported := k.isAnswered(p); size(p) != ilnpwire.ReportLen || !reported || len(k.RejectedInput()) > 0 {
			t.Errorf("%s: a request of %d bytes, answered with a report: %t; %v", name, size(p), reported, k.RejectedInput())
		}
	}
}

// wantPause checks that a peer that has answered without reports is asked for none, until some time has passed or
// paths have changed, and what its report counts for then.
func (k *sealing) wantPause(name string) {
	k.t.Helper()
	s := k.sessions[theKey]
	for range 2 {
		k.now = s.reports.stopped.Add(suppressedPause - time.Second)
		k.forget()
		k.HandleActivity(k.now, []Activity{{Key: theKey, LastRx: k.now, LastTx: k.now, Asks: true}})
		k.drain()
		k.pass(150 * time.Millisecond)
		probes := k.probesSent()
		for _, p := range probes {
			if len(p.Payload) >= 8+ilnpwire.ReportLen {
				k.t.Errorf("%s: in the pause a request of %d bytes", name, len(p.Payload)-8)
			}
		}
		k.answerProbes()
		if len(probes) == 0 || s.asksReport() {
			k.t.Errorf("%s: in the pause %d probes, it asks for reports %t", name, len(probes), s.asksReport())
		}
		k.now = k.now.Add(time.Second)
		for asked := 0; asked < reportsUnfilled; { // each path is asked, though the answers of one bring none
			asked += len(k.askReports())
			k.answerProbes()
		}
	}
	paused := s.reports.stopped
	if s.asksReport() {
		k.t.Fatalf("%s: no pause after further answers", name)
	}
	k.prefix(3, netC, roam.Infinite)
	k.receive(1, k.ackOf(k.lastSent(ilnpwire.Advertisement)))
	if len(s.entry.Paths) != 3 {
		k.t.Fatalf("%s: %d paths", name, len(s.entry.Paths))
	}
	k.pass(150 * time.Millisecond)
	p := k.ask()
	if now := k.now.Sub(paused); now > suppressedPause/2 {
		k.t.Fatalf("%s: asked for reports %v after the pause began", name, now)
	}
	k.report(p, peerNonce, k.honest(p))
	if _, reported := k.isAnswered(p); !reported || !s.asksReport() {
		k.t.Errorf("%s: answered with a report %t, it asks for more %t", name, reported, s.asksReport())
	}
}

// TestReportsOfAPeerThatGetsTheKey: the programs of a peer may lack this host's key at first, and so make no MACs. With
// the first message that has one it is asked again, once.
func TestReportsOfAPeerThatGetsTheKey(t *testing.T) {
	k := openSealing(t)
	s := k.sessions[theKey]
	for _, want := range []reportMACs{macsSought, macsNone} {
		s.reports.macs, s.reports.unfilled = macsNone, reportsUnfilled
		k.receive(1, k.update(netP, peerNonce, updateOf(entry(netP, 0, 600))))
		if s.reports.macs != macsNone {
			t.Error("a message without a MAC counts")
		}
		k.receive(1, k.sealed(netP, updateOf(entry(netP, 0, 600))))
		if s.reports.macs != want || s.asksReport() != (want == macsSought) {
			t.Errorf("%v, want %v; it asks %t", s.reports.macs, want, s.asksReport())
		}
	}
	k = openSealing(t)
	s = k.sessions[theKey]
	k.prefix(3, netC, roam.Infinite)
	k.receive(1, k.ackOf(k.lastSent(ilnpwire.Advertisement)))
	s.reports.macs = macsNone
	k.receive(1, k.sealed(netP, updateOf(entry(netP, 0, 600))))
	if s.keys.acks.top == 0 || s.reports.macs != macsNone {
		t.Errorf("after an acknowledgement with the counter %d an update has it asked: %v", s.keys.acks.top, s.reports.macs)
	}
}

// TestWhenReportsResume: only a peer that makes MACs is asked again, when the pause is over.
func TestWhenReportsResume(t *testing.T) {
	for _, c := range []struct {
		unfilled, want int
		after          time.Duration
		sure           bool
	}{
		{reportsUnfilled, 0, suppressedPause, true},
		{reportsUnfilled, reportsUnfilled, suppressedPause, false},
		{reportsUnfilled, reportsUnfilled, suppressedPause - 1, true},
		{reportsUnfilled - 1, reportsUnfilled - 1, suppressedPause, true},
	} {
		r := pathReports{unfilled: c.unfilled, stopped: epoch}
		if r.resume(epoch.Add(c.after), c.sure); r.unfilled != c.want {
			t.Errorf("%+v: %d", c, r.unfilled)
		}
	}
}

// isSavedSealing reports whether a successor knows that the peer's reports have MACs.
func isSavedSealing(b *bench) bool {
	b.t.Helper()
	next, err := New(b.cfg)
	if err == nil {
		err = next.Restore(b.now, b.Export())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return sealsReports(next.sessions[theKey])
}

// TestReportWithoutMACInTime: what was asked for without a MAC does not count once the peer has shown one.
func TestReportWithoutMACInTime(t *testing.T) {
	k := openSealing(t)
	s := k.sessions[theKey]
	s.reports.macs = macsNone
	p := k.ask()
	_, data := dataOf(t, p)
	s.reports.macs = macsSure
	k.report(p, peerNonce, data)
	if n := k.RejectedInput()[reasonReportNoMAC]; n != 1 {
		t.Errorf("refused %d times", n)
	}
}

// TestReportWithAMACUnasked: a MAC counts only if it is right, though none was asked for.
func TestReportWithAMACUnasked(t *testing.T) {
	for name, wrong := range map[string]bool{"right": false, "wrong": true} {
		k := openSealing(t)
		s := k.sessions[theKey]
		s.reports.macs = macsNone
		p := k.ask()
		data := k.honest(p)
		if wrong {
			data[len(data)-1] ^= 1
		}
		k.now = k.now.Add(20 * time.Millisecond)
		k.report(p, peerNonce, data)
		_, reported := k.isAnswered(p)
		if n := k.RejectedInput()[reasonReportWrongMAC]; reported == wrong || (n == 1) != wrong || sealsReports(s) == wrong {
			t.Errorf("%s: with a report %t, refused %d times, sure %t", name, reported, n, sealsReports(s))
		}
	}
}

// TestReportsWithoutASecret: a session that is restored has no keys before its peer's is known, and asks for no report.
func TestReportsWithoutASecret(t *testing.T) {
	k := openSealing(t)
	s := k.sessions[theKey]
	p := k.ask()
	data := k.honest(p)
	s.keys.out, s.keys.in = nil, nil
	if s.asksReport() {
		t.Error("it asks for a report that it cannot check")
	}
	k.report(p, peerNonce, data)
	if n := k.RejectedInput()[reasonReportWrongMAC]; n != 1 {
		t.Errorf("refused %d times", n)
	}
}

// TestTrainForged: the time of arrival that the answer to a train says is a report, too.
func TestTrainForged(t *testing.T) {
	k := openSealing(t)
	s := k.sessions[theKey]
	pr := probe{path: s.entry.Paths[0], report: true, sealed: true, train: &pathTrain{Train: multipath.Train{}}}
	p := k.ask()
	parse := func(data []byte) ilnpwire.Packet {
		b, err := ilnpwire.BuildEcho(p.Dst, p.Src, peerNonce, false, 1, 1, data)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ilnpwire.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	right := k.answer(p, k.peer.in, ilnpwire.Report{Clock: 9}, pr.path)
	if a := k.arrivalOf(k.now, s, pr, parse(right)); !a.Timed || a.Clock != 9 {
		t.Errorf("%+v", a)
	}
	right[31]++
	if a := k.arrivalOf(k.now, s, pr, parse(right)); a.Timed || k.RejectedInput()[reasonReportWrongMAC] != 1 {
		t.Errorf("%+v of a forged one", a)
	}
}
