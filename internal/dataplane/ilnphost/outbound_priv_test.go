package ilnphost

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// gso makes the packet one that a device is to cut into segments.
func gso(o *ebpf.RunOptions) {
	o.Context = skbContext{Ifindex: uint32(loopback), GSOSize: 1200, GSOSegs: 2}
}

// send sends a packet of a local application and returns it as it is on the
// wire; its checksum must be right there.
func (r *rig) send(proto uint8, body []byte, set ...func(*ebpf.RunOptions)) ilnpwire.Packet {
	r.t.Helper()
	v, out := r.egress(toPeer(proto, body), set...)
	if v != redirect {
		r.t.Fatalf("verdict %d", v)
	}
	p, err := ilnpwire.ParsePacket(out)
	r.must(err)
	if _, _, ok := ip6.ChecksumOffset(p.Proto); ok && !p.Fragmented && ip6.Checksum(p.Src.Addr(), p.Dst.Addr(), p.Proto, p.Payload) != 0 {
		r.t.Errorf("wrong checksum in %x", out)
	}
	return p
}

// When a nonce goes into a packet, and when it is left out although it is due.
func TestOutboundNonce(t *testing.T) {
	r := newRig(t)
	soon := time.Now().Add(time.Hour)
	ping := []byte{128, 0, 0, 0, 0, 1, 0, 1}
	for name, c := range map[string]struct {
		setup  bool
		plain  bool
		until  time.Time
		own    ilnp.Nonce
		mtu    int
		proto  uint8
		body   []byte
		gso    bool
		counts counts
	}{
		"data":                    {proto: ip6.TCP, body: tcp(flagACK, 9), counts: counts{}},
		"first segment":           {proto: ip6.TCP, body: tcp(flagSYN, 0), counts: counts{"tx_nonce": 1}},
		"answer to it":            {proto: ip6.TCP, body: tcp(flagSYN|flagACK, 0), counts: counts{"tx_nonce": 1}},
		"ping":                    {proto: ip6.ICMPv6, body: ping, counts: counts{"tx_nonce": 1}},
		"later fragment of ping":  {proto: ip6.Fragment, body: fragment(ip6.ICMPv6, 9, false, ping), counts: counts{"tx_nonce": 1}},
		"later fragment of data":  {proto: ip6.Fragment, body: fragment(ip6.UDP, 9, false, ping), counts: counts{}},
		"after a change":          {until: soon, proto: ip6.UDP, body: udp(9), counts: counts{"tx_nonce": 1}},
		"long after it":           {until: time.Now().Add(-time.Second), proto: ip6.UDP, body: udp(9), counts: counts{}},
		"being set up":            {setup: true, proto: ip6.UDP, body: udp(9), counts: counts{"tx_nonce": 1}},
		"long nonce":              {setup: true, own: longNonce, proto: ip6.UDP, body: udp(9), counts: counts{"tx_nonce": 1}},
		"plain":                   {plain: true, until: soon, proto: ip6.TCP, body: tcp(flagSYN, 0), counts: counts{"tx_plain": 1}},
		"plain ping":              {plain: true, proto: ip6.ICMPv6, body: ping, counts: counts{"tx_plain": 1}},
		"GSO packet":              {until: soon, proto: ip6.TCP, body: tcp(flagACK, 1300), gso: true, counts: counts{"tx_nonce_left_out": 1}},
		"GSO packet with SYN":     {proto: ip6.TCP, body: tcp(flagSYN, 1300), gso: true, counts: counts{}},
		"full packet, least link": {until: soon, mtu: 1280, proto: ip6.UDP, body: udp(1232), counts: counts{"tx_nonce_left_out": 1}},
		"room for the nonce":      {until: soon, mtu: 1280, proto: ip6.UDP, body: udp(1224), counts: counts{"tx_nonce": 1}},
		"no room for a long one":  {until: soon, own: longNonce, mtu: 1280, proto: ip6.UDP, body: udp(1217), counts: counts{"tx_nonce_left_out": 1}},
		"behind a routing header": {until: soon, proto: ip6.Routing, body: append([]byte{ip6.UDP, 0, 3, 0, 0, 0, 0, 0}, udp(9)...),
			counts: counts{"tx_nonce_left_out": 1}},
	} {
		mtu := 1500
		if c.mtu != 0 {
			mtu = c.mtu
		}
		r.must(r.SetUplinks([]UplinkEntry{{Local: roam.LinkLocator{Link: loopback, L64: here}, Usable: true, MTU: mtu}}))
		p := entryFor(there)
		p.NonceUntil = c.until
		if c.plain {
			p.State = ilnp.Plain
		}
		if c.setup {
			p.State = ilnp.Initiated
		}
		if c.own.Present() {
			p.LocalNonce = c.own
		}
		r.upsert(p)
		var set []func(*ebpf.RunOptions)
		if c.gso {
			set = append(set, gso)
		}
		var got ilnpwire.Packet
		grown := r.counted(func() { got = r.send(c.proto, c.body, set...) })
		want := ilnp.Nonce{}
		if c.counts["tx_nonce"] > 0 {
			want = p.LocalNonce
		}
		c.counts["tx_packets"] = 1
		r.wantCounts(name, grown, c.counts)
		if got.Nonce != want || got.Src != at(here, ours) || got.Dst != at(there, theirs) {
			t.Errorf("%s: %+v, nonce %x", name, got, got.Nonce.Bytes)
		}
	}
	r.wantKinds("all of them")
}

// On a path of the minimum MTU a full packet has no space for the nonce. The stack sends larger ones
// only where it believes the path wider.
func TestOutboundNonceOnANarrowPath(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for name, c := range map[string]struct {
		narrow bool
		own    ilnp.Nonce
		data   int
		how    string
	}{
		"full":            {true, ourNonce, 1232, "tx_nonce_left_out"},
		"space for it":    {true, ourNonce, 1224, "tx_nonce"},
		"too long":        {true, longNonce, 1217, "tx_nonce_left_out"},
		"believed wider":  {true, ourNonce, 1233, "tx_nonce"},
		"of another path": {false, ourNonce, 1232, "tx_nonce"},
	} {
		p := entryFor(there)
		p.NonceUntil, p.Narrow, p.LocalNonce = time.Now().Add(time.Hour), c.narrow, c.own
		r.upsert(p)
		got := r.counted(func() { r.send(ip6.UDP, udp(c.data)) })
		r.wantCounts(name, got, counts{"tx_packets": 1, c.how: 1})
	}
}

// What is not a session's packet does not get out, and no session address
// leaves by another door.
func TestOutboundRefusals(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	refused := func(name string, v, want int, got, counted counts) {
		t.Helper()
		if v != want {
			t.Errorf("%s: verdict %d, want %d", name, v, want)
		}
		r.wantCounts(name, got, counted)
	}
	var v int
	for name, p := range map[string][]byte{
		"from a real address": packet(at(here, ours), session(theirs), ip6.UDP, udp(9)),
		"to a real address":   packet(session(ours), at(there, theirs), ip6.UDP, udp(9)),
		"multicast":           packet(session(ours), at(0xff02<<48, 1), ip6.UDP, udp(9)),
	} {
		got := r.counted(func() { v, _ = r.egress(p) })
		refused(name, v, shot, got, counts{"drop_not_session": 1})
	}
	got := r.counted(func() {
		v, _ = r.run(r.objs.IlnpSessionEgress, append(append(bytes.Clone(frame(nil)[:12]), 8, 0), make([]byte, 40)...))
	})
	refused("IPv4", v, shot, got, counts{"drop_not_session": 1})
	got = r.counted(func() { v, _ = r.egress(toPeer(ip6.DestOpts, []byte{6, 9, 1, 1, 0, 0, 0, 0})) })
	refused("malformed", v, shot, got, counts{"drop_malformed": 1})
	r.change(func(s *HostSettings) { s.Device = loopback + 1 }) // now the programs run on an uplink
	for name, p := range map[string][]byte{
		"session address as source":      packet(session(ours), at(there, theirs), ip6.UDP, udp(9)),
		"session address as destination": packet(at(here, ours), session(theirs), ip6.UDP, udp(9)),
	} {
		got := r.counted(func() { v, _ = r.egress(p) })
		refused(name, v, shot, got, counts{"drop_leak": 1})
	}
	plain := frame(packet(at(here, ours), at(there, theirs), ip6.UDP, udp(9)))
	v, out := r.run(r.objs.IlnpSessionEgress, plain)
	if v != passOn || !bytes.Equal(out, plain) {
		t.Errorf("plain packet on an uplink: verdict %d, %s", v, difference(out, plain))
	}
	r.wantKinds("refusals")
}

// The first packet of a session goes to the daemon, whole, and the sender is
// told that all is well.
func TestOutboundMiss(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		size   int
		counts counts
		events int
	}{
		{9, counts{"miss_handed_over": 1}, 1},
		{1452, counts{"miss_handed_over": 1}, 1},
		{1999, counts{"miss_handed_over": 1}, 1},
		{2000, counts{"miss_handed_over": 1}, 1},
		{3000, counts{"miss_handed_over": 1}, 1},
	} {
		p := toPeer(ip6.UDP, udp(c.size))
		var v int
		got := r.counted(func() { v, _ = r.egress(p) })
		r.wantCounts("miss", got, c.counts)
		evs := r.events()
		if v != consumed || len(evs) != c.events {
			t.Fatalf("%d bytes: verdict %d, events %+v", c.size, v, evs)
		}
		if len(evs) == 1 && (evs[0].Kind != Miss || evs[0].Key != entryFor().Key || !bytes.Equal(evs[0].Packet, p)) {
			t.Errorf("%d bytes: event %+v", c.size, evs[0])
		}
	}
}

// Over any number of paths each one carries as many bytes as the others, give
// or take one packet, whatever the sizes; also where the counts wrap around.
func TestOutboundSpread(t *testing.T) {
	r := newRig(t)
	rnd := rand.New(rand.NewPCG(1, 9))
	locals, remotes := []roam.L64{here, here + 1, here + 2}, []roam.L64{there, else1, else2}
	r.uplink(locals...)
	seq := uint32(0)
	for paths := 1; paths <= 9; paths++ {
		seq++
		p := entryFor()
		p.Seq = seq
		for i := range paths {
			p.Paths = append(p.Paths, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: locals[i%3]}, Remote: remotes[i/3]})
		}
		r.upsert(p)
		r.send(ip6.UDP, udp(1))
		r.setLive(p.Key, func(l *noted) {
			for i := range l.Turns.Bytes {
				l.Turns.Bytes[i] = 0xffff_f000
			}
		})
		encap := make(map[ilnp.Path]int)
		for range 200 * paths {
			body := udp(rnd.IntN(1400))
			got := r.send(ip6.UDP, body)
			encap[ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: got.Src.L64}, Remote: got.Dst.L64}] += ethLen + ip6.HeaderLen + len(body)
		}
		least, most := 1<<30, 0
		for _, n := range encap {
			least, most = min(least, n), max(most, n)
		}
		if len(encap) != paths || most-least > ethLen+ip6.HeaderLen+1408 {
			t.Errorf("%d paths: used %d, from %d to %d bytes", paths, len(encap), least, most)
		}
	}
}

// noted is all that is noted of a session: its line and its details.
type noted struct {
	bpfSessionLive
	bpfSessionDetails
}

func (r *rig) notedAt(slot uint32) (l noted) {
	r.t.Helper()
	r.must(r.objs.SessionLives.Lookup(slot, &l.bpfSessionLive))
	r.must(r.objs.SessionDetails.Lookup(slot, &l.bpfSessionDetails))
	return l
}

func (r *rig) note(slot uint32, l noted) {
	r.t.Helper()
	r.must(r.objs.SessionLives.Put(slot, &l.bpfSessionLive))
	r.must(r.objs.SessionDetails.Put(slot, &l.bpfSessionDetails))
}

// slotsRested frees the slots that were left, once the programs that may use them have ended.
func (r *rig) slotsRested() {
	r.t.Helper()
	r.slots.rest()
	r.must(r.slots.collect(true))
}

// setLive changes what the data plane has seen of a session, in place of time.
func (r *rig) setLive(k ilnp.SessionKey, change func(*noted)) {
	r.t.Helper()
	slot := r.known[k].Slot
	l := r.notedAt(slot)
	change(&l)
	r.note(slot, l)
}

// The packet after one with the right nonce from a new place goes there, and
// the daemon's next entry ends that.
func TestOutboundFollowsTheCorrespondent(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	for _, place := range []roam.L64{else1, else2, else1} {
		if v, _ := r.ingress(fromPeer(place, theirNonce, ip6.UDP, udp(90))); v != passOn {
			t.Fatalf("from %v: verdict %d", place, v)
		}
		evs := r.events()
		if len(evs) == 0 || evs[0].Kind != LocatorSeen || evs[0].Remote.L64 != place || evs[0].Local.L64 != here {
			t.Errorf("events %+v", evs)
		}
		if got := r.send(ip6.TCP, tcp(flagACK, 77)); got.Dst.L64 != place {
			t.Errorf("sends to %v, not to %v", got.Dst.L64, place)
		}
	}
	p.Seq++
	r.upsert(p)
	if got := r.send(ip6.UDP, udp(9)); got.Dst.L64 != there {
		t.Errorf("sends to %v after the daemon's word", got.Dst.L64)
	}
}

// Without a usable path the sender is left to its timers; a dead session comes
// to life with the first packet that is heard.
func TestOutboundWithoutPath(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	held := func(name string) {
		t.Helper()
		var v int
		got := r.counted(func() { v, _ = r.egress(toPeer(ip6.TCP, tcp(flagACK, 9))) })
		if v != consumed {
			t.Errorf("%s: verdict %d", name, v)
		}
		r.wantCounts(name, got, counts{"drop_no_path": 1})
	}
	r.upsert(entryFor())
	held("no path")
	dead := entryFor(there)
	dead.Dead, dead.Seq = true, 2
	r.upsert(dead)
	held("dead")
	for _, want := range [][]EventKind{{Life}, nil} {
		if v, _ := r.ingress(fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))); v != passOn {
			t.Errorf("heard: verdict %d", v)
		}
		r.wantKinds("heard", want...)
	}
	r.send(ip6.TCP, tcp(flagACK, 9))
	r.uplink()
	held("uplink gone")
}

// The daemon is told once when a session sends and hears nothing.
func TestOutboundSilence(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	for range 3 {
		r.send(ip6.UDP, udp(9))
	}
	r.wantKinds("sending")
	r.setLive(p.Key, func(l *noted) { l.UnansweredTx -= ticks(3 * time.Second) })
	r.send(ip6.UDP, udp(9))
	r.wantKinds("3 s without an answer", Silence)
	r.send(ip6.UDP, udp(9))
	r.wantKinds("right after that")
	r.setLive(p.Key, func(l *noted) { l.SilenceTold -= ticks(16 * time.Second) })
	r.send(ip6.UDP, udp(9))
	r.wantKinds("16 s later", Silence)
	if v, _ := r.ingress(fromPeer(there, none, ip6.UDP, udp(9))); v != passOn {
		t.Errorf("answer: verdict %d", v)
	}
	r.setLive(p.Key, func(l *noted) { l.SilenceTold -= ticks(time.Minute) })
	r.send(ip6.UDP, udp(9))
	r.wantKinds("after an answer")
}

// ticks is a length of time as the programs keep it in 32 bits.
func ticks(d time.Duration) uint32 { return uint32(d >> 20) }
