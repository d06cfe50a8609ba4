package ilnphost

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"roam"
	"roam/ilnp"
	"roam/internal/hostnet"
	"roam/internal/testutil"
	"roam/wire/ip6"
)

// restart closes the plane and opens it on the same pins.
func (r *rig) restart() {
	r.t.Helper()
	r.close()
	r.open()
	r.must(r.SetHost(r.host))
}

// numbered is a session with the n-th correspondent.
func numbered(n int) ilnp.Entry {
	p := entryFor(there)
	p.RemoteNID = theirs + roam.NID(n)
	p.Key.Remote = p.RemoteNID
	return p
}

func (r *rig) attached(at ebpf.AttachType) []ebpf.ProgramID {
	r.t.Helper()
	testutil.NeedKernel(r.t, "tcx links", r.set.TCX())
	res, err := link.QueryPrograms(link.QueryOptions{Target: int(loopback), Attach: at})
	r.must(err)
	var ids []ebpf.ProgramID
	for _, p := range res.Programs {
		ids = append(ids, p.ID)
	}
	return ids
}

// wantDetached waits: the kernel lets go of a link a little after its last pin.
func (r *rig) wantDetached(at ebpf.AttachType) {
	r.t.Helper()
	testutil.Eventually(r.t, 5*time.Second, func() bool { return len(r.attached(at)) == 0 }, "no program is attached any more")
}

// linkPin is the pin of a link's ingress.
func (r *rig) linkPin(dev roam.LinkID) string {
	return filepath.Join(r.set.Dir(), fmt.Sprintf("link_%d_ingress", dev))
}

func (r *rig) linkID() link.ID {
	r.t.Helper()
	testutil.NeedKernel(r.t, "tcx links", r.set.TCX())
	l, err := link.LoadPinnedLink(r.linkPin(loopback), nil)
	r.must(err)
	defer l.Close()
	info, err := l.Info()
	r.must(err)
	return info.ID
}

// A successor finds sessions, slots, what was seen of them, counters and the
// secret of pending peers; links change programs without a gap.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.uplink(here, else2)
	for n := range 3 {
		r.upsert(numbered(n))
	}
	r.must(r.Delete(numbered(1).Key))
	r.must(r.AttachUplink(loopback, true))
	r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID}))
	r.ingress(fromPeer(there, theirNonce, ip6.UDP, udp(9)))
	r.ingress(knock(unlistedPeer(1), theirNonce))
	evs := r.events()
	was, wasLink, wasPrograms := r.known, r.linkID(), r.attached(ebpf.AttachTCXIngress)
	secret, counters := r.hostRow().Secret, r.total("rx_packets")
	r.restart()
	r.must(r.AttachUplink(loopback, true))
	if !r.Adopted() || len(r.known) != 2 {
		t.Fatalf("adopted %v, sessions %v", r.Adopted(), r.known)
	}
	for k, row := range was {
		if r.known[k] != row {
			t.Errorf("%v: %+v, was %+v", k, r.known[k], row)
		}
	}
	programs := r.attached(ebpf.AttachTCXIngress)
	if r.linkID() != wasLink || len(programs) != 1 || slices.Equal(programs, wasPrograms) {
		t.Errorf("link %d with programs %v, was %d with %v", r.linkID(), programs, wasLink, wasPrograms)
	}
	if r.hostRow().Secret != secret || r.total("rx_packets") != counters {
		t.Error("secret or counters began anew")
	}
	if i, ok := r.uplinks.indexOf(roam.LinkLocator{Link: loopback, L64: else2}); !ok || i != 1 {
		t.Errorf("second locator has index %d, %v", i, ok)
	}
	if used := r.UplinksInUse(); len(used) != 1 || used[0] != (roam.LinkLocator{Link: loopback, L64: here}) {
		t.Errorf("locators in use %v", used)
	}
	acts, err := r.Activity(r.keys())
	r.must(err)
	if traffic, err := r.Traffic(numbered(0).Key); err != nil || len(acts) != 2 || traffic.RxPackets != 1 {
		t.Errorf("activity %+v, %+v, %v", acts, traffic, err)
	}
	r.upsert(numbered(3))
	if slot := r.known[numbered(3).Key].Slot; slot != 1 {
		t.Errorf("new session in slot %d, want the free one", slot)
	}
	r.ingress(knock(unlistedPeer(1), theirNonce))
	if again := r.events(); len(again) != 1 || again[0].OwnNonce != evs[len(evs)-1].OwnNonce {
		t.Errorf("events %+v, before %+v", again, evs)
	}
}

// keys returns those of all sessions.
func (r *rig) keys() []ilnp.SessionKey { return slices.Collect(maps.Keys(r.known)) }

func (r *rig) hostRow() (h bpfHost) {
	r.t.Helper()
	r.must(r.objs.Hosts.Lookup(uint32(0), &h))
	return h
}

func (r *rig) total(name string) uint64 {
	r.t.Helper()
	cs, err := r.Counters()
	r.must(err)
	for _, c := range cs {
		if c.Name == name {
			return c.Value
		}
	}
	r.t.Fatalf("no counter %s", name)
	return 0
}

// A core that lost its latest state counts on from an older one: what was seen
// under a number of the past must not count again.
func TestRestartWithOlderState(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	r.ingress(fromPeer(else1, theirNonce, ip6.UDP, udp(9))) // a hint for number 1
	p.Seq = 7
	r.upsert(p)
	r.restart()
	r.uplink(here)
	p.Seq = 1
	r.upsert(p)
	if got := r.send(ip6.UDP, udp(9)); got.Dst.L64 != there {
		t.Errorf("sends to %v, where the correspondent was long ago", got.Dst.L64)
	}
	if seq := r.known[p.Key].Seq; seq != 7 {
		t.Errorf("the same entry has number %d", seq)
	}
	p.Paths[0].Remote = else2
	r.upsert(p)
	if seq := r.known[p.Key].Seq; seq != 8 {
		t.Errorf("another entry has number %d", seq)
	}
}

// Maps of another build are not taken over. What it attached goes on until the new maps
// have the sessions: untranslated, packets would be answered with resets.
func TestRestartOverAnotherABI(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.must(r.AttachUplink(loopback, true))
	r.must(r.objs.Abi.Put(uint32(0), ABI+1))
	r.restart()
	if r.Adopted() || len(r.known) != 0 {
		t.Errorf("sessions of another build: %v", r.known)
	}
	if v, _ := r.egress(toPeer(ip6.UDP, udp(9))); v != consumed {
		t.Errorf("session of another build: verdict %d", v)
	}
	was, wasLink := r.attached(ebpf.AttachTCXIngress), r.linkID()
	r.must(r.AttachUplink(loopback, true))
	if now := r.attached(ebpf.AttachTCXIngress); !r.Behind() || !slices.Equal(now, was) {
		t.Errorf("programs without sessions are attached: %v, before that %v", now, was)
	}
	r.must(r.TakeOver())
	if now := r.attached(ebpf.AttachTCXIngress); len(was) != 1 || len(now) != 1 || now[0] == was[0] || r.linkID() != wasLink {
		t.Errorf("programs %v of link %d, before that %v of %d", now, r.linkID(), was, wasLink)
	}
}

// A slot that changes hands, or a session that begins anew, starts with nothing
// seen.
func TestSlotsBeginEmpty(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	seen := func(p ilnp.Entry) uint64 {
		t.Helper()
		traffic, err := r.Traffic(p.Key)
		r.must(err)
		return traffic.RxPackets
	}
	a, b := numbered(0), numbered(1)
	r.upsert(a)
	r.ingress(fromPeer(there, none, ip6.UDP, udp(9)))
	first := r.known[a.Key]
	if seen(a) != 1 {
		t.Fatalf("%d packets seen", seen(a))
	}
	r.must(r.Delete(a.Key))
	r.slotsRested()
	r.upsert(b)
	second := r.known[b.Key]
	if second.Slot != first.Slot || second.Birth == first.Birth || seen(b) != 0 {
		t.Errorf("slot %d, birth %d, seen %d; the one before %d, %d", second.Slot, second.Birth, seen(b), first.Slot, first.Birth)
	}
	r.must(r.Delete(b.Key))
	r.upsert(a)
	r.ingress(fromPeer(there, none, ip6.UDP, udp(9)))
	birth := r.known[a.Key].Birth
	a.Seq++
	r.upsert(a)
	if r.known[a.Key].Birth != birth || seen(a) != 1 {
		t.Error("an update of the entry is taken for another session")
	}
	a.LocalNonce = longNonce
	r.upsert(a)
	if r.known[a.Key].Birth == birth || seen(a) != 0 {
		t.Error("another session of the same two nodes goes on with what the first one saw")
	}
}

// A full table is an error for the session that found it full, and for no
// other.
func TestTableFull(t *testing.T) {
	r := newRigOf(t, LeastSessions)
	r.uplink(here)
	limit := int(r.objs.SessionLives.MaxEntries())
	for n := range limit {
		r.upsert(numbered(n))
	}
	if err := r.Upsert(numbered(limit), Turn{}); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	again := numbered(5)
	again.Seq++
	r.upsert(again)
	r.must(r.Delete(numbered(7).Key))
	r.upsert(numbered(limit))
	for n := range limit {
		r.must(r.SetRecord(Record{NID: numbered(n).RemoteNID}))
	}
	if err := r.SetRecord(Record{NID: numbered(limit).RemoteNID}); !errors.Is(err, ErrFull) {
		t.Errorf("one more that is known: %v", err)
	}
	if v, _ := r.ingress(fromPeer(there, none, ip6.UDP, udp(9))); v != passOn {
		t.Errorf("verdict %d", v)
	}
	r.must(r.Sync([]ilnp.Entry{again, numbered(limit + 1)}))
	r.close()
	r.open()
	rows := len(entries(r))
	if rows != 2 || len(r.known) != 2 {
		t.Errorf("%d sessions, %d known, want 2", rows, len(r.known))
	}
}

// Each local locator keeps its index as long as there is choice: entries of
// sessions name locators by it.
func TestUplinkIndexes(t *testing.T) {
	r := newRig(t)
	local := func(n int) roam.LinkLocator { return roam.LinkLocator{Link: loopback, L64: here + roam.L64(n)} }
	set := func(ns ...int) error {
		var es []UplinkEntry
		for _, n := range ns {
			es = append(es, UplinkEntry{Local: local(n), Usable: true, MTU: 1500})
		}
		return r.SetUplinks(es)
	}
	index := func(n int) int {
		i, ok := r.uplinks.indexOf(local(n))
		if !ok {
			return -1
		}
		return int(i)
	}
	r.must(set(0, 1, 2))
	r.must(set(2, 0))
	r.must(set(3, 2))
	if index(2) != 2 || index(3) != 3 || index(0) != 0 || index(1) != 1 {
		t.Errorf("indexes %d %d %d %d", index(0), index(1), index(2), index(3))
	}
	var row bpfUplink
	r.must(r.objs.Uplinks.Lookup(uint32(1), &row))
	if row.Flags != 0 {
		t.Errorf("a locator that is gone is usable: %+v", row)
	}
	all := make([]int, 16)
	for i := range all {
		all[i] = i + 2
	}
	r.must(set(all...)) // 14 and 15 have to take the places of 0 and 1
	if index(2) != 2 || index(0) != -1 || index(1) != -1 || index(17) < 0 {
		t.Errorf("indexes %d %d %d %d", index(0), index(1), index(2), index(17))
	}
	if err := set(append(all, 20)...); err == nil || index(20) != -1 || index(17) < 0 {
		t.Errorf("a 17th locator: %v, index %d", err, index(20))
	}
}

// Remove leaves neither pins nor programs, also of a plane that is still open.
func TestRemove(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.must(r.AttachUplink(loopback, true))
	r.must(r.AttachUplink(loopback, true))
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		if n := len(r.attached(at)); n != 1 {
			t.Errorf("%d programs attached", n)
		}
	}
	r.must(Remove(r.opts.PinDir))
	left, err := os.ReadDir(r.opts.PinDir)
	r.must(err)
	if len(left) != 0 {
		t.Errorf("pins %v are left", left)
	}
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		r.wantDetached(at)
	}
	r.must(Remove(r.opts.PinDir))
	r.must(Remove(r.opts.PinDir + "/none"))
}

// Events come through the channel, and Close does not wait for who does not
// take them.
func TestEvents(t *testing.T) {
	dir := enclose(t)
	p, err := Open(Options{PinDir: dir + "/pins", Classic: hostnet.Classic{}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Plane: p, t: t}
	r.must(p.SetHost(HostSettings{
		SessionPrefix: roam.DefaultSessionPrefix, NIDs: []roam.NID{ours}, NonceLength: 4, Device: loopback,
	}))
	miss := frame(toPeer(ip6.UDP, udp(9)))
	r.run(p.objs.IlnpSessionEgress, miss)
	select {
	case ev := <-p.Requests():
		if ev.Kind != Miss || ev.Key != entryFor().Key {
			t.Errorf("event %+v", ev)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no event")
	}
	// More until it is full: a ring whose reader has to wait for a processor
	// drops what does not fit.
	testutil.Eventually(t, 20*time.Second, func() bool {
		for range 64 {
			r.run(p.objs.IlnpSessionEgress, miss)
		}
		return len(p.requests) == cap(p.requests)
	}, "the queue of events is full")
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		r.must(err)
	case <-time.After(5 * time.Second):
		t.Fatal("Close waits for somebody to take the events")
	}
}
