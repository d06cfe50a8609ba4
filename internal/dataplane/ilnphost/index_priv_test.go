package ilnphost

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// entries returns those of the index that are in use.
func entries(r *rig) (list []*uint64) {
	for i := range r.index.buckets {
		for j := range r.index.buckets[i].Entry {
			if e := &r.index.buckets[i].Entry[j]; *e != 0 {
				list = append(list, e)
			}
		}
	}
	return list
}

// unused returns an entry of a bucket that no session has: where the sessions of a
// test lie, the random key of the index decides.
func unused(b *bpfBucket) *uint64 {
	i := slices.Index(b.Entry[:], 0)
	return &b.Entry[i]
}

// goesOut reports whether a packet to a session's correspondent is sent, and to
// it.
func (r *rig) goesOut(p ilnp.Entry) bool {
	r.t.Helper()
	v, out := r.egress(packet(session(ours), session(p.Key.Remote), ip6.UDP, udp(9)))
	return v == redirect && binary.BigEndian.Uint64(out[32:40]) == uint64(p.RemoteNID)
}

// set of many returns n sessions that prefer the first bucket of the index.
func (r *rig) many(n int) (list []ilnp.Entry) {
	for i := 0; len(list) < n; i++ {
		if p := numbered(i); r.index.both(r.index.hash(sessionKey(p.Key)))[0] == &r.index.buckets[0] {
			list = append(list, p)
		}
	}
	return list
}

// More sessions than a bucket has entries prefer the same one: all are found, in
// both directions, and also after some have gone.
func TestFullBucket(t *testing.T) {
	r := newRigOf(t, LeastSessions)
	r.uplink(here)
	list := r.many(40)
	for i, p := range list {
		r.upsert(p)
		for _, q := range list[:i+1] {
			if !r.goesOut(q) {
				t.Fatalf("with %d sessions one is not found", i+1)
			}
		}
	}
	for i, p := range list {
		if i%3 == 0 {
			r.must(r.Delete(p.Key))
		}
	}
	for i, p := range list {
		_, in := r.ingress(packet(at(there, p.RemoteNID), at(here, ours), ip6.UDP, udp(9)))
		translated := binary.BigEndian.Uint64(in[8:16]) == uint64(roam.DefaultSessionPrefix)
		if kept := i%3 != 0; r.goesOut(p) != kept || translated != kept {
			t.Errorf("session %d, kept %v: translated on its way in %v", i, kept, translated)
		}
	}
}

// Settled sessions take the compact path wherever their entries are: in either half of their
// first bucket, or in the second one.
func TestSettledWhereverTheyAre(t *testing.T) {
	r := newRigOf(t, LeastSessions)
	r.uplink(here)
	list := r.many(12)
	for _, p := range list {
		r.upsert(p)
		r.settle(p.Key)
	}
	alone := r.pathsOf(2)
	for i, p := range list {
		out, _ := r.run(alone.Egress, frame(packet(session(ours), session(p.Key.Remote), ip6.UDP, udp(9))))
		in, _ := r.run(alone.Ingress, frame(packet(at(there, p.RemoteNID), at(here, ours), ip6.UDP, udp(9))))
		if out >= unsettled || in >= unsettled {
			t.Errorf("session %d of one bucket: %x out, %x in", i, out, in)
		}
	}
}

// What a daemon left half done, its successor puts right: a session that was being
// moved, one that is named where it is not, and places that nobody names.
func TestIndexRepair(t *testing.T) {
	r := newRigOf(t, LeastSessions)
	r.uplink(here)
	a, b := numbered(1), numbered(2)
	r.upsert(a)
	r.upsert(b)
	hash := r.index.hash(sessionKey(a.Key))
	first := *r.index.find(hash, r.known[a.Key].Slot)
	other := r.index.both(hash)[1]
	if other == r.index.both(hash)[0] {
		other = &r.index.buckets[5] // where it does not belong
	}
	*unused(other) = first
	*unused(&r.index.buckets[3]) = entryOf(hash, r.places.limit+5, 9)
	*unused(&r.index.buckets[9]) = entryOf(hash+1<<60, 40, 9)
	r.close()
	r.open()
	if n := len(entries(r)); n != 2 || len(r.known) != 2 {
		t.Errorf("%d entries, %d sessions", n, len(r.known))
	}
	if !r.goesOut(a) || !r.goesOut(b) {
		t.Error("a session is not found")
	}
	r.must(r.Sync([]ilnp.Entry{b}))
	if n := len(entries(r)); n != 1 || r.goesOut(a) || !r.goesOut(b) {
		t.Errorf("%d entries", n)
	}
	if got := int(r.places.next) - len(r.places.free) - len(r.places.left) - len(r.places.resting); got != 1 {
		t.Errorf("%d places are in use", got)
	}
}

// Packets that go on while a session is written anew, many times more than there
// are places, each see one state of it or the next.
func TestWrittenUnderTraffic(t *testing.T) {
	r := newRigOf(t, LeastSessions)
	r.uplink(here)
	odd, even := entryFor(there), entryFor(else1)
	odd.RemoteNonce, even.RemoteNonce = theirNonce, theirNonce
	r.upsert(even)
	for i := range 200 {
		r.upsert(numbered(i)) // whose packets go elsewhere
	}
	out := frame(packet(session(ours), session(theirs), ip6.UDP, udp(9)))
	prog, stop, wrong := r.objs.IlnpSessionEgress, make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(wrong)
		for {
			select {
			case <-stop:
				return
			default:
			}
			v, sent, err := tryRun(prog, out)
			if err != nil || v != redirect || !toEither(sent[ethLen+24:ethLen+40]) {
				wrong <- "a packet was lost or went elsewhere"
				return
			}
		}
	}()
	for i := range 20 * sparePlaces(LeastSessions) {
		p := []ilnp.Entry{odd, even}[i%2]
		p.Seq = uint32(i + 2)
		r.upsert(p)
		q := numbered(i % 200)
		q.Seq = p.Seq
		r.upsert(q)
	}
	close(stop)
	if s := <-wrong; s != "" {
		t.Error(s)
	}
}

// toEither reports whether an address is one of the two places of the
// correspondent.
func toEither(dst []byte) bool {
	for _, l := range []roam.L64{there, else1} {
		if a := at(l, theirs).Addr().As16(); bytes.Equal(dst, a[:]) {
			return true
		}
	}
	return false
}
