package ilnphost

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"roam/wire/ip6"
)

// whilePublishing has do called when the next session is written: its place has to
// be waited for.
func (r *rig) whilePublishing(do func()) {
	wait, limit := r.places.wait, r.places.limit
	r.places.left = append(r.places.left, r.places.free...)
	if len(r.places.left) == 0 {
		r.places.left = append(r.places.left, r.places.next)
		r.places.next++
	}
	r.places.free, r.places.limit = nil, r.places.next
	r.places.wait = func() error {
		r.places.wait, r.places.limit = wait, limit
		do()
		return wait()
	}
}

// A correspondent may speak plain IPv6 while its session is being made: it has shown
// its nonce once, and goes without from then on. What begins then is not reset when
// the session is there.
func TestSpokePlainMeanwhile(t *testing.T) {
	r, mine, other := realEnds(t)
	realTCP(t, netip.AddrPortFrom(mine, 443), netip.AddrPortFrom(other, 40000))
	segment := fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))
	verdict := shot
	r.whilePublishing(func() { verdict, _ = r.ingress(segment) })
	r.upsert(entryFor(there))
	if verdict != passOn {
		t.Errorf("verdict %d before the session", verdict)
	}
	r.left("begun before the session", segment, segment)
}

// The same at the very moment: what passes as plain IPv6 is known of when the session
// is there, and what would not be is dropped. When a program meets a session that is
// being written is a matter of chance, which the test seeks from both sides.
func TestSpokePlainJustThen(t *testing.T) {
	const enough, most = 10, 3 * time.Second // of dropped ones; with one processor there may be none
	r, _, _ := realEnds(t)
	segment := frame(fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)))
	key := bpfSessionKey{Local: half(uint64(ours)), Remote: half(uint64(theirs))}
	type outcome struct {
		verdict int
		plain   bool
		err     error
	}
	start, over := make(chan bool), make(chan outcome)
	defer close(start)
	go func() {
		for range start {
			verdict, out, err := tryRun(r.objs.IlnpUplinkIngress, segment)
			over <- outcome{verdict, bytes.Equal(out, segment), err}
		}
	}()
	p, head, dropped, passed, unseen := entryFor(there), time.Duration(0), 0, 0, 0
	for begin := time.Now(); dropped < enough && time.Since(begin) < most; {
		_ = r.objs.PlainNodes.Delete(&key)
		start <- true
		for started := time.Now(); time.Since(started) < head; {
		}
		r.upsert(p)
		o := <-over
		r.must(o.err)
		switch flagged := r.known[p.Key].Flags&bpfEntryFlagsENTRY_REAL_SOCKETS != 0; {
		case o.verdict == shot:
			dropped++
		case o.plain:
			passed++
			if !flagged {
				unseen++
			}
			head = max(head-head/16, 0)
		default: // the session was there first
			head += 200 * time.Nanosecond
		}
		r.must(r.Delete(p.Key))
	}
	t.Logf("%d dropped, %d passed", dropped, passed)
	if unseen > 0 {
		t.Errorf("%d of %d segments passed as plain IPv6, and nobody looks for their connection", unseen, passed)
	}
}
