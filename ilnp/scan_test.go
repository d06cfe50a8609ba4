package ilnp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// scanned is a host that somebody scans, with a key and one known peer whose key it has, or without any.
func scanned(t *testing.T, accept Accept, keyed bool) *bench {
	t.Helper()
	p := newProofBench(t)
	h := newBench(t, withUDP, func(c *Config) {
		if c.NIDs, c.Accept = []roam.NID{peerNID}, accept; keyed {
			c.Key = &p.keys[1]
		}
	})
	h.prefix(1, netP, roam.Infinite)
	if keyed {
		p.know(h, 1)
	} else {
		h.AddPeer(h.now, Peer{NID: ownNID, Names: []string{"peer"}})
		h.drain()
	}
	h.forget()
	return h
}

// scan sends a host all kinds of messages in the name of a node, in both forms, and answers its probes if so wanted.
// It returns what comes back.
func scan(t *testing.T, h *bench, as roam.NID, answers bool) (got []string) {
	t.Helper()
	src, dst := roam.ILV{NID: as, L64: netQ}, roam.ILV{NID: peerNID, L64: netP}
	lu := updateOf(entry(netQ, 10, 600))
	lu.Operation = ilnpwire.Advertisement
	ack := lu
	ack.Operation = ilnpwire.Acknowledgement
	var packets [][]byte
	add := func(b []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		encap, err := ilnpwire.Encapsulate(b, testPort)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, b, encap)
	}
	for _, m := range []ilnpwire.LocatorUpdate{lu, ack} {
		add(ilnpwire.BuildUpdate(src, dst, peerNonce, m))
		add(ilnpwire.BuildSealed(src, dst, peerNonce, m, ilnpwire.Seal{Counter: 5}))
		for step := ilnpwire.ProofOffer; step <= ilnpwire.ProofNotice; step++ {
			add(ilnpwire.BuildProof(src, dst, peerNonce, m, ilnpwire.Proof{Step: step, Counter: 5, Locators: [8]roam.L64{netQ}}))
		}
	}
	add(ilnpwire.BuildVouch(src, dst, peerNonce, lu, ilnpwire.Vouch{Until: h.now.Add(time.Hour), NID: as + 1}))
	for _, b := range packets {
		h.see(Observation{
			Trigger: SeenPending, Key: SessionKey{peerNID, as}, LocalNID: peerNID, Local: roam.LinkLocator{Link: 1, L64: netP},
			Remote: src, Nonce: peerNonce, OwnNonce: ofB, Bytes: len(b), Packets: 1,
		})
		h.receive(1, b)
		for range 20 {
			h.pass(50 * time.Millisecond)
			sent := h.sent
			h.forget()
			for _, s := range sent {
				q, err := ilnpwire.ParseControl(s.Packet, testPort)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("type %d, %d bytes, proof %t, MAC %t, vouch %t", q.Type, len(s.Packet),
					q.Proof != nil, q.Seal != nil, q.Vouch != nil))
				if answers && q.Type == ilnpwire.TypeEchoRequest && !q.Encapsulated {
					h.reply(q, peerNonce)
				}
			}
		}
	}
	return got
}

// TestScan: a host that accepts known peers only sends nothing to an unknown node, and one that accepts any sends what
// one without keys sends. A node in the name of a known peer gets probes, and no more of them than without keys.
func TestScan(t *testing.T) {
	const nobody = ownNID + 99
	for _, c := range []struct {
		what    string
		accept  Accept
		as      roam.NID
		answers bool
	}{
		{"known peers, of nobody", Known, nobody, true},
		{"any, of nobody that does not answer", Any, nobody, false},
		{"any, of nobody", Any, nobody, true},
	} {
		without := scan(t, scanned(t, c.accept, false), c.as, c.answers)
		with := scan(t, scanned(t, c.accept, true), c.as, c.answers)
		if !slices.Equal(without, with) || (len(with) > 0) != (c.accept == Any) {
			t.Errorf("accepts %s: %d packets without keys, %d with: %v and %v", c.what, len(without), len(with), without, with)
		}
	}
	without, with := scan(t, scanned(t, Known, false), ownNID, false), scan(t, scanned(t, Known, true), ownNID, false)
	for _, got := range with {
		if !slices.Contains(without, got) {
			t.Errorf("in the name of a known peer, with keys: %s", got)
		}
	}
	if len(with) > len(without) || len(with) == 0 {
		t.Errorf("in the name of a known peer: %d packets without keys, %d with", len(without), len(with))
	}
}
