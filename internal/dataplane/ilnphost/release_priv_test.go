package ilnphost

import (
	"testing"

	"github.com/cilium/ebpf"

	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// TestHeldPacketsGoFirst: while the daemon sends what it has held for a session that gets its entry, packets with its
// mark leave, without the mark, and others are handed over to it; what comes in is the session's. It has another turn
// if more were handed over than it has met, but not for ever. Then all leave. An entry that programs see already holds
// nothing.
func TestHeldPacketsGoFirst(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	send := func(mark uint32) (v int, left skbContext, p ilnpwire.Packet) {
		v, out := r.egress(toPeer(ip6.UDP, udp(9)), func(o *ebpf.RunOptions) {
			o.Context, o.ContextOut = skbContext{Mark: mark, Ifindex: uint32(loopback)}, &left
		})
		p, _ = ilnpwire.ParsePacket(out)
		return v, left, p
	}
	leaves := func(when string, mark uint32) {
		t.Helper()
		if v, left, p := send(mark); v != redirect || left.Mark != 0 || p.Src.L64 != here || p.Dst.L64 != there {
			t.Errorf("%s: verdict %d, mark %x, %+v", when, v, left.Mark, p)
		}
	}
	entry, turns := entryFor(there), 0
	held := Turn{Held: func() int {
		turns++
		if turns > 1 {
			return 1
		}
		leaves("with the mark", HeldMark)
		if v, _ := r.ingress(knock(at(there, theirs), theirNonce)); v != passOn {
			t.Errorf("from the peer: verdict %d", v)
		}
		r.events()
		for _, mark := range []uint32{0, HeldMark + 4} {
			if v, _, _ := send(mark); v != consumed {
				t.Errorf("mark %x: verdict %d", mark, v)
			}
			if evs := r.events(); len(evs) != 1 || evs[0].Kind != Miss || evs[0].Key != entry.Key || evs[0].Packets != 1 {
				t.Errorf("mark %x: events %+v", mark, evs)
			}
		}
		return 1 // and the other one is on its way
	}}
	if r.must(r.Upsert(entry, held)); turns != 2 {
		t.Errorf("%d turns, want two", turns)
	}
	leaves("then", 0)
	leaves("with the mark of no use", HeldMark)
	entry.Seq++
	if r.must(r.Upsert(entry, held)); turns != 2 {
		t.Errorf("%d turns after the second entry", turns)
	}
	r.must(r.Delete(entry.Key))
	r.must(r.Upsert(entry, Turn{Held: func() int { return 7 }})) // of which one never gets here
	leaves("when the daemon has waited in vain", 0)
}

// TestAliasIsFoundAtOnce: while the daemon sends what it has held, what the peer answers is the session's, also where
// the peer's NID is no alias of it.
func TestAliasIsFoundAtOnce(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(listed(at(there, theirs))))
	entry, turns := entryFor(else1), 0
	entry.Key.Remote = 2
	r.must(r.Upsert(entry, Turn{Held: func() int {
		turns++
		if v, out := r.ingress(knock(at(else1, theirs), theirNonce)); v != passOn || len(r.events()) > 0 {
			t.Errorf("verdict %d, %d bytes", v, len(out))
		}
		return 0
	}}))
	if turns != 1 {
		t.Errorf("%d turns", turns)
	}
}

// TestHeldPacketsBeyondTheRing: a packet for which the ring to the daemon has no space is lost, and not waited for.
func TestHeldPacketsBeyondTheRing(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(listed(at(there, theirs))))
	full := func(o *ebpf.RunOptions) { o.Repeat = 20_000 }
	turns := 0
	got := r.counted(func() { r.egress(toPeer(ip6.UDP, udp(9)), full) })
	r.must(r.Upsert(entryFor(there), Turn{Held: func() int {
		if turns++; turns == 1 {
			r.egress(toPeer(ip6.UDP, udp(9)))
		}
		return 0
	}}))
	if turns != 1 || got["miss_handed_over"] == 0 || got["drop_ring_full"] == 0 {
		t.Errorf("%d turns; %v", turns, got)
	}
}
