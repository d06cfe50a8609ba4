package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// entryOfPending reads the entry of a pending peer.
func (r *rig) entryOfPending(nid roam.NID) (e bpfPendingPeer) {
	r.t.Helper()
	key := sessionKey(ilnp.SessionKey{Local: ours, Remote: nid})
	r.must(r.objs.PendingPeers.Lookup(&key, &e))
	return e
}

// quiet makes the last packet of a pending peer older.
func (r *rig) quiet(nid roam.NID, by time.Duration) {
	r.t.Helper()
	key, e := sessionKey(ilnp.SessionKey{Local: ours, Remote: nid}), r.entryOfPending(nid)
	e.Heard -= uint64(by)
	r.must(r.objs.PendingPeers.Put(&key, &e))
}

// TestPendingOnTwoLinks: a pending peer without a record that sends from two locators is
// answered at the first one, with that locator's nonce. What comes from the second one is
// delivered, an echo request waits with the daemon. After a second of silence at the first
// one it is answered at the second one, with a nonce that the first one never gets.
func TestPendingOnTwoLinks(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	a := unlistedPeer(1)
	b := at(else1, a.NID)
	r.ingress(knock(a, theirNonce))
	first := r.events()[0].OwnNonce
	told := []EventKind{PendingPeer}
	r.check([]verdictCase{{"from the second link", knock(b, theirNonce), passOn, deliveredNonce, told}})
	if v, p := r.answer(a.NID); v != redirect || p.Dst != a || p.Nonce != first {
		t.Errorf("verdict %d, answered %+v", v, p)
	}
	echo := mustPacket(t)(ilnpwire.BuildEcho(b, at(here, ours), theirNonce, true, 9, 7, []byte("sixteen bytes...")))
	ev := r.held("an echo request from there", echo, PendingPeer)
	if ev.OwnNonce == first || !ev.OwnNonce.Present() || ev.Remote != b {
		t.Errorf("would be answered with %x, the first place has %x", ev.OwnNonce.Value(), first.Value())
	}
	// Data right behind the nonces have none, on either link.
	for _, from := range []roam.ILV{a, b} {
		if v, _ := r.ingress(packet(from, at(here, ours), ip6.UDP, udp(9))); v != passOn {
			t.Errorf("verdict %d on a datagram without nonce", v)
		}
		r.events()
	}
	got := r.entryOfPending(a.NID)
	if got.RemoteL64.l64() != a.L64 || got.Also.l64() != b.L64 || got.RxPackets != 2 {
		t.Errorf("the entry has %v, %v and %d packets", got.RemoteL64.l64(), got.Also.l64(), got.RxPackets)
	}
	r.quiet(a.NID, 1100*time.Millisecond)
	r.ingress(knock(b, theirNonce))
	second := r.events()[0].OwnNonce
	if v, p := r.answer(a.NID); v != redirect || p.Dst != b || p.Nonce != second || second == first {
		t.Errorf("verdict %d, answered %+v", v, p)
	}
}

// TestPendingWhereRecordsList: a pending peer gets one nonce at all locators that its record
// lists, and is answered where its last packet came from.
func TestPendingWhereRecordsList(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	a := unlistedPeer(1)
	b := at(else1, a.NID)
	r.must(r.SetRecord(Record{NID: a.NID, Locators: []roam.L64{a.L64, b.L64}}))
	var own ilnp.Nonce
	for i, from := range []roam.ILV{a, b, a} {
		r.ingress(knock(from, theirNonce))
		n := r.events()[0].OwnNonce
		if i > 0 && n != own {
			t.Errorf("packet %d would be answered with %x, the first one with %x", i, n.Value(), own.Value())
		}
		own = n
		if v, p := r.answer(a.NID); v != redirect || p.Dst != from || p.Nonce != own {
			t.Errorf("packet %d: verdict %d, answered %+v", i, v, p)
		}
	}
	r.held("from elsewhere", knock(at(else2, a.NID), theirNonce), PendingPeer)
	if v, p := r.answer(a.NID); v != redirect || p.Dst != a || p.Nonce != own {
		t.Errorf("verdict %d, answered %+v", v, p)
	}
}

// TestProbeOfAPlainSession: a probe with a nonce goes to the daemon, which answers it with
// ours, where the program cannot; the stack would answer without a nonce. What is no probe
// is the stack's.
func TestProbeOfAPlainSession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	e := entryFor(there)
	e.State, e.RemoteNonce = ilnp.Plain, ilnp.Nonce{}
	r.upsert(e)
	from := at(there, e.RemoteNID)
	echo := func(data int) []byte {
		return mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), longNonce, true, 9, 7, make([]byte, data)))
	}
	if ev := r.held("a probe with a longer nonce", echo(16), OtherNonce); ev.OwnNonce != e.LocalNonce {
		t.Errorf("would be answered with %x, not %x", ev.OwnNonce.Value(), e.LocalNonce.Value())
	}
	if v, _ := r.ingress(echo(56)); v != passOn {
		t.Errorf("verdict %d on a longer echo request", v)
	}
	r.wantKinds("a longer echo request", OtherNonce)
}
