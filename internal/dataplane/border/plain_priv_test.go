package border

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	"roam/sbr"
	"roam/wire/ip6"
)

// The verdicts of XDP programs.
const (
	xdpPass     = 2
	xdpRedirect = 4
)

// plainRig is a rig with a flow whose outside node knows one site locator, with hardware addresses
// towards both sides, on one processor.
type plainRig struct{ *rig }

func newPlainRig(t *testing.T, known ...roam.L64) plainRig {
	t.Helper()
	r := plainRig{newRig(t)}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var was, one unix.CPUSet
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.SchedGetaffinity(0, &was))
	for cpu := range 1024 {
		if was.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	must(unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() { unix.SchedSetaffinity(0, &was) })
	r.configure(Settings{Direct: true})
	hop := Hop{MTU: 1500, MACs: [12]byte{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8}}
	must(r.Install(r.table, 0, map[roam.LinkID]Hop{loopback: hop}))
	must(r.SendXDP(map[roam.LinkID]bool{loopback: true}))
	r.confirm(known...)
	return r
}

// renew makes hardware addresses towards both sides fresh.
func (r plainRig) renew() {
	r.Helper()
	now := dataplane.Monotonic(time.Now())
	for i := range uint32(2) {
		var all []bpfShare
		if err := r.objs.Shares.Lookup(i, &all); err != nil {
			r.Fatal(err)
		}
		for c := range all {
			all[c].Checked = now - uint64(10*time.Millisecond)
		}
		if err := r.objs.Shares.Put(i, all); err != nil {
			r.Fatal(err)
		}
	}
	r.way(insideNID, internal, loopback)
}

// way has the kernel's answer about an inside node, for packets by a link, be fresh on all processors. It lies where
// that for packets by the loopback link does.
func (r plainRig) way(nid roam.NID, l64 roam.L64, from uint32) {
	r.Helper()
	var all []bpfWay
	if err := r.objs.Ways.Lookup(r.wayOf(nid), &all); err != nil {
		r.Fatal(err)
	}
	for c := range all {
		all[c] = bpfWay{Nid: halfNID(nid), Internal: half(l64), From: from, Dev: loopback, Mtu: 1500,
			AskedAt: dataplane.Monotonic(time.Now()) - uint64(10*time.Millisecond),
			Macs:    [12]byte{2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 6}}
	}
	if err := r.objs.Ways.Put(r.wayOf(nid), all); err != nil {
		r.Fatal(err)
	}
}

// wayOf is the place of an inside node at a locator in ways, from the loopback link, as way_to in
// bpf/sbr/direct.h.
func wayOf(nid roam.NID, l64 roam.L64, places uint32) uint32 {
	hash := func(h bpfHalf) uint32 {
		x := binary.NativeEndian.Uint64(h.B[:])
		return uint32((x ^ x>>32) * 0xd6e8_feb8_6659_fd93 >> 32)
	}
	return (hash(halfNID(nid)) + hash(half(l64)) + loopback) & (places - 1)
}

// wayOf is that of one at the internal locator.
func (r plainRig) wayOf(nid roam.NID) uint32 { return wayOf(nid, internal, r.objs.Ways.MaxEntries()) }

// Nodes whose NIDs follow each other, or differ in any other byte, have places of their own, as far as drawn
// ones have. One at two locators has two places.
func TestPlacesOfWays(t *testing.T) {
	const places, nodes = 4096, 1000 // of nodes that were drawn, 886 places are taken
	for shift := 0; shift <= 48; shift += 8 {
		taken := map[uint32]bool{}
		for i := range roam.NID(nodes) {
			taken[wayOf(insideNID+i<<shift, internal, places)] = true
			at := internal + roam.L64(1)<<shift
			if wayOf(insideNID+i, at, places) == wayOf(insideNID+i, internal, places) {
				t.Errorf("a node at %v and %v has one place", internal, at)
			}
		}
		if len(taken) < 800 {
			t.Errorf("NIDs that differ from bit %d on take %d places", shift, len(taken))
		}
	}
}

// Packets to an inside node take no way of another one, nor of the same one at another locator or from another link,
// on any path.
func TestOthersWay(t *testing.T) {
	r := newPlainRig(t, siteA)
	packet := moved(t, transport(t, ip6.UDP, 1, 2), theirs, roam.ILV{L64: siteA, NID: insideNID})
	other := insideNID + 1
	for r.wayOf(other) != r.wayOf(insideNID) {
		other++
	}
	for _, c := range []struct {
		what    string
		nid     roam.NID
		l64     roam.L64
		from    uint32
		verdict uint32
	}{
		{"its own", insideNID, internal, loopback, xdpRedirect},
		{"another node's", other, internal, loopback, xdpPass},
		{"at another locator", insideNID, internal + 1, loopback, xdpPass},
		{"from another link", insideNID, internal, loopback + 1, xdpPass},
	} {
		r.way(c.nid, c.l64, c.from)
		if v, _ := r.frame(r.objs.SbrUplinkXdp, packet); v != c.verdict {
			t.Errorf("%s: XDP says %d, want %d", c.what, v, c.verdict)
		}
		want := uint32(passOn)
		if c.verdict == xdpRedirect {
			want = redirect
		}
		r.way(c.nid, c.l64, c.from)
		v, out := r.frame(r.objs.SbrUplinkIngress, packet)
		if v != want || destination(out[14:]) != internal {
			t.Errorf("%s: verdict %d, to %v, want %d", c.what, v, destination(out[14:]), want)
		}
	}
}

// The locator of the inside node is right also where internals had no space for it: packets then take the full path.
func TestInternalsFull(t *testing.T) {
	r := newPlainRig(t, siteA)
	packet := moved(t, transport(t, ip6.UDP, 1, 2), theirs, roam.ILV{L64: siteA, NID: insideNID})
	check := func(when string, verdict uint32) {
		t.Helper()
		r.renew()
		if v, _ := r.frame(r.objs.SbrUplinkXdp, packet); v != verdict {
			t.Errorf("%s, XDP says %d, want %d", when, v, verdict)
		}
		r.renew()
		v, out := r.frame(r.objs.SbrUplinkIngress, packet)
		f, ok := r.Flow(theKey, r.table)
		if v != redirect || destination(out[14:]) != internal || f.Internal != internal || !ok {
			t.Errorf("%s: verdict %d, to %v", when, v, destination(out[14:]))
		}
	}
	check("with space", xdpRedirect)
	if err := r.Forget(theKey); err != nil {
		t.Fatal(err)
	}
	for i := range r.objs.Internals.MaxEntries() {
		if err := r.objs.Internals.Put(i, half(siteB+roam.L64(i))); err != nil {
			t.Fatal(err)
		}
	}
	r.confirm(siteA)
	check("without", xdpPass)
}

// frame runs a program on a frame, and returns all of what it makes of it.
func (r plainRig) frame(prog *ebpf.Program, packet []byte) (verdict uint32, out []byte) {
	r.Helper()
	b := append([]byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0x86, 0xdd}, packet...)
	o := ebpf.RunOptions{Data: b, DataOut: make([]byte, len(b)+256)}
	verdict, err := prog.Run(&o)
	if err != nil {
		r.Fatal(err)
	}
	return verdict, o.DataOut
}

// drawn makes a packet of the flow, with one thing out of the ordinary in most.
func drawn(random *rand.Rand, src, dst roam.ILV) []byte {
	proto := []uint8{ip6.UDP, ip6.TCP, ip6.ICMPv6}[random.IntN(3)]
	size := 8 + random.IntN(40)
	if proto == ip6.TCP {
		size += 12
	}
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	switch proto {
	case ip6.UDP:
		binary.BigEndian.PutUint16(body[4:], uint16(size))
	case ip6.ICMPv6:
		body[0], body[1] = uint8(128+random.IntN(2)), 0
	}
	h := ip6.Header{NextHeader: proto, HopLimit: 64, PayloadLen: uint16(size), Src: src.Addr(), Dst: dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	b = append(b, body...)
	if err := ip6.FinishL4(b); err != nil {
		panic(err)
	}
	at := map[uint8]int{ip6.UDP: 46, ip6.TCP: 56, ip6.ICMPv6: 42}[proto]
	switch random.IntN(16) {
	case 0:
		b[7] = byte(random.IntN(3))
	case 1:
		b[at], b[at+1] = 0, 0
	case 2:
		b[6] = byte(random.Uint32())
	case 3:
		binary.BigEndian.PutUint16(b[4:], uint16(random.IntN(80)))
	case 4:
		b = append(b, make([]byte, 1+random.IntN(20))...)
	case 5:
		b = b[:40+random.IntN(len(b)-40)]
	case 6:
		b[8+8*random.IntN(4)] = 0xfe
		b[9+8*random.IntN(4)] = 0x80
	case 7:
		binary.BigEndian.PutUint16(b[42:], encapPort)
	case 8:
		binary.BigEndian.PutUint64(b[24:], uint64(siteB))
	case 9:
		binary.BigEndian.PutUint64(b[24:], uint64(internal))
	case 10:
		b[16+random.IntN(8)]++
	case 11:
		b[0], b[1] = 0x6f, byte(random.Uint32())
	case 12:
		b = append(b, make([]byte, 1500)...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	case 13:
		b[40] = byte(random.Uint32()) // of ICMPv6, the type
	}
	return b
}

// A plain packet of a known flow becomes on the straight way, at tc and at XDP, what it becomes on
// the full path, with the hardware addresses written; all others take the full path, and XDP leaves
// them as they are.
func TestPlainPackets(t *testing.T) {
	for rule, name := range map[uint8]string{1: "over the addresses", 2: "over the NIDs"} {
		t.Run(name, func(t *testing.T) { plainPackets(t, rule) })
	}
}

// ruled gives the flow a rule of types.h.
func (r plainRig) ruled(rule uint8) {
	r.Helper()
	var set bpfFlowSet
	n := setOf(keyOf(theKey), r.objs.FlowSets.MaxEntries())
	if err := r.objs.FlowSets.Lookup(n, &set); err != nil {
		r.Fatal(err)
	}
	for i := range set.Flow {
		set.Flow[i].Rule = rule
	}
	if err := r.objs.FlowSets.Put(n, &set); err != nil {
		r.Fatal(err)
	}
}

func plainPackets(t *testing.T, rule uint8) {
	straight, full := newPlainRig(t, siteA), newPlainRig(t, siteA)
	straight.ruled(rule)
	full.ruled(rule)
	if err := full.Configure(Settings{}, time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	site := roam.ILV{L64: siteA, NID: insideNID}
	const packets = 4000
	var sent, xdp int
	for i := range packets {
		if i%20 == 0 {
			straight.renew()
			full.renew()
		}
		packet, early := drawn(random, mine, theirs), straight.objs.SbrInsideXdp
		tc, all := straight.objs.SbrInsideIngress, full.objs.SbrInsideIngress
		if i%2 == 1 {
			packet, early = drawn(random, theirs, site), straight.objs.SbrUplinkXdp
			tc, all = straight.objs.SbrUplinkIngress, full.objs.SbrUplinkIngress
		}
		before := straight.counter("rx_direct")
		v, out := straight.frame(tc, packet)
		wantV, want := full.frame(all, packet)
		direct := straight.counter("rx_direct") > before
		if direct && wantV == passOn { // the stack would lower the hop limit
			want[14+7]--
			wantV = redirect
		}
		if v != wantV || !bytes.Equal(out[12:], want[12:]) {
			t.Fatalf("packet %d %x: verdict %#x, on the full path %#x\n%x\n%x", i, packet, v, wantV, out, want)
		}
		if v == redirect {
			sent++
		}
		earlyV, earlyOut := straight.frame(early, packet)
		switch {
		case earlyV == xdpRedirect && v == redirect && bytes.Equal(earlyOut[12:], out[12:]) && earlyOut[5] != 0:
			xdp++ // at tc the kernel may have written the hardware addresses
		case earlyV != xdpPass || !bytes.Equal(earlyOut[14:], packet):
			t.Fatalf("packet %d %x: XDP says %#x\n%x\n%x", i, packet, earlyV, earlyOut, out)
		}
	}
	if sent < packets/3 || xdp < packets/3 || xdp > sent {
		t.Errorf("of %d packets %d were sent at tc, %d at XDP", packets, sent, xdp)
	}
}

// Every golden packet, too, passes XDP as it is, or becomes there what it becomes at tc.
func TestGoldenXDP(t *testing.T) {
	r := newPlainRig(t, siteA)
	site, forwarded := roam.ILV{L64: siteA, NID: insideNID}, 0
	for name, c := range goldenPackets(t) {
		r.renew()
		for prog, packet := range map[*ebpf.Program][]byte{
			r.objs.SbrInsideXdp: moved(t, c, mine, theirs), r.objs.SbrUplinkXdp: moved(t, c, theirs, site),
		} {
			at, to := sbr.Source, siteA
			if prog == r.objs.SbrUplinkXdp {
				at, to = sbr.Destination, internal
			}
			want, err := sbr.Rewrite(packet, at, to, sbr.RuleIPv6)
			if err != nil {
				t.Fatal(err)
			}
			want[7]--
			switch v, out := r.frame(prog, packet); {
			case v == xdpRedirect && bytes.Equal(out[14:], want):
				forwarded++
			case v != xdpPass || !bytes.Equal(out[14:], packet):
				t.Errorf("%s: verdict %d\n%x\n%x", name, v, out[14:], want)
			}
		}
	}
	if forwarded < 4 {
		t.Errorf("%d golden packets were forwarded", forwarded)
	}
}

// A checksum that a device is to finish keeps a packet from XDP, under both rules; and so does a
// link that XDP may not send by, without an effect on the next packets' turns.
func TestXDPRefuses(t *testing.T) {
	r := newPlainRig(t, siteA, siteB)
	for what, whole := range map[string]bool{"the addresses": true, "the identifiers": false} {
		b := transport(t, ip6.UDP, 1, 2)
		seed := append(append(append([]byte{}, b[16:24]...), b[32:40]...), 0, 20, 0, ip6.UDP)
		if whole {
			seed = append(append([]byte{}, b[8:40]...), 0, 20, 0, ip6.UDP)
		}
		sum := ip6.Sum(seed)
		b[46], b[47] = byte(sum>>8), byte(sum)
		r.renew()
		if v, out := r.frame(r.objs.SbrInsideXdp, b); v != xdpPass || !bytes.Equal(out[14:], b) {
			t.Errorf("seed over %s: verdict %d", what, v)
		}
	}
	datagram := transport(t, ip6.UDP, 1, 2)
	for round := range 2 {
		sent := map[roam.L64]int{}
		for range 100 {
			r.renew()
			_, out := r.frame(r.objs.SbrInsideXdp, datagram)
			sent[source(out[14:])]++
			if round == 1 {
				_, out = r.frame(r.objs.SbrInsideIngress, datagram)
				sent[source(out[14:])]++
			}
		}
		want := map[roam.L64]int{siteA: 50, siteB: 50}
		if round == 1 {
			want[internal] = 100
		}
		if len(sent) != len(want) || sent[siteA] != want[siteA] || sent[internal] != want[internal] {
			t.Errorf("round %d: packets leave from %v, want %v", round, sent, want)
		}
		if err := r.SendXDP(nil); err != nil {
			t.Fatal(err)
		}
	}
}
