package ilnp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// air is what is between two hosts of a proofBench: packets are late, lost, doubled and overtaken.
type air struct {
	*proofBench
	r       *rand.Rand
	loss    float64
	least   time.Duration
	most    time.Duration // delay of one way
	flying  []flight
	talking bool // applications send
	since   time.Time
}

type flight struct {
	at     time.Time
	to     int
	packet []byte
}

// delays are the longest ones of random tests.
var delays = [...]time.Duration{
	50 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond,
}

func newAir(p *proofBench, seed uint64) *air {
	return &air{proofBench: p, r: rand.New(rand.NewPCG(seed, 9)), least: 10 * time.Millisecond,
		most: 50 * time.Millisecond, since: p.a.now}
}

func (w *air) hosts() [2]*bench { return [2]*bench{w.a, w.b} }

func (w *air) send(to int, packet []byte) {
	for range 1 + w.r.IntN(5)/4 {
		if w.r.Float64() >= w.loss {
			d := w.least + time.Duration(w.r.Int64N(int64(w.most-w.least)+1))
			w.flying = append(w.flying, flight{w.a.now.Add(d), to, packet})
		}
	}
}

// step lets a short time pass.
func (w *air) step() {
	const tick = 20 * time.Millisecond
	for i, h := range w.hosts() {
		h.pass(tick)
		for _, s := range h.sent {
			w.wire = append(w.wire, s.Packet)
			w.send(1-i, s.Packet)
		}
		h.forget()
	}
	w.b.now = w.a.now
	var due []flight
	w.flying = slices.DeleteFunc(w.flying, func(f flight) bool {
		if !f.at.After(w.a.now) {
			due = append(due, f)
			return true
		}
		return false
	})
	slices.SortStableFunc(due, func(a, b flight) int { return a.at.Compare(b.at) })
	for _, f := range due {
		w.arrive(f.to, f.packet)
	}
	if w.talking && w.a.now.Sub(w.since) >= 500*time.Millisecond {
		w.since = w.a.now
		w.talk()
	}
}

// arrive delivers a packet, and answers a probe as the programs do.
func (w *air) arrive(to int, packet []byte) {
	h := w.hosts()[to]
	w.deliver(h, packet)
	q, err := ilnpwire.ParsePacket(packet)
	if err != nil || q.Type != ilnpwire.TypeEchoRequest {
		return
	}
	e, err := ilnpwire.ParseEcho(q.Payload)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := ilnpwire.BuildEcho(q.Dst, q.Src, w.nonceFor(h, q), false, e.ID, e.Seq, e.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(1-to, b)
}

// nonceFor is the nonce that the programs of a host answer with.
func (w *air) nonceFor(h *bench, q ilnpwire.Packet) Nonce {
	if s := h.byNonce(q.Dst.NID, q.Src.NID, q.Nonce); s != nil {
		return s.localNonce
	}
	if e, there := h.entries[SessionKey{q.Dst.NID, q.Src.NID}]; there && slices.Contains(e.Accept, q.Src.L64) {
		return e.LocalNonce
	}
	return w.own
}

// talk has applications of both hosts send, with the nonce.
func (w *air) talk() {
	nids, nets := [2]roam.NID{ownNID, peerNID}, [2]roam.L64{netA, netP}
	for i, h := range w.hosts() {
		o, key := w.hosts()[1-i], SessionKey{nids[i], nids[1-i]}
		s := h.holder(nids[i], nids[1-i])
		if s == nil {
			h.see(Observation{Trigger: SeenMiss, Key: key, LocalNID: nids[i]})
			continue
		}
		h.HandleActivity(h.now, []Activity{{Key: s.key, LastTx: h.now}})
		h.drain()
		if t := o.byNonce(nids[1-i], nids[i], s.localNonce); t != nil {
			o.HandleActivity(o.now, []Activity{{Key: t.key, LastRx: o.now, LastNonceRx: o.now}})
			o.drain()
			continue
		}
		own, trigger := w.own, SeenPending
		if e, there := o.entries[SessionKey{nids[1-i], nids[i]}]; there {
			trigger = SeenOtherNonce
			if slices.Contains(e.Accept, nets[i]) {
				own = e.LocalNonce
			}
		}
		o.see(Observation{Trigger: trigger, Key: SessionKey{nids[1-i], nids[i]}, LocalNID: nids[1-i], Held: true,
			Local: roam.LinkLocator{Link: 1, L64: nets[1-i]}, Remote: roam.ILV{NID: nids[i], L64: nets[i]},
			Nonce: s.localNonce, OwnNonce: own, Bytes: 100, Packets: 1})
	}
}

// offerOf has who has the other host's key offer in its name, within the session of one.
func (w *air) offerOf(to int) {
	h, nids := w.hosts()[to], [2]roam.NID{ownNID, peerNID}
	s := h.holder(nids[to], nids[1-to])
	if s == nil || !s.remoteNonce.Present() {
		return
	}
	k := h.known[nids[1-to]]
	f := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: k.offers.last + 1,
		Ephemeral: ephemeralOf(w.t, w.r.Uint64()).Public,
		Locators:  [ilnpwire.ProofLocators]roam.L64{[2]roam.L64{netA, netP}[1-to]}}
	f.Counter = maskCounter(k.proofKey(nids[1-to], nids[to]), f)
	w.deliver(h, w.sealed(1-to, f.Locators[0], f, s.remoteNonce, Nonce{}))
}

// TestRandomDoubts: whatever has two hosts with a sound session offer proofs, at both ends at once, with offers of
// thieves among them, and whatever is lost, late or doubled of that: the keys are those of before at each moment.
func TestRandomDoubts(t *testing.T) {
	for seed := range uint64(24) {
		p := established(t)
		w := newAir(p, seed)
		w.loss, w.most = []float64{0, .2, .5, .8}[seed%4], delays[seed/4%4]
		a, b, keys := p.session(p.a), p.session(p.b), p.keysNow()
		for i := range 3000 {
			for j, h := range w.hosts() {
				if w.r.IntN(100) == 0 {
					handshakes{h.Core}.renew(h.now, p.session(h))
					h.drain()
				}
				if w.r.IntN(200) == 0 {
					w.offerOf(j)
				}
			}
			w.step()
			if !p.has(a, b) || p.keysNow() != keys {
				t.Fatalf("seed %d: at step %d a session has ended, or has other keys", seed, i)
			}
		}
		w.loss, w.most = 0, 50*time.Millisecond
		w.settle(fmt.Sprintf("seed %d", seed), time.Minute)
	}
}

// settle has both talk and move without a loss, and checks that they have one session, with the same keys, in which
// updates pass, and that nothing of what was ever sent changes it once more.
func (w *air) settle(what string, within time.Duration) {
	w.t.Helper()
	w.loss, w.least, w.most, w.talking = 0, 10*time.Millisecond, 50*time.Millisecond, true
	run := func(d time.Duration) {
		for range d / (20 * time.Millisecond) {
			w.step()
		}
	}
	run(within)
	nids := [2]roam.NID{ownNID, peerNID}
	w.a.prefix(2, netB, roam.Infinite)
	w.b.prefix(2, netQ, roam.Infinite)
	run(within)
	a, b := w.a.holder(nids[0], nids[1]), w.b.holder(nids[1], nids[0])
	switch {
	case a == nil || b == nil || a.state != Established || b.state != Established:
		w.t.Fatalf("%s: no session: %t, %t; refused %v, %v", what, a != nil, b != nil, w.a.RejectedInput(),
			w.b.RejectedInput())
	case a.localNonce != b.remoteNonce || b.localNonce != a.remoteNonce:
		w.t.Fatalf("%s: the nonces differ", what)
	case !slices.Equal(a.keys.out, b.keys.in) || !slices.Equal(a.keys.in, b.keys.out):
		w.t.Fatalf("%s: the keys differ; refused %v, %v", what, w.a.RejectedInput(), w.b.RejectedInput())
	case a.agreed.isOpen() || b.agreed.isOpen() || a.update.state != acknowledged || b.update.state != acknowledged ||
		b.remotes.find(netB) == nil || a.remotes.find(netQ) == nil:
		w.t.Fatalf("%s: updates do not pass: %v, %v; refused %v, %v", what, a.update.state, b.update.state,
			w.a.RejectedInput(), w.b.RejectedInput())
	}
	keys := keysOfBoth(a, b)
	places := [2]string{fmt.Sprint(a.remotes.targets()), fmt.Sprint(b.remotes.targets())}
	for _, packet := range slices.Clone(w.wire) {
		q, err := ilnpwire.ParsePacket(packet)
		if err != nil {
			w.t.Fatal(err)
		}
		w.deliver(map[bool]*bench{true: w.b, false: w.a}[q.Dst.NID == peerNID], packet)
	}
	w.a.forget()
	w.b.forget()
	if w.a.holder(nids[0], nids[1]) != a || w.b.holder(nids[1], nids[0]) != b || keysOfBoth(a, b) != keys ||
		places != [2]string{fmt.Sprint(a.remotes.targets()), fmt.Sprint(b.remotes.targets())} {
		w.t.Fatalf("%s: copies of what was sent change the session", what)
	}
}

// TestRandomProofs: sessions that end at one end, restarts with the state, with an older one, or with none, offers
// out of nothing and of thieves, at random, while packets are lost, late and doubled. Both agree once all passes, and
// no counter is used twice.
func TestRandomProofs(t *testing.T) {
	for seed := range uint64(64) {
		p := newProofBench(t)
		w := newAir(p, seed)
		w.talking, w.loss = true, []float64{0, .2, .5, .7}[seed%4]
		w.most = delays[seed/4%4]
		w.guard(0, p.a)
		w.guard(1, p.b)
		older := [2][][]byte{}
		used := map[string]uint64{}
		for i := range 1500 {
			for j, h := range w.hosts() {
				w.upset(j, h, &older[j])
			}
			w.step()
			for _, h := range w.hosts() {
				for _, s := range h.sessions {
					if s.keys == nil || s.keys.out == nil {
						continue
					}
					if k := string(s.keys.out); s.keys.sent < used[k] && s.agreed != nil {
						t.Fatalf("seed %d: step %d: a counter goes back to %d", seed, i, s.keys.sent)
					} else {
						used[k] = s.keys.sent
					}
				}
			}
		}
		w.settle(fmt.Sprintf("seed %d", seed), 3*time.Minute)
	}
}

// guard gives a host what it knows of the other one: where it is, and that it is not spoken to by plain IPv6.
func (w *air) guard(i int, h *bench) {
	k := h.known[[2]roam.NID{peerNID, ownNID}[i]]
	k.locators.put([2]roam.L64{netP, netA}[i], 10, time.Time{})
	k.guard.on = true
}

// upset does one of several bad things to a host, sometimes.
func (w *air) upset(i int, h *bench, older *[][]byte) {
	nids := [2]roam.NID{ownNID, peerNID}
	s := h.holder(nids[i], nids[1-i])
	set := func(h *bench) {
		w.guard(i, h)
		if i == 0 {
			w.a = h
		} else {
			w.b = h
		}
	}
	switch n := w.r.IntN(4000); {
	case s == nil:
	case n < 20:
		handshakes{h.Core}.renew(h.now, s)
	case n < 40 && s.keys != nil:
		handshakes{h.Core}.insist(h.now, s)
	case n < 50:
		w.offerOf(i)
	case n < 56:
		h.endSession(h.now, s, "test")
	case n < 64:
		*older = append(*older, h.Export())
	case n < 70:
		set(w.successor(i, h.now, h.Export()))
		*older = nil // the counters of a state are reserved for one successor
	case n < 74 && len(*older) > 0:
		set(w.successor(i, h.now, (*older)[len(*older)-1]))
		*older = nil
	case n < 77:
		now := h.now
		h = w.host(i)
		h.now = now
		set(h)
	case n < 80:
		w.own = Nonce{Len: 4, Bytes: [12]byte{9, byte(w.r.IntN(250)), byte(w.r.IntN(250))}}
	}
	h.drain()
}
