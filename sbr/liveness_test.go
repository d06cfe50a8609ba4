package sbr

import (
	"bytes"
	"cmp"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// watched is a border whose probes an outside node answers by some providers.
type watched struct {
	*border
	answers map[roam.L64]bool          // by which site locators
	rtts    map[roam.L64]time.Duration // of these; else that of pass
	lose    map[roam.L64]int           // answers that are lost
	due     []answer
	probes  int
}

// answer is one on its way to the border.
type answer struct {
	at     time.Time
	packet []byte
}

func newWatched(t *testing.T) *watched {
	w := &watched{border: newBorder(t), answers: map[roam.L64]bool{siteA: true, siteB: true}}
	w.HandleFlow(w.now, seenFlow, []roam.L64{siteA, siteB})
	w.drain()
	w.sent = nil
	w.Watch(w.now)
	return w
}

// pass lets time pass, and the outside node answer after a round trip.
func (w *watched) pass(d, rtt time.Duration) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.until(w.now.Add(time.Millisecond))
		for _, s := range w.sent {
			m, err := ilnp.ParseControl(s.Packet, port)
			if err != nil || m.Type != ilnp.TypeEchoRequest {
				continue
			}
			w.probes++
			e, err := ilnp.ParseEcho(m.Payload)
			if err != nil || e.ID != theProbe.ID || m.Nonce != outward || m.Dst != theirs {
				w.Fatalf("a probe is %+v %+v, %v", m, e, err)
			}
			b, err := ilnp.BuildEcho(m.Dst, m.Src, inward, false, e.ID, e.Seq, e.Data)
			if m.Encapsulated && err == nil {
				b, err = ilnp.Encapsulate(b, port)
			}
			if err != nil {
				w.Fatal(err)
			}
			if w.lose[m.Src.L64] > 0 {
				w.lose[m.Src.L64]--
			} else if w.answers[m.Src.L64] {
				w.due = append(w.due, answer{w.now.Add(cmp.Or(w.rtts[m.Src.L64], rtt)), b})
			}
		}
		w.sent = nil
		slices.SortStableFunc(w.due, func(a, b answer) int { return a.at.Compare(b.at) })
		for len(w.due) > 0 && !w.due[0].at.After(w.now) {
			w.HandlePacket(w.now, Packet{Bytes: w.due[0].packet})
			w.drain()
			w.due = w.due[1:]
		}
	}
}

func (w *watched) leaves() []roam.L64 { return w.Table().Inside[internal].locators() }

// A provider that passes nothing any more is left within three seconds, and announced no more;
// when it answers again it is used again.
func TestSilentProvider(t *testing.T) {
	w := newWatched(t)
	w.pass(5*time.Second, 50*time.Millisecond)
	if n := len(w.leaves()); n != 2 || w.probes < 8 || w.probes > 14 {
		t.Fatalf("%d locators, %d probes in 5 s", n, w.probes)
	}
	installs := len(w.installs)
	w.answers[siteA] = false
	w.pass(3*time.Second, 50*time.Millisecond)
	if l := w.leaves(); !slices.Equal(l, []roam.L64{siteB}) || !w.IsSilent(siteA) || len(w.installs) != installs+1 {
		t.Fatalf("packets leave from %v", l)
	}
	if a := w.announced; len(a) == 0 || !slices.Equal(a[len(a)-1].Locators, []roam.L64{siteB}) {
		t.Errorf("announced %+v", a)
	}
	w.answers[siteA] = true
	w.pass(5*time.Second, 50*time.Millisecond)
	if n := len(w.leaves()); n != 2 || w.IsSilent(siteA) {
		t.Errorf("back: %d locators", n)
	}
	w.answers[siteB] = false
	w.pass(3*time.Second, 50*time.Millisecond)
	w.HandleSites(w.now, []Site{{siteA, 1, true}, {siteB, 2, false}})
	w.HandleSites(w.now, bothUp)
	if n := len(w.leaves()); n != 2 {
		t.Errorf("a link that went and came is not judged anew: %d locators", n)
	}
}

// Nothing is judged where the outside node is gone, is slow, or where one answer in three is lost.
func TestNotSilent(t *testing.T) {
	w := newWatched(t)
	w.pass(20*time.Second, 1200*time.Millisecond)
	if n := len(w.leaves()); n != 2 {
		t.Errorf("slow: %d locators", n)
	}
	for i := range 60 {
		w.answers[siteA] = i%3 > 0
		w.pass(checkAgain, 20*time.Millisecond)
	}
	if n := len(w.leaves()); n != 2 {
		t.Errorf("with losses: %d locators", n)
	}
	w.answers = nil
	w.pass(time.Minute, 50*time.Millisecond)
	if n := len(w.leaves()); n != 2 {
		t.Errorf("gone: %d locators", n)
	}
	// The only provider stays, whatever it does.
	w.HandleSites(w.now, []Site{{siteA, 1, true}})
	w.probes = 0
	if w.pass(time.Minute, 50*time.Millisecond); w.probes != 0 || len(w.leaves()) != 1 {
		t.Errorf("one provider: %d probes, %v", w.probes, w.leaves())
	}
}

// becomes lets time pass until a provider is silent, or is not, and returns how long that took.
func (w *watched) becomes(l roam.L64, silent bool, within time.Duration) time.Duration {
	w.Helper()
	began := w.now
	for w.IsSilent(l) != silent {
		if w.now.Sub(began) > within {
			w.Fatalf("after %v: silent is %v, want %v", within, !silent, silent)
		}
		w.pass(time.Millisecond, 20*time.Millisecond)
	}
	return w.now.Sub(began)
}

// A slow provider beside a fast one stays while it answers, whatever its round-trip time is, and also with one
// answer lost; once it is silent, it comes back when it answers again.
func TestSlowProvider(t *testing.T) {
	for _, rtt := range []time.Duration{400 * time.Millisecond, 900 * time.Millisecond, 1400 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			w := newWatched(t)
			w.rtts = map[roam.L64]time.Duration{siteA: rtt}
			w.pass(10*time.Second, 20*time.Millisecond)
			for range 5 {
				w.lose = map[roam.L64]int{siteA: 1}
				w.pass(4700*time.Millisecond, 20*time.Millisecond)
			}
			if w.IsSilent(siteA) || len(w.installs) != 2 {
				t.Errorf("with single losses: silent %v, %d tables", w.IsSilent(siteA), len(w.installs))
			}
			w.answers[siteA] = false
			w.pass(3*time.Second, 20*time.Millisecond)
			w.answers[siteA] = true
			w.pass(5*time.Second, 20*time.Millisecond)
			if w.IsSilent(siteA) {
				t.Error("silent 5 s after an outage of 3 s")
			}
			w.answers[siteA] = false
			left := w.becomes(siteA, true, 8*time.Second)
			w.pass(10*time.Second, 20*time.Millisecond)
			w.answers[siteA] = true
			t.Logf("silent after %v, back after %v", left, w.becomes(siteA, false, 8*time.Second))
		})
	}
}

// A slow provider delays no judgement about a fast one, and a round-trip time that grows by far makes a provider
// silent for a moment at most.
func TestFastBesideSlow(t *testing.T) {
	w := newWatched(t)
	w.pass(10050*time.Millisecond, 20*time.Millisecond)
	w.answers[siteB] = false
	if d := w.becomes(siteB, true, 4*time.Second); d > 2600*time.Millisecond {
		t.Errorf("silent after %v", d)
	}
	w.answers[siteB] = true
	w.becomes(siteB, false, 4*time.Second)
	w.rtts = map[roam.L64]time.Duration{siteA: 2 * time.Second}
	w.pass(10*time.Second, 20*time.Millisecond)
	if w.IsSilent(siteA) {
		t.Error("silent 10 s after the round-trip time has grown")
	}
}

// A provider whose answers take up to 0.3 s is found about as soon as a fast one, whenever in a round it dies: one in
// doubt is judged as soon as its answer is late, not with the next round in turn.
func TestDoubtIsJudgedSoon(t *testing.T) {
	for rtt, bound := range map[time.Duration]time.Duration{20: 2600, 160: 2600, 200: 2900, 250: 2900, 290: 2900} {
		for at := time.Duration(0); at < time.Second; at += 100 * time.Millisecond {
			w := newWatched(t)
			w.rtts = map[roam.L64]time.Duration{siteB: rtt * time.Millisecond}
			w.pass(10*time.Second+at, 20*time.Millisecond)
			w.answers[siteB] = false
			if d := w.becomes(siteB, true, 5*time.Second); d > bound*time.Millisecond {
				t.Errorf("round-trip time %d ms, dead %v into a second: silent after %v", rtt, at, d)
			}
		}
	}
}

// A link that went and came is judged anew: one lost round does not make its provider silent.
func TestJudgedAnew(t *testing.T) {
	w := newWatched(t)
	w.pass(5*time.Second, 50*time.Millisecond)
	w.answers[siteA] = false
	w.becomes(siteA, true, 4*time.Second)
	w.HandleSites(w.now, []Site{{siteA, 1, false}, {siteB, 2, true}})
	w.HandleSites(w.now, bothUp)
	installs := len(w.installs)
	w.lose = map[roam.L64]int{siteA: 1}
	w.answers[siteA] = true
	if w.pass(5*time.Second, 50*time.Millisecond); w.IsSilent(siteA) || len(w.installs) > installs+2 {
		t.Errorf("silent %v, %d tables", w.IsSilent(siteA), len(w.installs)-installs)
	}
}

// What is no answer to the border passes to the inside; an answer with another nonce counts for nothing.
func TestForeignAnswers(t *testing.T) {
	w := newWatched(t)
	w.answers = nil
	w.pass(100*time.Millisecond, 0)
	site := roam.ILV{L64: siteB, NID: insideNID}
	foreign, err := ilnp.BuildEcho(theirs, site, inward, false, theProbe.ID, 9, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	w.HandlePacket(w.now, Packet{Bytes: foreign})
	w.drain()
	if len(w.sent) != 1 || w.sent[0].Link != 9 {
		t.Fatalf("%+v, refused %v", w.sent, w.refused)
	}
	m, err := ilnp.ParsePacket(w.sent[0].Packet)
	if err != nil || m.Dst != mine || !bytes.Equal(m.Payload[8:], make([]byte, 16)) {
		t.Errorf("%+v, %v", m, err)
	}
	forged, err := ilnp.BuildEcho(theirs, site, outward, false, theProbe.ID, w.watch.seq,
		append(theProbe.Token[:], make([]byte, 8)...))
	if err != nil {
		t.Fatal(err)
	}
	w.HandlePacket(w.now, Packet{Bytes: forged})
	if w.drain(); !slices.Equal(w.refused, []Refusal{WrongNonce}) || w.watch.rounds[0].asked[siteB] == answered {
		t.Errorf("forged: refused %v", w.refused)
	}
}
