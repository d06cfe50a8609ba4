package ilnphost

import (
	"testing"
	"time"

	"roam"
)

// appearing is a contact of two hosts that have had one before. Meanwhile the first one has moved to a network that
// the record of the other one lists, or does not.
type appearing struct {
	name       string
	ended      bool // the session of before has ended
	reboots    func(w *proving) []*Node
	peerMoves  bool          // and its record is a new one, as a look-up would find
	challenges bool          // a challenge is due: the peer has lost the counter of the last offer
	most       time.Duration // to the first answer
}

// contact makes the contact as soon as the host has its new network, and returns how long the first answer took, and
// whether there was a challenge.
func (a appearing) contact(t *testing.T, listed bool) (took time.Duration, challenged bool) {
	t.Helper()
	record := []roam.L64{netA}
	if listed {
		record = append(record, netB)
	}
	w := newProving(t, 1, record...)
	w.startEvery(t, 20*time.Millisecond, true).Stop()
	if a.ended {
		w.Run(20 * time.Minute)
		if p := w.server.peer(w.mobile); !p.Since.IsZero() {
			t.Fatalf("%s: the session is still there: %+v", a.name, p)
		}
	}
	w.mobile.Down(1)
	server := []roam.L64{netS}
	if a.peerMoves {
		w.server.Down(1)
		w.server.Up(2, netT, near, roam.Infinite)
		server = []roam.L64{netT}
	}
	for _, h := range a.reboots(w) {
		h.Reboot()
	}
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.know(t, w.mobile, w.server, server...)
	w.know(t, w.server, w.mobile, record...)
	had, from := w.count["challenge"], w.Now()
	f := w.mobile.Flow(w.server, 20*time.Millisecond, true)
	if !w.RunUntil(time.Minute, func() bool { return f.Answered > 0 }) {
		t.Errorf("%s, listed %t: no answer in a minute", a.name, listed)
	}
	took, challenged = w.Now().Sub(from), w.count["challenge"] > had
	w.Run(time.Second)
	w.wantProved(t)
	w.finish(t, f)
	return took, challenged
}

// TestKeyedAppearsAnywhere: a host that is paired by key has its first answer from a network that no record lists as
// soon as from one that the record lists: without a session, after reboots of either end or of both, and where both
// have moved. A challenge takes one round trip more. Where one end has rebooted, the other one asks the nonce of its
// session first.
func TestKeyedAppearsAnywhere(t *testing.T) {
	none := func(*proving) []*Node { return nil }
	first := func(w *proving) []*Node { return []*Node{w.mobile} }
	second := func(w *proving) []*Node { return []*Node{w.server} }
	both := func(w *proving) []*Node { return []*Node{w.mobile, w.server} }
	for _, a := range []appearing{
		{name: "no session lives", ended: true, reboots: none, most: pathRTT},
		{name: "both have moved", ended: true, reboots: none, peerMoves: true, most: pathRTT},
		{name: "it has rebooted", reboots: first, most: 12 * pathRTT},
		{name: "its peer has rebooted", reboots: second, challenges: true, most: 20 * pathRTT},
		{name: "both have rebooted", reboots: both, challenges: true, most: 2 * pathRTT},
	} {
		listed, n := a.contact(t, true)
		unlisted, m := a.contact(t, false)
		t.Logf("%-21s  listed %5v, unlisted %5v, challenged %t and %t", a.name, listed, unlisted, n, m)
		if unlisted > listed || unlisted > a.most {
			t.Errorf("%s: %v from an unlisted network, %v from a listed one; at most %v", a.name, unlisted, listed, a.most)
		}
		if n != a.challenges || m != a.challenges {
			t.Errorf("%s: challenged %t from a listed network, %t from an unlisted one", a.name, n, m)
		}
	}
}
