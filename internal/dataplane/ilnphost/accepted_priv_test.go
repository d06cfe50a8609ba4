package ilnphost

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
	p := entryFor(place(0), place(1))
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
		var key bpfAllowanceKey
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
	_, err := r.addAccepted(p.Key, bpfSessionEntry{}, bpfSessionEntry{Slot: 7, Birth: 9}, []bpfHalf{half(1)})
	r.must(err)
	r.close()
	r.open()
	if n := listed(); n != 0 {
		t.Errorf("%d places are listed of no session", n)
	}
}

// A full Locator Update and what it replaces are taken, and an entry that is written
// again costs nothing for that.
func TestAllSources(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	for n := range ilnp.MaxAccept {
		p.Accept = append(p.Accept, there+roam.L64(n))
	}
	r.upsert(p)
	for _, n := range []int{0, 7, 8, 22, 254, 255, ilnp.MaxAccept - 1, ilnp.MaxAccept} {
		v, _ := r.ingress(fromPeer(there+roam.L64(n), none, ip6.UDP, udp(9)))
		if taken := v == passOn; taken != (n < ilnp.MaxAccept) {
			t.Errorf("a packet from place %d: taken %v", n, taken)
		}
	}
	key := acceptedKey(r.known[p.Key], half(uint64(there+100)))
	r.must(r.objs.Sources.Delete(&key))
	p.Seq++
	r.upsert(p)
	var v uint8
	if err := r.objs.Sources.Lookup(&key, &v); err == nil {
		t.Error("a place that is listed is written again with every entry")
	}
}

// Of a table that is full as many are taken as there is room for; the others get in as
// soon as there is.
func TestFullTableOfSources(t *testing.T) {
	r := newRigOf(t, LeastSessions)
	r.uplink(here)
	var entries []ilnp.Entry
	for i := range leastSources/(ilnp.MaxAccept-8) + 1 {
		p := entryFor(there)
		p.Key.Remote, p.RemoteNID = theirs+roam.NID(i+1), theirs+roam.NID(i+1)
		for n := range ilnp.MaxAccept {
			p.Accept = append(p.Accept, there+roam.L64(n))
		}
		r.upsert(p)
		entries = append(entries, p)
	}
	listed := func(p ilnp.Entry, n int) bool {
		key := acceptedKey(r.known[p.Key], half(uint64(there)+uint64(n)))
		var v uint8
		return r.objs.Sources.Lookup(&key, &v) == nil
	}
	last := entries[len(entries)-1]
	if !listed(entries[0], ilnp.MaxAccept-1) || listed(last, ilnp.MaxAccept-1) {
		t.Fatal("the table is not full, so nothing is tested")
	}
	r.must(r.Delete(entries[0].Key))
	last.Seq++
	r.upsert(last)
	if !listed(last, ilnp.MaxAccept-1) {
		t.Error("not listed though there is room")
	}
}

// Maps have the size that was asked for; asked for another one, they are made
// anew.
func TestSizes(t *testing.T) {
	r := newRigOf(t, 1000)
	if n, m := r.objs.SessionLives.MaxEntries(), r.objs.PendingPeers.MaxEntries(); n != 1000 || m != leastUnvalidated {
		t.Errorf("room for %d sessions and %d pending peers", n, m)
	}
	r.uplink(here)
	r.upsert(entryFor(there))
	r.close()
	r.size = 100_000
	r.open()
	if n, m := r.objs.SessionLives.MaxEntries(), r.objs.PendingPeers.MaxEntries(); n != 100_000 || m != mostUnvalidated || r.Adopted() {
		t.Errorf("room for %d sessions and %d pending peers, adopted %v", n, m, r.Adopted())
	}
	r.must(r.Sync([]ilnp.Entry{}))
}
