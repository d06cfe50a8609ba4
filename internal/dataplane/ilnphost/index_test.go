package ilnphost

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// search does what search_bucket and find_session of the programs do, all compares
// of a bucket in one.
func (x *index) search(hash uint64) (place uint32, found bool) {
	for _, b := range x.both(hash) {
		var hit uint64
		for _, e := range b.Entry {
			if (e^hash)>>indexTag == 0 {
				hit |= e
			}
		}
		if hit != 0 {
			return placeOf(hit), true
		}
	}
	return 0, false
}

// An index that is as full as it may get, and half as full again, has room for
// everybody, and everybody is found, also while another one is moved.
func TestIndexFills(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	const sessions = 6 * 64
	x := &index{buckets: make([]bpfBucket, buckets(256)), key: [2]uint64{random.Uint64(), random.Uint64()}}
	var keys []bpfSessionKey
	all := func() {
		t.Helper()
		for i, k := range keys {
			if place, ok := x.search(x.hash(k)); !ok || place != uint32(i) {
				t.Fatalf("session %d of %d: at %d, found %v", i, len(keys), place, ok)
			}
		}
	}
	moves := 0
	aliases := func(place uint32) (bpfSessionKey, error) { return keys[place], nil }
	wait := func() error { moves++; all(); return nil }
	for i := range uint32(sessions) {
		k := bpfSessionKey{Local: half(random.Uint64()), Remote: half(uint64(i))}
		e, err := x.free(x.hash(k), aliases, wait)
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		*e = entryOf(x.hash(k), i, i)
		keys = append(keys, k)
	}
	all()
	if moves == 0 || moves > sessions/4 {
		t.Errorf("%d moves", moves)
	}
	for i, k := range keys {
		if e := x.find(x.hash(k), uint32(i)); e == nil || placeOf(*e) != uint32(i) {
			t.Errorf("session %d is not found by its slot", i)
		}
		if x.find(x.hash(k), sessions) != nil {
			t.Errorf("session %d is found in another slot", i)
		}
	}
}

// Sessions that the programs could not tell apart do not share a bucket: beyond
// two of them there is an error, which leaves the others alone.
func TestIndexTags(t *testing.T) {
	x := &index{buckets: make([]bpfBucket, 64)}
	const hash = 0x123_4567_89ab_cdef
	same := func(uint32) (bpfSessionKey, error) { return bpfSessionKey{}, nil }
	wait := func() error { return nil }
	for i := range uint32(2) {
		e, err := x.free(hash, same, wait)
		if err != nil {
			t.Fatal(err)
		}
		*e = entryOf(hash, i, i)
	}
	for _, b := range x.both(hash) {
		n := 0
		for _, e := range b.Entry {
			if e != 0 {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d entries in a bucket", n)
		}
	}
	full := &index{buckets: make([]bpfBucket, 64)}
	for _, b := range full.both(hash) {
		for i := range b.Entry {
			b.Entry[i] = entryOf(uint64(i)<<indexTag, 0, 0)
		}
	}
	// Whoever is there has its two buckets full as well: they are the same.
	stuck := &index{buckets: full.buckets[:1]}
	for i := range stuck.buckets[0].Entry {
		stuck.buckets[0].Entry[i] = entryOf(uint64(i+1)<<indexTag, 0, 0)
	}
	if _, err := stuck.free(hash, same, wait); !errors.Is(err, errIndexFull) {
		t.Errorf("a full index: %v", err)
	}
}

// A place is handed out again once programs have ended, and not before.
func TestPlaces(t *testing.T) {
	ended := make(chan error)
	places := placeTable{limit: 4, enough: 2, wait: func() error { return <-ended }}
	take := func() uint32 {
		t.Helper()
		n, err := places.take()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := take(), take()
	places.leave(a)
	places.leave(b) // enough: a wait for both begins
	if c, d := take(), take(); c == a || c == b || d == a || d == b {
		t.Errorf("places %d and %d are used while programs may read them", c, d)
	} else {
		places.leave(c)
	}
	failed := errors.New("interrupted")
	go func() { ended <- failed }()
	if _, err := places.take(); !errors.Is(err, failed) {
		t.Errorf("a wait that failed: %v", err)
	}
	go func() { ended <- nil }()
	used := map[uint32]bool{take(): true, take(): true, take(): true}
	if len(used) != 3 {
		t.Errorf("places %v", used)
	}
	if _, err := places.take(); !errors.Is(err, ErrFull) {
		t.Errorf("all in use: %v", err)
	}
}

// TestPlacesOfMove: of a full table, a move rewrites sessions at its pace without waiting for programs to end, which
// takes 40 ms each time.
func TestPlacesOfMove(t *testing.T) {
	const batch, batches = 64, 8 // a batch every 5 ms, so many while programs end
	for _, n := range []int{10_000, DefaultSessions, 100_000} {
		ended, began := make(chan error), 0
		spare := sparePlaces(n)
		places := placeTable{limit: uint32(n + spare), enough: spare / 2, wait: func() error { return <-ended }}
		places.next = uint32(n)
		for i := range n {
			if i%batch == 0 && places.over != nil && i/batch-began >= batches {
				ended <- nil
				if err := places.collect(true); err != nil {
					t.Fatal(err)
				}
			}
			if len(places.free) == 0 && places.next == places.limit {
				t.Fatalf("%d sessions: the move waits after %d, as no place is free", n, i)
			}
			if _, err := places.take(); err != nil {
				t.Fatal(err)
			}
			before := places.over
			places.leave(uint32(i))
			if places.over != before {
				began = i / batch
			}
		}
		if places.over != nil {
			ended <- nil
		}
	}
}

// A session gets the first free entry of its bucket.
func TestFirstEntriesFirst(t *testing.T) {
	var b bpfBucket
	for i := range b.Entry {
		hash := uint64(i+1) << indexTag
		e := room(&b, hash)
		if e != &b.Entry[i] {
			t.Fatalf("session %d of a bucket does not get entry %d", i, i)
		}
		*e = entryOf(hash, uint32(i), uint32(i))
	}
	b.Entry[2] = 0
	if room(&b, 99<<indexTag) != &b.Entry[2] || room(&b, 4<<indexTag) != nil {
		t.Error("an entry that has become free is not taken, or a tag is there twice")
	}
}
