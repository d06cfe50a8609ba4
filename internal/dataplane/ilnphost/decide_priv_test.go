package ilnphost

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/wire/xlate/decide"
)

// decideSeeds are kept: each of them gives the same worlds and packets in every run.
var decideSeeds = []uint64{6740, 6741, 6743, 6744}

const (
	worldsEnv  = "ROAM_WORLDS" // how many worlds of a seed instead: a guest is slow at reading maps
	worldsEach = 700           // of a seed
	shotsEach  = 12            // packets, one after the other, of a world
)

// socketAt is a socket of the test's namespace, and how the kernel finds it.
type socketAt struct {
	stream, listens bool
	local, remote   roam.ILV // zero: any
	own, foreign    uint16   // 0: any
}

type socketList []socketAt

func (l socketList) find(stream bool, remote, local roam.ILV, foreign, own uint16) (best socketAt, found bool) {
	most := -1
	for _, s := range l {
		score := 0
		switch {
		case s.stream != stream || s.own != own:
			continue
		case s.foreign != 0 && (s.remote != remote || s.foreign != foreign || s.local != local):
			continue
		case s.local != roam.ILV{} && s.local != local:
			continue
		case s.foreign != 0:
			score = 2
		case s.local != roam.ILV{}:
			score = 1
		}
		if score > most {
			best, most, found = s, score, true
		}
	}
	return best, found
}

// Stream looks a TCP socket up.
func (l socketList) Stream(remote, local roam.ILV, foreign, own uint16) (decide.Socket, bool) {
	s, ok := l.find(true, remote, local, foreign, own)
	return decide.Socket{Local: s.local, Listens: s.listens}, ok
}

// Datagram looks a UDP socket up.
func (l socketList) Datagram(remote, local roam.ILV, foreign, own uint16) (decide.Socket, bool) {
	s, ok := l.find(false, remote, local, foreign, own)
	return decide.Socket{Local: s.local, Connected: s.foreign != 0}, ok
}

// open makes the sockets of a list that are not the other ends of connections.
func (l socketList) open(t *testing.T) socketList {
	var ends []socketAt
	for _, s := range l {
		from := netip.AddrPortFrom(netip.IPv6Unspecified(), s.own)
		if s.local != (roam.ILV{}) {
			from = netip.AddrPortFrom(s.local.Addr(), s.own)
		}
		var to netip.AddrPort
		if s.foreign != 0 {
			to = netip.AddrPortFrom(s.remote.Addr(), s.foreign)
		}
		switch {
		case !s.stream:
			realUDP(t, from, to)
		case s.listens:
			keep, err := net.ListenTCP("tcp6", net.TCPAddrFromAddrPort(from))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { keep.Close() })
		default:
			realTCP(t, from, to)
			ends = append(ends, socketAt{stream: true, local: s.remote, remote: s.local, own: s.foreign, foreign: s.own})
		}
	}
	return append(l, ends...)
}

// decideSockets are those of the generated cases: on real addresses, on session addresses,
// on both, on any.
var decideSockets = socketList{
	{stream: true, local: at(here, ours), remote: at(there, theirs), own: 443, foreign: 40000},
	{stream: true, local: at(here+1, ours), remote: at(else1, theirs), own: 443, foreign: 40002},
	{stream: true, local: session(ours), remote: session(theirs), own: 444, foreign: 40000},
	{stream: true, local: session(ours), remote: session(theirs), own: 445, foreign: 40001},
	{stream: true, local: at(here, ours), remote: at(there, theirs), own: 445, foreign: 40001},
	{stream: true, listens: true, local: at(here, ours), own: 446},
	{local: at(here, ours), remote: at(there, theirs), own: 5001, foreign: 5000},
	{local: at(here, ours), own: 5002},
	{own: 5003},
	{local: at(here, ours), own: 5004},
	{local: session(ours), own: 5004},
	{local: session(ours), remote: session(theirs), own: 5005, foreign: 5000},
}

func newDecideRig(t *testing.T) *decideRig {
	r := &decideRig{rig: newRigOf(t, 16), sockets: decideSockets}
	r.must(r.ticks.setZero(0)) // the programs use the coarse clock, as the model does
	ip(t, "link add up1 index 2 type veth peer name peer1 index 3")
	ip(t, "link set up1 address "+net.HardwareAddr(otherMAC).String())
	ip(t, "link add seg1 index 4 type veth peer name seg2 index 5")
	for _, l := range []string{"up1", "peer1", "seg1", "seg2"} {
		ip(t, "link set "+l+" mtu 9000 up") // probe copies are longer than 1500 bytes
	}
	addressed(t, at(here, ours).Addr(), at(here+1, ours).Addr(), at(there, theirs).Addr(), at(else1, theirs).Addr(),
		session(ours).Addr(), session(theirs).Addr())
	r.sockets = r.sockets.open(t)
	r.before = r.counts()
	return r
}

// reached is what generated cases have shown.
type reached struct {
	cases, ambiguous int
	verdicts         map[decide.Verdict]int
	counters         [decide.Counters]int
	events           [decide.EventKinds]int
	actions          map[decide.Action]int
	nbytes           int
}

func (a *reached) note(got result, o decide.Outcome) {
	a.cases++
	a.verdicts[decide.Verdict(got.verdict)]++
	a.actions[o.Action]++
	for _, c := range got.counters {
		a.counters[c]++
	}
	for _, e := range got.events {
		a.events[e.Kind]++
	}
}

// try runs one packet through a program and the model.
func (r *decideRig) try(s shotAt, all *reached) (got result, want decide.Outcome, wrong []string) {
	before, after := r.model(), r.model()
	at := clock(unix.CLOCK_MONOTONIC_COARSE)
	got = r.fire(s)
	then := clock(unix.CLOCK_MONOTONIC)
	r.reread()
	want = step(before, at, s)
	late := step(after, then, s)
	all.note(got, want)
	wrong = disagrees(s, got, want, &before.Host)
	if len(wrong) > 0 && !reflect.DeepEqual(want, late) {
		// Time went on in between, over the edge of something.
		all.ambiguous++
		if disagrees(s, got, late, &before.Host) == nil {
			want, wrong = late, nil
		}
	}
	wrong = append(wrong, r.noted(s, got, want)...)
	return got, want, append(wrong, r.changed(before, after)...)
}

// step has the model decide, as far as a test run of the kernel can follow.
func step(s *decide.State, now uint64, at shotAt) (o decide.Outcome) {
	if at.outward {
		o = s.Egress(now, at.packet)
	} else {
		o = s.Ingress(now, at.packet)
	}
	// The kernel assigns sockets to packets of a link only.
	o.Counters = slices.DeleteFunc(o.Counters, func(c decide.Counter) bool { return c == decide.RxListener })
	if at.packet.GSO != 0 && o.Action == decide.Sent && o.Nonce.Present() {
		// It makes no room in a GSO packet whose type is not set, as a test run's is not.
		o.Verdict, o.Action = decide.Shot, decide.Left
		o.Counters = slices.DeleteFunc(o.Counters, func(c decide.Counter) bool {
			return c == decide.TxNonce || c == decide.TxEncap || c == decide.TxPackets
		})
		o.Counters = append(o.Counters, decide.DropKernelHelper)
	}
	return o
}

// TestDecisions runs generated cases of what the maps hold and of a packet through the
// programs and through the model: verdict, counters, events, bytes, and what the maps
// hold afterwards are the same.
func TestDecisions(t *testing.T) {
	if int(decide.Counters) != int(bpfCounterCOUNTERS_MAX) || int(decide.EventKinds) != int(bpfEventKindEV_ACKED)+1 {
		t.Fatal("the model does not have the counters and events of the programs")
	}
	r := newDecideRig(t)
	all := &reached{verdicts: map[decide.Verdict]int{}, actions: map[decide.Action]int{}}
	worlds := worldsEach
	if s := os.Getenv(worldsEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", worldsEnv, err)
		}
		worlds = n
	}
	for _, seed := range decideSeeds {
		for n := range worlds {
			g := &gen{Rand: rand.New(rand.NewPCG(seed, uint64(n))), now: clock(unix.CLOCK_MONOTONIC)}
			r.install(g.world(r.hostRow()))
			for i := range shotsEach {
				g.now = clock(unix.CLOCK_MONOTONIC)
				s := g.shot(r.w)
				got, want, wrong := r.try(s, all)
				if g.last = nil; want.Action == decide.Sent {
					g.last = got.out
				}
				if len(wrong) > 0 {
					t.Errorf("seed %d, world %d, packet %d: %s\n%s", seed, n, i, strings.Join(wrong, "\n"), r.describe(s))
					break
				}
			}
			if t.Failed() {
				return
			}
		}
	}
	if worlds >= worldsEach { // of fewer not all may show what comes once in a hundred worlds
		r.missing(all)
	}
	t.Logf("%d cases: verdicts %v, actions %v, %d at the edge of a time", all.cases, all.verdicts, all.actions, all.ambiguous)
	for c, n := range all.counters {
		t.Logf("%6d %s", n, counterTable[c].Name)
	}
	t.Logf("events %v", all.events)
}

// unreachable has what no test run can show, and why.
var (
	unreachable = map[decide.Counter]string{
		decide.RxListener:      "the kernel assigns sockets to packets of a link only: TestLiveServers and others",
		decide.DropNoPathRetry: "the socket of a test run is no TCP socket",
		decide.DropMissTooBig:  "a packet of a test run is shorter than a page: TestLiveMissTooBig",
		decide.DropSessionLink: "counted by another object, guard.bpf.c",
	}
	untold = map[decide.EventKind]string{
		decide.Stall: "the socket of a test run is no TCP socket",
		decide.Queue: "the socket of a test run is no TCP socket",
	}
)

// missing fails the test for a verdict, a counter, an action or a kind of event that no
// case has shown, unless it is listed; and for one that is listed and was shown.
func (r *decideRig) missing(all *reached) {
	r.t.Helper()
	for _, v := range decide.Verdicts {
		if all.verdicts[v] == 0 {
			r.t.Errorf("no case has the verdict %d", v)
		}
	}
	for a := range decide.Rebuilt + 1 {
		if all.actions[a] == 0 {
			r.t.Errorf("no case has the action %d", a)
		}
	}
	for c, n := range all.counters {
		if why, listed := unreachable[decide.Counter(c)]; (n == 0) != listed {
			r.t.Errorf("%s was counted %d times; listed: %q", counterTable[c].Name, n, why)
		}
	}
	for e, n := range all.events {
		if why, listed := untold[decide.EventKind(e)]; (n == 0) != listed {
			r.t.Errorf("event %d came %d times; listed: %q", e, n, why)
		}
	}
}

// describe prints a case for people.
func (r *decideRig) describe(s shotAt) string {
	var b strings.Builder
	k := s.packet
	fmt.Fprintf(&b, "outward %v, link %d, arrived %d, gso %d, mark %x, astray %v\n%s\n", s.outward, k.Link, k.Arrived, k.GSO, k.Mark, k.Astray, hex.EncodeToString(k.Bytes[:min(len(k.Bytes), 160)]))
	for i, p := range r.w.sessions {
		fmt.Fprintf(&b, "session %+v\n", modelSession(p, r.w.lives[i]))
		fmt.Fprintf(&b, "  seen %+v\n", modelLive(r.w.lives[i]))
	}
	for k, e := range r.w.pending {
		fmt.Fprintf(&b, "pending %x %x: %+v\n", k.Local.nid(), k.Remote.nid(), *modelPending(e))
	}
	fmt.Fprintf(&b, "host %+v\nmarks %+v\n", modelHost(r.w.host), r.w.marks)
	return b.String()
}
