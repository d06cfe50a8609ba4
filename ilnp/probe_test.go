package ilnp

import (
	"testing"
	"time"

	"roam"
)

// probeBench has probes of one session under way: to netP at 0 s in the form of the RFCs,
// to netQ at 1 s so and in UDP.
func probeBench() (probes, *session) {
	s := &session{localNID: ownNID, remoteNID: peerNID}
	ps := probes{}
	for i, pr := range []probe{
		{path: Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}},
		{path: Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netQ}, sent: epoch.Add(time.Second)},
		{path: Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netQ}, sent: epoch.Add(time.Second), form: FormUDP},
	} {
		if pr.sent.IsZero() {
			pr.sent = epoch
		}
		pr.from = s
		t := token{byte(i)}
		ps[t] = &pr
		s.sent = append(s.sent, t)
	}
	return ps, s
}

// An answer counts if it comes between the nodes of the probe, from where that went.
func TestProbesAnsweredBy(t *testing.T) {
	ps, _ := probeBench()
	for name, c := range map[string]struct {
		token token
		nids  SessionKey
		from  roam.L64
		want  bool
	}{
		"right":         {token{0}, SessionKey{ownNID, peerNID}, netP, true},
		"another place": {token{0}, SessionKey{ownNID, peerNID}, netQ, false},
		"another node":  {token{0}, SessionKey{ownNID, ownNID}, netP, false},
		"another token": {token{9}, SessionKey{ownNID, peerNID}, netP, false},
	} {
		if _, ok := ps.answeredBy(c.token, c.nids, c.from); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// Probes are forgotten by age; those that were answered leave the list too.
func TestProbesForget(t *testing.T) {
	ps, s := probeBench()
	delete(ps, token{1}) // answered
	ps.forget(&s.sent, epoch)
	if len(ps) != 1 || len(s.sent) != 1 || s.sent[0] != (token{2}) {
		t.Errorf("%d probes, listed %v", len(ps), s.sent)
	}
	if ps.askAt(s.sent, netP) || !ps.askAt(s.sent, netQ) {
		t.Error("what is under way has changed places")
	}
}

// The last probe in the form of the RFCs counts, unless it is moot or leaves only now.
func TestProbesLast(t *testing.T) {
	ps, s := probeBench()
	now := epoch.Add(2 * time.Second)
	for name, c := range map[string]struct {
		now  time.Time
		at   roam.L64
		want bool
	}{
		"before":       {now, netQ, true},
		"at this time": {epoch.Add(time.Second), netQ, false},
		"elsewhere":    {now, netR, false},
	} {
		if pr, ok := ps.last(c.now, s.sent, c.at); ok != c.want || ok && pr.form != FormOption {
			t.Errorf("%s: %+v, %v", name, pr, ok)
		}
	}
	ps.drop(s.sent, Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netQ}, now)
	if _, ok := ps.last(now, s.sent, netQ); ok || ps[token{2}].moot {
		t.Error("not moot, or in the other form too")
	}
	if _, ok := ps.last(now, s.sent, netP); !ok {
		t.Error("that to another place is moot")
	}
}

// While the rule is sought, it turns with each probe that stays without an answer.
func TestProbesTurnTheRule(t *testing.T) {
	ps, s := probeBench()
	now := epoch.Add(2 * time.Second)
	if f := (profile{}); !ps.isSummedOverNIDs(now, f, s.sent, netP) || ps.isSummedOverNIDs(now, f, s.sent, netR) {
		t.Error("a first probe is by the ordinary rule, a second one is not")
	}
	pr := ps[token{0}]
	pr.overNIDs = true
	ps[token{0}] = pr
	if ps.isSummedOverNIDs(now, profile{}, s.sent, netP) {
		t.Error("the third one is by the rule of the second")
	}
	if ps.isSummedOverNIDs(now, profile{asks: true}, s.sent, netR) || !ps.isSummedOverNIDs(now, profile{control: control{icmp: icmpOverNIDs}}, s.sent, netR) {
		t.Error("a rule that is known does not count")
	}
}
