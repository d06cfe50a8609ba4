package ilnphost

import (
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// proving is a world of two hosts that prove to each other who they are.
type proving struct {
	*world
	keys  map[*Node]*nidkey.Key
	count map[string]int // of what was on the wire, by kind
	log   []Packet       // proofs that were on the wire
	drop  func(p Packet, kind string) bool
}

// newProving makes a world with keys; the server's record of the mobile host lists these
// locators.
func newProving(t *testing.T, seed uint64, listed ...roam.L64) *proving {
	t.Helper()
	w := &proving{world: newWorld(t, ilnp.Soft, seed), keys: make(map[*Node]*nidkey.Key), count: make(map[string]int)}
	for i, h := range []*Node{w.mobile, w.server} {
		k := drawnKey(t, seed, uint64(i))
		w.keys[h], h.cfg.Key = k, k
	}
	w.know(t, w.mobile, w.server, netS)
	w.know(t, w.server, w.mobile, listed...)
	w.Tap = func(p Packet) *Packet {
		kind := proofKind(p)
		w.count[kind]++
		if isProofPacket(p) {
			w.log = append(w.log, p)
		}
		if w.drop != nil && w.drop(p, kind) {
			return nil
		}
		return &p
	}
	return w
}

// drawnKeys are the keys of seeds: each costs 2^20 hashes.
var drawnKeys = map[[2]uint64]*nidkey.Key{}

func drawnKey(t *testing.T, seed, host uint64) *nidkey.Key {
	t.Helper()
	of := [2]uint64{seed, host}
	if drawnKeys[of] == nil {
		k, err := nidkey.New(bytesOf{rand.New(rand.NewPCG(seed, host))})
		if err != nil {
			t.Fatal(err)
		}
		drawnKeys[of] = &k
	}
	return drawnKeys[of]
}

// know gives a host the other one's key and locators.
func (w *proving) know(t *testing.T, h, o *Node, listed ...roam.L64) {
	t.Helper()
	secret, err := w.keys[h].Shared(w.keys[o].Public)
	if err != nil {
		t.Fatal(err)
	}
	p := ilnp.Peer{NID: o.nid, Names: []string{o.name}, Secret: secret, Public: w.keys[o].Public, Guarded: true}
	for _, l := range listed {
		p.Locators = append(p.Locators, ilnp.RemoteLocator{L64: l, Preference: 10, Lifetime: roam.Infinite})
	}
	h.core.SetKey(w.keys[h])
	h.core.AddPeer(w.Now(), p)
	h.Settle()
}

var steps = map[ilnpwire.ProofStep]string{
	ilnpwire.ProofOffer: "offer", ilnpwire.ProofAnswer: "answer", ilnpwire.ProofConfirm: "confirm",
	ilnpwire.ProofChallenge: "challenge", ilnpwire.ProofNotice: "notice",
}

func proofOf(p Packet) *ilnpwire.Proof {
	if p.Control == nil {
		return nil
	}
	q, err := ilnpwire.ParseControl(p.Control, udpPort)
	if err != nil {
		return nil
	}
	return q.Proof
}

func isProofPacket(p Packet) bool { return proofOf(p) != nil }

func proofKind(p Packet) string {
	if q := proofOf(p); q != nil {
		return steps[q.Step]
	}
	return kindOf(p)
}

// wantProved checks that a session is proved at both ends.
func (w *proving) wantProved(t *testing.T) {
	t.Helper()
	for _, p := range []ilnp.PeerState{w.mobile.peer(w.server), w.server.peer(w.mobile)} {
		if !p.Proved || !p.Keyed || p.Unkeyed || p.Claims || p.State != ilnp.Established {
			t.Errorf("the session with %v: proved %t, keyed %t, claims %t, %v", p.NID, p.Proved, p.Keyed, p.Claims, p.State)
		}
	}
}

// TestProofAtSetUp: the offer goes ahead of the first packet, wherever that comes from. The first
// contact costs a challenge, a later one no round trip; nothing is lost, and the session moves.
func TestProofAtSetUp(t *testing.T) {
	for name, listed := range map[string][]roam.L64{"listed": {netA}, "unlisted": nil} {
		t.Run(name, func(t *testing.T) {
			w := newProving(t, 1, listed...)
			for i, wantAfter := range []time.Duration{2 * pathRTT, pathRTT} {
				challenges := w.count["challenge"]
				f := w.startEvery(t, 5*time.Millisecond, true)
				if first := f.arrivals[0].at.Sub(f.arrivals[0].sent); first > wantAfter {
					t.Errorf("contact %d: the first datagram took %v, want at most %v", i, first, wantAfter)
				}
				if i == 1 && w.count["challenge"] != challenges {
					t.Error("a second contact was challenged")
				}
				w.wantProved(t)
				here, there := roam.LinkID(1+i), roam.LinkID(2-i)
				w.mobile.Up(there, []roam.L64{netB, netA}[i], near, roam.Infinite)
				w.Run(2 * time.Second)
				w.wantProved(t)
				w.mobile.Down(here)
				w.Run(time.Second)
				w.finish(t, f)
				wantLost(t, f, 0)
				w.Run(20 * time.Minute) // the session ends
				if p := w.server.peer(w.mobile); !p.Since.IsZero() {
					t.Fatalf("the session is still there: %+v", p)
				}
			}
			for _, h := range []*Node{w.mobile, w.server} {
				for reason, n := range h.core.RejectedInput() {
					if ilnp.Suspicious(reason) && reason != "proof that is old or came before" {
						t.Errorf("%s refused %d times: %s", h.name, n, reason)
					}
				}
			}
		})
	}
}

// TestProofOverALongPath: a challenge makes the first contact take two round trips, which may be
// longer than a peer without ILNP is waited for. All that waited is answered at once, as the
// answer to the challenge has shown where the peer is.
func TestProofOverALongPath(t *testing.T) {
	w := newProving(t, 1, netA)
	w.mobile.at(1).set(Access{Delay: 295 * time.Millisecond})
	f := w.mobile.Flow(w.server, 50*time.Millisecond, true)
	w.Run(4 * time.Second)
	w.wantProved(t)
	if w.count["challenge"] == 0 {
		t.Error("no challenge: this shows nothing")
	}
	w.finish(t, f)
	w.Run(time.Second)
	wantLost(t, f, 0)
}

// TestSessionThatOneEndHasLost: the session of the server ends while nothing arrives there, and that of the other
// host goes on. The nonce of the server is the same as before, so it has to ask for a proof.
func TestSessionThatOneEndHasLost(t *testing.T) {
	for _, listed := range [][]roam.L64{{netA}, nil} {
		w := newProving(t, 3, listed...)
		f := w.startEvery(t, 2*time.Second, true)
		w.Run(10 * time.Second)
		w.mobile.Cut(1)
		w.Run(ilnpIdle + time.Minute)
		if w.server.Count(ilnp.SessionEnded) == 0 {
			t.Fatalf("listed %v: the session of the server has not ended", listed)
		}
		w.mobile.Mend(1)
		mended := w.Now()
		if !w.RunUntil(30*time.Second, func() bool { return f.Back.After(mended) }) {
			t.Errorf("listed %v: no answer in 30 s", listed)
		}
		w.Run(10 * time.Second)
		if silent := w.Now().Sub(f.Back); silent > 4*time.Second {
			t.Errorf("listed %v: then no answer for %v", listed, silent)
		}
		if n := w.mobile.Count(ilnp.SessionReplaced) + w.mobile.Count(ilnp.SessionEnded); n > 0 {
			t.Errorf("listed %v: the other host's session has ended, too", listed)
		}
	}
}
