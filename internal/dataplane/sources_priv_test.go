package dataplane

import (
	"testing"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// A session may have more locators than its entry has room for: packets from
// all of them are taken, also by the next daemon, and from none that is gone.
func TestManySources(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	place := func(n int) roam.L64 { return there + roam.L64(n) }
	p := pairOf(place(0), place(1))
	for n := range 16 {
		p.Accept = append(p.Accept, place(n))
	}
	r.upsert(p)
	accepted := func() (n int) {
		for i := range 17 {
			if v, _ := r.ingress(fromPeer(place(i), none, ip6.UDP, udp(9))); v == passOn {
				n++
			}
		}
		return n
	}
	listed := func() (n int) {
		var key bpfTrialKey
		var val uint8
		for it := r.objs.Sources.Iterate(); it.Next(&key, &val); {
			n++
		}
		return n
	}
	want := func(what string, sources, rows int) {
		t.Helper()
		if a, l := accepted(), listed(); a != sources || l != rows {
			t.Errorf("%s: packets from %d places are taken, %d are listed apart, want %d and %d", what, a, l, sources, rows)
		}
	}
	want("16 locators", 16, 8)
	r.close()
	r.open()
	want("another process", 16, 8)
	p.Accept, p.Seq = p.Accept[:10], 2
	r.upsert(p)
	want("10 locators", 10, 2)
	p.LocalNonce = longNonce // another session of the same two nodes
	r.upsert(p)
	want("another session", 10, 2)
	r.must(r.Delete(p.Key))
	if n := listed(); n != 0 {
		t.Errorf("%d places are listed of a session that is gone", n)
	}
	r.must(r.addSources(bpfPair{Slot: 7, Birth: 9}, []bpfHalf{half(1)}))
	r.close()
	r.open()
	if n := listed(); n != 0 {
		t.Errorf("%d places are listed of no session", n)
	}
}

// Maps have the size that was asked for; asked for another one, they are made
// anew.
func TestSizes(t *testing.T) {
	r := newRigOf(t, 1000)
	if n, m := r.objs.PairLives.MaxEntries(), r.objs.Embryos.MaxEntries(); n != 1000 || m != leastStrangers {
		t.Errorf("room for %d sessions and %d strangers", n, m)
	}
	r.uplink(here)
	r.upsert(pairOf(there))
	r.close()
	r.size = 100_000
	r.open()
	if n, m := r.objs.PairLives.MaxEntries(), r.objs.Embryos.MaxEntries(); n != 100_000 || m != mostStrangers || r.Adopted() {
		t.Errorf("room for %d sessions and %d strangers, adopted %v", n, m, r.Adopted())
	}
	r.must(r.Sync([]ilnp.Pair{}))
}
