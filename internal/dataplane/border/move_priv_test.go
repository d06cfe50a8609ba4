package border

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// elsewhere is a flow's inside node with another internal locator.
var elsewhere = roam.ILV{L64: aside, NID: insideNID}

// cameBy has the flow's packets have come by that link so far.
func (r *rig) cameBy(link uint32) {
	r.Helper()
	r.change(theKey, func(f *bpfFlow) { f.Link = uint16(link) })
	n := setOf(keyOf(theKey), r.objs.FlowSets.MaxEntries())
	var rest bpfNonceSet
	if err := r.objs.NonceSets.Lookup(n, &rest); err != nil {
		r.Fatal(err)
	}
	rest.Nonces[0].Ifindex = link
	if err := r.objs.NonceSets.Put(n, rest); err != nil {
		r.Fatal(err)
	}
}

// wantAt wants the flow's inside node at a locator and link, and packets from outside to go there on every path.
func (r plainRig) wantAt(when string, l roam.L64, link roam.LinkID) {
	r.Helper()
	f, ok := r.Flow(theKey, r.table)
	if !ok || f.Internal != l || f.Link != link {
		r.Errorf("%s: the host is at %v, link %d, want %v, %d", when, f.Internal, f.Link, l, link)
	}
	packet := moved(r.T, transport(r.T, ip6.UDP, 1, 2), theirs, roam.ILV{L64: siteA, NID: insideNID})
	for _, direct := range []bool{false, true} {
		r.configure(Settings{Direct: direct})
		r.renew()
		if _, out := r.frame(r.objs.SbrUplinkIngress, packet); destination(out[14:]) != l {
			r.Errorf("%s: a packet from outside goes to %v, want %v", when, destination(out[14:]), l)
		}
	}
}

// A packet from inside with the nonce of its flow moves the flow's inside node to its locator and link, once the node
// has sent nothing from where it was, and reports so. A Locator Update does so at once.
func TestHostMoves(t *testing.T) {
	update := func(r plainRig) []byte { return r.update(elsewhere, theirs, outward) }
	echo := func(r plainRig) []byte { return r.echo(elsewhere, theirs, outward, false, 1, 56) }
	for _, c := range []struct {
		what   string
		packet func(r plainRig) []byte
		quiet  bool
		link   uint32 // by which its packets came
		at     roam.L64
	}{
		{"an answer", echo, true, loopback, aside},
		{"an answer beside packets from the last place", echo, false, loopback, internal},
		{"an update", update, true, loopback, aside},
		{"an update beside packets from the last place", update, false, loopback, aside},
		{"an answer by another link", func(r plainRig) []byte {
			return r.echo(mine, theirs, outward, false, 1, 56)
		}, true, 77_777, internal},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newPlainRig(t, siteA)
			r.installAside()
			if err := drain(r.objs.Handovers); err != nil {
				t.Fatal(err)
			}
			events, err := r.Follow()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { close(r.closing); r.ring.Close() })
			r.cameBy(c.link)
			if r.quiet(); !c.quiet {
				r.run(r.objs.SbrInsideIngress, r.from(internal))
			}
			before := r.counter("flow_confirmed")
			r.run(r.objs.SbrInsideIngress, c.packet(r))
			r.wantAt(c.what, c.at, loopback)
			if r.counter("flow_confirmed") != before || !r.hasSent() || r.known() != 1 {
				t.Error("it is another flow, or its host has sent nothing")
			}
			if c.at == internal && !c.quiet {
				return
			}
			select {
			case e := <-events:
				if e.Kind != FlowChanged || e.Flow != theKey {
					t.Errorf("reported %+v", e)
				}
			case <-time.After(5 * time.Second):
				t.Error("nothing is reported")
			}
		})
	}
}

// An echo request moves nothing: the inside node probes by each of its locators, also where nothing reaches it.
func TestProbeMovesNobody(t *testing.T) {
	r := newPlainRig(t, siteA)
	r.installAside()
	r.quiet()
	r.run(r.objs.SbrInsideIngress, r.echo(elsewhere, theirs, outward, true, 1, 56))
	r.wantAt("an echo request", internal, loopback)
}

// Without the nonce of the flow nothing moves its inside node, however long that has been quiet.
func TestOnlyNonceMovesHost(t *testing.T) {
	r := newPlainRig(t, siteA)
	r.installAside()
	forged := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	for _, from := range []roam.ILV{elsewhere, mine} {
		if from == mine {
			r.cameBy(loopback + 1)
		}
		for i, packet := range [][]byte{
			r.from(from.L64), r.echo(from, theirs, ilnp.Nonce{}, true, 1, 56), r.echo(from, theirs, inward, true, 1, 56),
			r.echo(from, theirs, forged, true, 1, 56), r.update(from, theirs, forged), r.update(from, theirs, inward),
		} {
			for _, prog := range []*ebpf.Program{r.objs.SbrInsideIngress, r.objs.SbrInsideXdp} {
				r.quiet()
				r.renew()
				r.frame(prog, packet)
				if f, _ := r.Flow(theKey, r.table); f.Internal != internal || from == mine && f.Link == loopback || r.hasSent() {
					t.Errorf("packet %d from %v moves the host to %v, link %d", i, from, f.Internal, f.Link)
				}
			}
		}
	}
}

// The same holds of flows without a place in their set. While a program changes the set nothing moves, and the next
// nonce succeeds.
func TestHostMovesBeyondSet(t *testing.T) {
	s := newSharers(t, 6)
	s.installAside()
	for i := range 6 {
		s.nonces(i)
	}
	move := func(i int) roam.L64 {
		out, _ := own(i)
		far := roam.ILV{L64: remote, NID: s.outside[i]}
		s.run(s.objs.SbrInsideIngress, s.update(elsewhere, far, out))
		f, _ := s.Flow(s.key(i), s.table)
		return f.Internal
	}
	s.lock(s.set, 1)
	for i := range 6 {
		if l := move(i); l != internal {
			t.Errorf("flow %d moves to %v while its set is locked", i, l)
		}
	}
	s.lock(s.set, 0)
	for i := range 6 {
		l := move(i)
		site := roam.ILV{L64: siteA, NID: insideNID}
		back := moved(t, transport(t, ip6.UDP, 1, 2), roam.ILV{L64: remote, NID: s.outside[i]}, site)
		if _, got := s.run(s.objs.SbrUplinkIngress, back); l != aside || destination(got) != aside {
			t.Errorf("flow %d moves to %v, its packets to %v", i, l, destination(got))
		}
	}
	s.wantOwnNonces()
}

// While hosts move and flows of one set come and go on several processors, no flow has another one's nonces, and the
// count stays right.
func TestMovesUnderRaces(t *testing.T) {
	s := newSharers(t, 8)
	s.installAside()
	deadline := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for time.Now().Before(deadline) && !t.Failed() {
				i := rand.IntN(len(s.outside))
				out, _ := own(i)
				s.nonces(i)
				from := []roam.ILV{mine, elsewhere}[rand.IntN(2)]
				s.run(s.objs.SbrInsideIngress, s.update(from, roam.ILV{L64: remote, NID: s.outside[i]}, out))
				if rand.IntN(4) == 0 {
					_ = s.Forget(s.key(i)) // its set may be locked
				}
			}
		})
	}
	all.Wait()
	s.known()
	s.wantOwnNonces()
	list, err := s.Flows(s.table)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Internal != internal && f.Internal != aside {
			t.Error(fmt.Sprint(f.FlowKey, " is at ", f.Internal))
		}
	}
}
