package ilnphost

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// unsettled is UNSETTLED of bpf/ilnp/index.h: a verdict of the compact path that is not
// less leaves a packet to the full path.
const unsettled = 1 << 30

// settle has the programs take a session for settled, as its first packets do.
func (r *rig) settle(k ilnp.SessionKey) {
	r.t.Helper()
	row := r.known[k]
	r.setLive(k, func(l *noted) {
		l.bpfSessionDetails = bpfSessionDetails{Birth: row.Birth, Seq: row.Seq, Bare: 1}
		l.UnansweredTx = 0
		l.State = stateOf(row, *l, dataplane.Monotonic(time.Now()))
	})
}

// paths are the programs that translate packets, with or without their compact path.
type paths struct {
	Egress  *ebpf.Program `ebpf:"ilnp_session_egress"`
	Ingress *ebpf.Program `ebpf:"ilnp_uplink_ingress"`
}

// pathsOf loads the programs once more, on the same maps.
func (r *rig) pathsOf(compact int) paths { return r.pathsWith("compact", uint8(compact)) }

// pathsWith does, with another value of one of their constants.
func (r *rig) pathsWith(constant string, value any) (p paths) {
	r.t.Helper()
	spec, err := r.spec()
	r.must(err)
	r.must(spec.Variables[constant].Set(value))
	dataplane.Shorten(spec)
	r.must(spec.LoadAndAssign(&p, &ebpf.CollectionOptions{MapReplacements: mapsByName(&r.objs.bpfMaps)}))
	r.t.Cleanup(func() { p.Egress.Close(); p.Ingress.Close() })
	return p
}

// done is what a program did with a packet, and how its run ended: a run whose packet has
// CHECKSUM_COMPLETE fails if that is not true any more.
type done struct {
	result
	err string
}

// through runs the packets through programs, one after the other.
func (r *decideRig) through(p paths, shots []shotAt) (all []done) {
	r.t.Helper()
	for i, s := range shots {
		prog := p.Ingress
		if s.outward {
			prog = p.Egress
		}
		var d done
		v, out, err := tryRun(prog, s.frame, func(o *ebpf.RunOptions) {
			o.Context = contextOf(s.packet)
			if i%4 == 3 && s.packet.GSO == 0 && !s.outward {
				complete(o)
			}
		})
		if d.err = fmt.Sprint(err); err == nil {
			d.verdict, d.out = v, out
		}
		r.collect(&d.result)
		all = append(all, d)
	}
	r.reread()
	return all
}

// history is what a path has made of the same packets in the same world.
type history struct {
	all   []done
	world *world
}

// differences says where the compact path differs from the full one.
func (full history) differences(compact history) (wrong []string) {
	for i := range full.all {
		f, c := full.all[i], compact.all[i]
		if f.verdict == shot { // whatever is left of it
			f.out, c.out = nil, nil
		}
		f.out, c.out = withoutClock(f.out), withoutClock(c.out)
		if !reflect.DeepEqual(f, c) {
			wrong = append(wrong, fmt.Sprintf("packet %d: %+v, and by the full path %+v, bytes: %s", i,
				short(c), short(f), difference(c.out, f.out)))
		}
	}
	f, c := full.world, compact.world
	for i := range f.lives {
		f.lives[i].State, c.lives[i].State = 0, 0 // agrees looks at it
		if f.lives[i] != c.lives[i] {
			wrong = append(wrong, fmt.Sprintf("session %d: %+v\nby the full path %+v", i, c.lives[i], f.lives[i]))
		}
	}
	for name, rows := range map[string][2]any{
		"pending peers": {f.pending, c.pending}, "plain nodes": {f.plainNodes, c.plainNodes},
		"plain flows": {f.plainFlows, c.plainFlows}, "windows": {f.windows, c.windows},
		"allowances": {f.allowances, c.allowances},
	} {
		if !reflect.DeepEqual(rows[0], rows[1]) {
			wrong = append(wrong, fmt.Sprintf("%s: %+v, and by the full path %+v", name, rows[1], rows[0]))
		}
	}
	return wrong
}

// strays says which sessions have a state that lets packets by which the details do not.
func (w *world) strays(now uint64) (wrong []string) {
	for i, p := range w.sessions {
		l := w.lives[i]
		want := stateOf(p, l, now)
		if uint16(l.State>>stateEdition) == editionOf(p) && letBy(l.State)&^letBy(want) != 0 {
			wrong = append(wrong, fmt.Sprintf("session %d has state %x, its details say %x", i, l.State, want))
		}
	}
	return wrong
}

// letBy returns a bit for each kind of packets that a state lets by: out, in, and of TCP in.
func letBy(state uint32) (kinds uint32) {
	if state&(statePastNonces|stateRule|stateHint) == statePastNonces|stateRule {
		kinds |= 1
	}
	if state&(stateBare|stateRule) == stateBare|stateRule {
		kinds |= 2
		if state&stateReturned == 0 {
			kinds |= 4
		}
	}
	return kinds
}

func short(d done) done {
	d.out, d.packets = nil, nil
	return d
}

// from makes all moments from one on that moment: what both paths have noted just now is
// the same.
func (h history) from(began uint64) {
	ns := func(vs ...*uint64) {
		for _, v := range vs {
			*v = min(*v, began)
		}
	}
	in := func(began uint32, vs ...*uint32) {
		for _, v := range vs {
			if int32(*v-began) > 0 {
				*v = began
			}
		}
	}
	for i := range h.world.lives {
		l := &h.world.lives[i]
		in(uint32(began>>20), &l.UnansweredTx, &l.LastTx, &l.LastRx, &l.LastNonceRx, &l.SilenceTold, &l.Returned)
		in(uint32(began>>16), &l.ToldUntil, &l.UpdatesUntil)
		in(uint32(began/1e6), &l.SoughtSince, &l.CopySent)
	}
	for i := range h.world.windows {
		ns(&h.world.windows[i].Since)
	}
	for k, a := range h.world.allowances {
		ns(&a.Since)
		h.world.allowances[k] = a
	}
	for k, e := range h.world.pending {
		ns(&e.Since, &e.Heard)
		h.world.pending[k] = e
	}
}

const (
	coarseTick = 1e7     // ns by which the programs' clock is behind at most
	rateWindow = 1 << 28 // RATE_WINDOW of bpf/ilnp/types.h
)

// compare runs generated packets through both paths, in the same world. What the full path
// itself does otherwise a moment later shows nothing, nor do runs between which another
// window of the rate of sending began: then it tries again, with the world's moments a little
// earlier, as a period may end between the runs. decided: it was not so each time.
func (r *decideRig) compare(full, compact paths, seed, n uint64) (shots []shotAt, wrong []string, decided bool) {
	r.t.Helper()
	for try := range uint64(20) {
		began := clock(unix.CLOCK_MONOTONIC_COARSE)
		oneWindow := func() bool {
			return (began-coarseTick)/rateWindow == clock(unix.CLOCK_MONOTONIC_COARSE)/rateWindow
		}
		of := func(p paths) history {
			g := &gen{Rand: rand.New(rand.NewPCG(seed, n)), now: began - try*coarseTick}
			w := g.settledWorld(r.hostRow())
			shots = g.settledShots(w)
			r.install(w)
			h := history{r.through(p, shots), r.w}
			wrong = append(wrong, h.world.strays(clock(unix.CLOCK_MONOTONIC))...)
			h.from(began - coarseTick)
			return h
		}
		wrong = nil
		f, c := of(full), of(compact)
		if !oneWindow() {
			continue
		}
		if wrong = append(wrong, f.differences(c)...); len(wrong) == 0 {
			return shots, nil, true
		}
		if len(f.differences(of(full))) == 0 && len(c.differences(of(compact))) == 0 && oneWindow() {
			return shots, wrong, true
		}
	}
	return shots, nil, false
}

// packetsEnv says how many packets TestCompactPath compares.
const packetsEnv = "ROAM_COMPACT_PACKETS"

// TestCompactPath runs generated packets of all kinds, most of them of settled sessions,
// through the compact path and through the full path alone: verdict, bytes, counters,
// events and all that the maps hold afterwards are the same.
func TestCompactPath(t *testing.T) {
	r := newDecideRig(t)
	full, compact, alone := r.pathsOf(0), r.pathsOf(1), r.pathsOf(2)
	packets := 12_000
	if s := os.Getenv(packetsEnv); s != "" {
		var err error
		if packets, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seen, taken, undecided := map[bool]int{}, map[bool]int{}, 0
	for n := 0; seen[true]+seen[false] < packets; n++ {
		shots, wrong, decided := r.compare(full, compact, 6748, uint64(n))
		if !decided {
			undecided++
		}
		if len(wrong) > 0 {
			for i, s := range shots {
				t.Logf("packet %d: %s", i, r.describe(s))
			}
			t.Fatalf("world %d: %s", n, strings.Join(wrong, "\n"))
		}
		for _, s := range shots {
			seen[s.outward]++
		}
		if n%4 == 0 {
			for i, d := range r.through(alone, shots) {
				if d.verdict < unsettled {
					taken[shots[i].outward] += 4
				}
			}
		}
	}
	if undecided > packets/4000 {
		t.Errorf("%d worlds depend on the moment", undecided)
	}
	for _, outward := range []bool{true, false} {
		t.Logf("outward %v: about %d of %d packets took the compact path", outward, taken[outward], seen[outward])
		if taken[outward] < seen[outward]/8 {
			t.Errorf("outward %v: too few packets took the compact path", outward)
		}
	}
}

// settledWorld draws what the maps hold, where most sessions are settled, or nearly so.
func (g *gen) settledWorld(h bpfHost) *world {
	w := g.world(h)
	if !g.in(6) {
		w.host.Flags &^= bpfHostFlagsHOST_NID_COLLISIONS
	}
	for i := range 3 {
		if !g.in(20) {
			w.uplinks[i].Flags |= bpfUplinkFlagsUPLINK_USABLE
		}
	}
	for i := range w.sessions {
		if !g.in(8) {
			g.settle(&w.sessions[i], &w.lives[i])
			g.line(w.sessions[i], &w.lives[i])
		}
	}
	return w
}

// settle makes a session settled, but for something now and then.
func (g *gen) settle(p *bpfSessionEntry, l *noted) {
	for _, f := range flagOdds {
		often := f.flag == bpfEntryFlagsENTRY_RFC6741 || f.flag == bpfEntryFlagsENTRY_REAL_SOCKETS
		if !g.in(5*f.odds) && (!often || !g.in(4)) {
			p.Flags &^= f.flag
		}
	}
	if !g.in(25) {
		p.Flags &^= bpfEntryFlagsENTRY_INITIATED | bpfEntryFlagsENTRY_PLAIN
	}
	if !g.in(12) {
		p.Unvalidated = 0
	}
	if !g.in(12) {
		p.NonceUntil = nonceUntil(pick(g, 0, g.now-5e9))
	}
	if !g.in(4) {
		p.N_paths = 1
	}
	if !g.in(20) {
		l.Birth, l.bpfSessionDetails.Seq = p.Birth, p.Seq
	}
	if !g.in(12) {
		l.Bare = 1
	}
	if !g.in(12) {
		l.Hint = bpfHalf{}
	}
	if !g.in(12) {
		l.UnansweredTx = uint32(pick(g, 0, g.now-30e6, g.now-120e6) >> 20)
	}
	if !g.in(12) {
		l.Returned = 0
	}
}

// settledShots draws packets, most of them such as settled sessions exchange.
func (g *gen) settledShots(w *world) (shots []shotAt) {
	for range shotsEach {
		if len(w.sessions) == 0 || g.in(5) {
			shots = append(shots, g.shot(w))
			continue
		}
		s := g.ordinary(w.sessions[g.IntN(len(w.sessions))])
		if g.in(6) {
			s.frame = g.spoil(s.frame)
		}
		shots = append(shots, s)
	}
	return shots
}

// ordinary draws a whole packet of TCP or UDP of a session.
func (g *gen) ordinary(p bpfSessionEntry) shotAt {
	t := talk{port: [2]uint16{pick(g, remotePorts...), pick(g, ownPorts...)}}
	t.src = at(p.Remote[g.IntN(int(p.N_remote))].l64(), p.RemoteNid.nid())
	t.dst = at(pick(g, ownLocators...), p.LocalNid.nid())
	if s := pick(g, decideSockets...); g.in(10) && s.foreign != 0 {
		t.port = [2]uint16{s.foreign, s.own}
		t.src.L64, t.dst.L64 = there, here
	}
	s := shotAt{outward: g.in(2)}
	if s.outward {
		t.src, t.dst = session(p.Alias.Local.nid()), session(p.Alias.Remote.nid())
		if p.Flags&bpfEntryFlagsENTRY_NAMED != 0 && g.in(2) {
			t.dst = session(p.RemoteNid.nid())
		}
		t.port[0], t.port[1] = t.port[1], t.port[0]
	}
	if t.datagram, t.stream = g.in(2), true; t.datagram {
		t.stream = false
	}
	g.upper(&t, ilnp.Nonce{})
	k := decide.NewPacket(plainly(t), uint32(pick(g, loopback, loopback, otherLink)))
	if g.in(15) {
		k.GSO = pick[uint32](g, 1200, 1400)
	}
	if g.in(30) {
		k.Mark = decide.CopyMark
	}
	if g.in(30) {
		k.Arrived = uint32(pick(g, loopback, otherLink))
	}
	return shotOf(s, k)
}

// spoil changes a byte of the headers of a frame, or cuts it.
func (g *gen) spoil(f []byte) []byte {
	f = bytes.Clone(f)
	if g.in(3) {
		return f[:ethLen+g.IntN(len(f)-ethLen)]
	}
	f[g.IntN(min(len(f), ethLen+ip6.HeaderLen+20))] ^= 1 << g.IntN(8)
	return f
}

// TestCompactPathTaken says which packets of which sessions take the compact path.
func TestCompactPathTaken(t *testing.T) {
	r := newRig(t)
	r.uplink(here, here+1)
	alone := r.pathsOf(2)
	ack, data := toPeer(ip6.TCP, tcp(flagACK, 9)), toPeer(ip6.UDP, udp(9))
	ackIn, dataIn := fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), fromPeer(there, none, ip6.UDP, udp(9))
	all := [][]byte{ack, data, ackIn, dataIn}
	takes := func(p []byte, set ...func(*ebpf.RunOptions)) bool {
		prog := alone.Ingress
		if bytes.Equal(p[8:16], ack[8:16]) {
			prog = alone.Egress
		}
		v, _ := r.run(prog, frame(p), set...)
		return v < unsettled
	}
	second := ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Remote: there}
	sought := func(p *ilnp.Entry) { p.RuleSought = true }
	long := uint32((clock(unix.CLOCK_MONOTONIC) - 10e9) >> 20) // when the silence began
	for _, c := range []struct {
		what  string
		entry func(*ilnp.Entry)
		taken [][]byte
		live  func(*noted)
	}{
		{"a settled session", func(*ilnp.Entry) {}, all, nil},
		{"two paths", func(p *ilnp.Entry) { p.Paths = append(p.Paths, second) }, [][]byte{data, ackIn, dataIn}, nil},
		{"a rule of NIDs alone", func(p *ilnp.Entry) { p.Rule = ilnp.RuleRFC6741 }, [][]byte{ack, data}, nil},
		{"a nonce on every packet", func(p *ilnp.Entry) { p.NonceAlways = true }, [][]byte{ackIn, dataIn}, nil},
		{"an unvalidated locator", func(p *ilnp.Entry) { p.Unvalidated = []roam.L64{there} }, nil, nil},
		{"a session being set up", func(p *ilnp.Entry) { p.State = ilnp.Initiated }, nil, nil},
		{"plain IPv6", func(p *ilnp.Entry) { p.State = ilnp.Plain }, nil, nil},
		{"a dead session", func(p *ilnp.Entry) { p.Dead = true }, nil, nil},
		{"a rule that is sought", sought, nil, nil},
		{"a rule that packets have confirmed", sought, all,
			func(l *noted) { l.Rule = uint8(bpfRuleFoundRULE_IPV6) }},
		{"another rule than was guessed", sought, nil, func(l *noted) { l.Rule = uint8(bpfRuleFoundRULE_RFC6741) }},
		{"a correspondent that runs Roam and has sent no nonce with data", sought, all,
			func(l *noted) { l.Asks = uint8(bpfAskedASKED) }},
		{"one that cannot, as the path drops options", func(p *ilnp.Entry) { p.RuleSought, p.Encap = true, true }, nil,
			func(l *noted) { l.Asks = uint8(bpfAskedASKED) }},
		{"a silence", func(*ilnp.Entry) {}, nil, func(l *noted) { l.UnansweredTx = long }},
		{"a silence that was told", func(*ilnp.Entry) {}, [][]byte{ack, data}, func(l *noted) {
			l.UnansweredTx, l.SilenceTold = long, long+ticks(9*time.Second)
		}},
	} {
		p := entryFor(there)
		c.entry(&p)
		r.upsert(p)
		r.settle(p.Key)
		if c.live != nil {
			r.setLive(p.Key, func(l *noted) {
				c.live(l)
				l.State = stateOf(r.known[p.Key], *l, dataplane.Monotonic(time.Now()))
			})
		}
		for _, b := range all {
			want := slices.ContainsFunc(c.taken, func(t []byte) bool { return bytes.Equal(t, b) })
			if got := takes(b); got != want {
				t.Errorf("%s: protocol %d from %x takes the compact path: %v", c.what, b[6], b[8:24], got)
			}
		}
		r.must(r.Delete(p.Key))
	}
	p := entryFor(there)
	r.upsert(p)
	r.settle(p.Key)
	for what, b := range map[string][]byte{
		"first segment out": toPeer(ip6.TCP, tcp(flagSYN, 0)),
		"first segment in":  fromPeer(there, none, ip6.TCP, tcp(flagSYN, 0)),
		"nonce":             fromPeer(there, theirNonce, ip6.UDP, udp(9)),
		"unknown locator":   fromPeer(else1, none, ip6.UDP, udp(9)),
		"ping":              toPeer(ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 0, 0, 0}),
		"fragment":          toPeer(ip6.Fragment, fragment(ip6.UDP, 0, true, udp(9))),
	} {
		if takes(b) {
			t.Errorf("%s takes the compact path", what)
		}
	}
}
