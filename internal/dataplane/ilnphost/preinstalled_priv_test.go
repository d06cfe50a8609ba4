package ilnphost

import (
	"bytes"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// expected is a session that is preinstalled.
func preinstalled(state ilnp.SessionState) ilnp.Entry {
	p := entryFor(there)
	p.State, p.RemoteNonce, p.Preinstalled = state, ilnp.Nonce{}, true
	p.Accept = []roam.L64{there}
	return p
}

// The first packet leaves at once, and the daemon has it as well, until it has
// written the entry anew; no more often than it can keep them.
func TestPreinstalledFirst(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := preinstalled(ilnp.Initiated)
	r.upsert(p)
	first := toPeer(ip6.TCP, tcp(flagSYN, 0))
	const kept = 16
	for range kept {
		v, out := r.egress(first)
		got, err := ilnpwire.ParsePacket(out)
		r.must(err)
		if v != redirect || got.Nonce != p.LocalNonce || got.Dst != at(there, theirs) {
			t.Fatalf("verdict %d, %+v", v, got)
		}
		evs := r.events()
		if len(evs) != 1 || evs[0].Kind != First || evs[0].Key != p.Key || !bytes.Equal(evs[0].Packet, first) {
			t.Fatalf("events %+v", evs)
		}
	}
	r.egress(first)
	r.wantKinds("one too many to keep")
	p.Preinstalled, p.Seq = false, p.Seq+1
	r.upsert(p)
	r.egress(first)
	r.wantKinds("a session that has begun")
}

// Of one that is plain the daemon hears by what is counted.
func TestPreinstalledPlain(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(preinstalled(ilnp.Plain))
	got := r.counted(func() {
		if p := r.send(ip6.TCP, tcp(flagSYN, 0)); p.Nonce.Present() {
			t.Errorf("left with a nonce: %+v", p)
		}
	})
	r.wantCounts("plain", got, counts{"tx_packets": 1, "tx_plain": 1})
	r.wantKinds("plain")
	acts, err := r.Activity(r.keys())
	if err != nil || len(acts) != 1 || acts[0].LastTx.IsZero() {
		t.Errorf("counted %+v, %v", acts, err)
	}
}

// To whoever comes from outside it is there only once a packet of ours has used it.
func TestPreinstalledFromOutside(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	r.uplink(here)
	shown := fromPeer(there, theirNonce, ip6.TCP, tcp(flagSYN|flagACK, 0))
	bare := fromPeer(there, ilnp.Nonce{}, ip6.TCP, tcp(flagSYN|flagACK, 0))
	for _, state := range []ilnp.SessionState{ilnp.Initiated, ilnp.Plain} {
		r.must(r.Delete(entryFor().Key))
		r.upsert(preinstalled(state))
		v, out := r.ingress(bare)
		if v != passOn || !bytes.Equal(out, bare) {
			t.Errorf("%v: a packet without nonce before ours: verdict %d", state, v)
		}
		r.wantKinds("without nonce, before")
		r.send(ip6.TCP, tcp(flagSYN, 0))
		if state == ilnp.Plain {
			v, out = r.ingress(bare)
			if v != passOn || bytes.Equal(out, bare) {
				t.Errorf("the answer without nonce: verdict %d", v)
			}
			continue
		}
		r.wantKinds("ours", First)
		r.ingress(shown)
		r.wantKinds("the answer", NonceSeen)
	}
	r.must(r.Delete(entryFor().Key))
	r.upsert(preinstalled(ilnp.Initiated))
	r.ingress(shown)
	evs := r.events()
	if len(evs) != 1 || evs[0].Kind != PendingPeer {
		t.Fatalf("a nonce before our first packet: events %+v", evs)
	}
	_, answered := r.answer(theirs)
	if answered.Nonce != evs[0].OwnNonce {
		t.Errorf("answered with nonce %x, announced %x", answered.Nonce.Bytes, evs[0].OwnNonce.Bytes)
	}
	r.wantKinds("the answer to whoever contacted us first")
}

// An error about a packet that we never sent is none of ours.
func TestPreinstalledError(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := preinstalled(ilnp.Initiated)
	r.upsert(p)
	quoted := packet(at(here, ours), at(there, theirs), ip6.DestOpts, with(p.LocalNonce, ip6.TCP, tcp(flagSYN, 0)))
	b, err := ilnpwire.BuildError(at(there, theirs), at(here, ours), ilnp.Nonce{}, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 3, Quoted: quoted})
	r.must(err)
	if v, _ := r.ingress(b); v != passOn {
		t.Errorf("before our first packet: verdict %d", v)
	}
	r.wantKinds("before our first packet")
	r.send(ip6.TCP, tcp(flagSYN, 0))
	r.events()
	if v, _ := r.ingress(b); v != shot {
		t.Errorf("after it: verdict %d", v)
	}
	r.wantKinds("after it", ErrorIn)
}
