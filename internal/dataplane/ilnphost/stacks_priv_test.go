package ilnphost

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// detoured is a rig whose GSO packets would be cut on the loopback link.
func segmented(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	ip(t, "link set lo up")
	r.change(func(s *HostSettings) { s.Segmentation = loopback })
	r.uplink(here)
	return r
}

// arrived makes the packet of a test run one at the far end of the segmentation device, with a
// mark.
func arrived(mark uint32) func(*ebpf.RunOptions) {
	return func(o *ebpf.RunOptions) {
		o.Context = skbContext{Mark: mark, Ifindex: uint32(loopback), Arrived: uint32(loopback)}
	}
}

// For a peer that wants every nonce, GSO packets and the data behind them go
// to where they are cut, as they are; everything else carries the nonce at once.
func TestNonceAlways(t *testing.T) {
	r := segmented(t)
	p := entryFor(there)
	p.NonceAlways = true
	r.upsert(p)
	for name, c := range map[string]struct {
		proto uint8
		body  []byte
	}{"ack": {ip6.TCP, tcp(flagACK, 0)}, "syn": {ip6.TCP, tcp(flagSYN, 0)}, "udp": {ip6.UDP, udp(20)}} {
		if got := r.send(c.proto, c.body); got.Nonce != ourNonce {
			t.Errorf("%s: nonce %x", name, got.Nonce.Bytes)
		}
	}
	if got := r.send(ip6.TCP, tcp(flagACK, 1)); got.Nonce != ourNonce {
		t.Error("data before any GSO packet takes the segmentation device")
	}
	for _, c := range []struct {
		name string
		body []byte
		set  []func(*ebpf.RunOptions)
	}{
		{"GSO packet", tcp(flagACK, 1300), []func(*ebpf.RunOptions){gso}},
		{"data behind it", tcp(flagACK, 1), nil},
		{"end", tcp(flagACK|flagFIN, 0), nil},
	} {
		name, sent := c.name, toPeer(ip6.TCP, c.body)
		cut := r.counted(func() {
			if v, out := r.egress(sent, c.set...); v != redirect || !bytes.Equal(out, sent) {
				t.Errorf("%s: verdict %d, %s", name, v, difference(out, sent))
			}
		})
		r.wantCounts(name, cut, counts{"tx_segdev": 1})
	}
	r.change(func(s *HostSettings) { s.Segmentation = 0 })
	r.wantCounts("without a segmentation device", r.counted(func() { r.send(ip6.TCP, tcp(flagACK, 1300), gso) }),
		counts{"tx_packets": 1, "tx_nonce_left_out": 1})
}

// segments makes the packet one that is to be cut into segments of that size.
func segments(size uint32) func(*ebpf.RunOptions) {
	return func(o *ebpf.RunOptions) {
		o.Context = skbContext{Ifindex: uint32(loopback), GSOSize: size, GSOSegs: 2}
	}
}

// A GSO packet bears the nonce where a router that misreads it does no harm:
// where its segments are as short as asked for, and not shorter.
func TestSuperPacketWithNonce(t *testing.T) {
	r := segmented(t)
	p := entryFor(there)
	p.NonceAlways = true
	r.upsert(p)
	body := tcp(flagACK, 1460)
	for size, direct := range map[uint32]bool{1375: false, 1376: true, 1388: true, 1400: true, 1401: false, 1440: false} {
		got := r.counted(func() { r.egress(toPeer(ip6.TCP, body), segments(size)) })
		// A test run has no type of segments, without which the kernel makes no
		// room; lab/interop has.
		if (got["tx_segdev"] == 0) != direct || got["tx_nonce_left_out"] != 0 {
			t.Errorf("segments of %d: counted %v", size, got)
		}
	}
	p.Narrow, p.Seq = true, 2
	r.upsert(p)
	got := r.counted(func() { r.egress(toPeer(ip6.TCP, body), segments(1400)) })
	r.wantCounts("a narrow path", got, counts{"tx_segdev": 1})
	r.must(r.SetUplinks([]UplinkEntry{{Local: roam.LinkLocator{Link: loopback, L64: here}, Usable: true, Physical: true, MTU: 1500}}))
	r.wantCounts("a physical device", r.counted(func() { r.egress(toPeer(ip6.TCP, body), segments(1400)) }), counts{"tx_segdev": 1})
}

// The segments that a peer asks for are kept short for that, its checksum right.
func TestSegmentSizeIsLowered(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for name, c := range map[string]struct {
		always bool
		body   []byte
		want   []byte // options
	}{
		"lowered":        {true, syn(2, 4, 1440>>8, 1440&0xff, 1, 1, 1, 1), []byte{2, 4, 1400 >> 8, 1400 & 0xff, 1, 1, 1, 1}},
		"short enough":   {true, syn(2, 4, 1400>>8, 1400&0xff), []byte{2, 4, 1400 >> 8, 1400 & 0xff}},
		"for no other":   {false, syn(2, 4, 1440>>8, 1440&0xff), []byte{2, 4, 1440 >> 8, 1440 & 0xff}},
		"another option": {true, syn(1, 3, 3, 7), []byte{1, 3, 3, 7}},
		"none":           {true, syn(), nil},
		"not the first":  {true, syn(1, 1, 1, 1, 2, 4, 1440>>8, 1440&0xff), []byte{1, 1, 1, 1, 2, 4, 1440 >> 8, 1440 & 0xff}},
	} {
		p := entryFor(there)
		p.NonceAlways = c.always
		r.upsert(p)
		_, out := r.ingress(fromPeer(there, theirNonce, ip6.TCP, c.body))
		q, err := ilnpwire.ParsePacket(out)
		r.must(err)
		if !soundUnder(ilnp.FoundIPv6, q) || !bytes.Equal(q.Payload[20:], c.want) {
			t.Errorf("%s: options %v, want %v, checksum right: %v", name, q.Payload[20:], c.want, soundUnder(ilnp.FoundIPv6, q))
		}
	}
}

// syn is a first segment with options.
func syn(options ...byte) []byte {
	b := append(tcp(flagSYN, 0), options...)
	b[12] = uint8(len(b)/4) << 4
	return b
}

// On a path of the minimum MTU the segments leave space for the nonce.
func TestSegmentSizeOnANarrowPath(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for name, c := range map[string]struct {
		own        ilnp.Nonce
		mss, lower uint16
	}{
		"a short nonce": {ourNonce, 1400, 1212},
		"a long nonce":  {longNonce, 1400, 1204},
		"short enough":  {ourNonce, 1212, 1212},
	} {
		p := entryFor(there)
		p.NonceAlways, p.Narrow, p.LocalNonce = true, true, c.own
		r.upsert(p)
		_, out := r.ingress(fromPeer(there, theirNonce, ip6.TCP, syn(2, 4, uint8(c.mss>>8), uint8(c.mss))))
		q, err := ilnpwire.ParsePacket(out)
		r.must(err)
		want := []byte{2, 4, uint8(c.lower >> 8), uint8(c.lower)}
		if !soundUnder(ilnp.FoundIPv6, q) || !bytes.Equal(q.Payload[20:], want) {
			t.Errorf("%s: options %v, want %v", name, q.Payload[20:], want)
		}
	}
}

// Sums over NIDs would be spoilt by a device that sums segments itself, and by
// no other one.
func TestSegmentationOfSumsOverNIDs(t *testing.T) {
	r := segmented(t)
	for _, physical := range []bool{false, true} {
		r.must(r.SetUplinks([]UplinkEntry{{Local: roam.LinkLocator{Link: loopback, L64: here}, Usable: true, Physical: physical, MTU: 1500}}))
		for _, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
			p := entryFor(there)
			p.Rule = rule
			r.upsert(p)
			got := r.counted(func() { r.egress(toPeer(ip6.TCP, tcp(flagACK, 1300)), gso) })
			want := counts{"tx_packets": 1}
			if physical && rule == ilnp.RuleRFC6741 {
				want = counts{"tx_segdev": 1}
			}
			r.wantCounts(rule.String(), got, want)
		}
	}
}

// What comes round is translated as if it had left at once.
func TestSegmentation(t *testing.T) {
	r := segmented(t)
	round := func(body []byte, mark uint32) (int, ilnpwire.Packet) {
		t.Helper()
		v, out := r.egress(toPeer(ip6.TCP, body), arrived(mark))
		p, err := ilnpwire.ParsePacket(out)
		r.must(err)
		return v, p
	}
	for name, c := range map[string]struct {
		how     func(*ebpf.RunOptions)
		verdict int
		want    counts
	}{
		"GSO packet":           {gso, redirect, counts{"tx_segdev": 1}},
		"its segment":          {arrived(0), consumed, counts{"miss_handed_over": 1}},
		"copy under that rule": {arrived(CopyMark), shot, counts{"drop_not_session": 1}},
	} {
		got := r.counted(func() {
			if v, _ := r.egress(toPeer(ip6.TCP, tcp(flagACK, 1300)), c.how); v != c.verdict {
				t.Errorf("%s of no session: verdict %d", name, v)
			}
		})
		r.wantCounts(name+" of no session", got, c.want)
	}
	p := entryFor(there)
	p.NonceAlways = true
	r.upsert(p)
	v, q := round(tcp(flagACK, 1300), 0)
	if v != redirect || q.Nonce != ourNonce || q.Src != at(here, ours) || q.Dst != at(there, theirs) || !soundUnder(ilnp.FoundIPv6, q) {
		t.Errorf("verdict %d, %+v", v, q)
	}
	if _, q = round(tcp(flagSYN, 0), CopyMark); !soundUnder(ilnp.FoundRFC6741, q) {
		t.Errorf("a probe copy has not the other rule: %+v", q)
	}
}

// soundUnder reports whether a packet's checksum is right under a rule.
func soundUnder(rule ilnp.FoundRule, p ilnpwire.Packet) bool {
	src, dst := p.Src, p.Dst
	if rule == ilnp.FoundRFC6741 {
		src.L64, dst.L64 = 0, 0
	}
	return ip6.Checksum(src.Addr(), dst.Addr(), p.Proto, p.Payload) == 0
}

// under makes a packet, with a nonce if there is one, whose checksum is right under a rule; open
// leaves only the seed over the pseudo-header, as for a device that finishes it.
func under(rule ilnp.FoundRule, open bool, from roam.ILV, n ilnp.Nonce, proto uint8, body []byte) []byte {
	src, dst := from, at(here, ours)
	if rule == ilnp.FoundRFC6741 {
		src.L64, dst.L64 = 0, 0
	}
	b := packet(src, dst, proto, bytes.Clone(body))
	if n.Present() {
		b = packet(src, dst, ip6.DestOpts, with(n, proto, bytes.Clone(body)))
	}
	c, err := ip6.Walk(b)
	if err != nil {
		panic(err)
	}
	if open {
		field, _, _ := ip6.ChecksumOffset(proto)
		msg := b[c.UpperOffset:]
		clear(msg[field : field+2])
		// The complement of a checksum over nothing but the pseudo-header.
		seed := ^ip6.Add(ip6.Checksum(src.Addr(), dst.Addr(), proto, msg), ip6.Sum(msg))
		binary.BigEndian.PutUint16(msg[field:], seed)
	}
	copy(b[8:], packet(from, at(here, ours), ip6.NoNext, nil)[8:40])
	return b
}

// The rule of a pending peer is found from its first packet with a checksum, of
// any length and finished or not; it is answered under that rule.
func TestRuleOfUnlisted(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	n := 0
	for _, rule := range []ilnp.FoundRule{ilnp.FoundIPv6, ilnp.FoundRFC6741} {
		for _, open := range []bool{false, true} {
			for _, size := range []int{0, 1, 11, 12, 13, 31, 44, 500, 1399, 1400} {
				for proto, body := range map[uint8][]byte{ip6.TCP: tcp(flagSYN, size), ip6.UDP: udp(size)} {
					n++
					from := unlistedPeer(n)
					_, out := r.ingress(under(rule, open, from, theirNonce, proto, body))
					evs := r.events()
					if len(evs) != 1 || evs[0].Kind != PendingPeer || evs[0].Found != rule {
						t.Errorf("rule %d, open %v, %d bytes of protocol %d: %+v", rule, open, size, proto, evs)
						continue
					}
					if q, err := ilnpwire.ParsePacket(out); err != nil || !open && !soundUnder(ilnp.FoundIPv6, q) {
						t.Errorf("rule %d, %d bytes of protocol %d: delivered with a wrong checksum: %v", rule, size, proto, err)
					}
					if _, q := r.answer(from.NID); !soundUnder(rule, q) {
						t.Errorf("rule %d, protocol %d: answered under the other one", rule, proto)
					}
				}
			}
		}
	}
}

// What shows no rule leaves the ordinary one, until something does.
func TestRuleNotShown(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	damaged := under(ilnp.FoundRFC6741, false, from, theirNonce, ip6.TCP, tcp(flagSYN, 0))
	damaged[len(damaged)-1] ^= 1
	noSum := udp(5)
	zero := packet(from, at(here, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, noSum))
	clear(zero[len(zero)-len(noSum)+6 : len(zero)-len(noSum)+8])
	for name, b := range map[string][]byte{
		"damaged": damaged, "udp without checksum": zero,
		"ping of users": mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), theirNonce, true, 1, 1, []byte("x"))),
	} {
		r.ingress(b)
		if evs := r.events(); len(evs) != 1 || evs[0].Found != ilnp.NotFound {
			t.Errorf("%s: %+v", name, evs)
		}
	}
	r.ingress(mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), theirNonce, true, 1, 1, make([]byte, 16))))
	if evs := r.events(); len(evs) != 1 || evs[0].Found != ilnp.FoundProbe {
		t.Errorf("a probe: %+v", evs)
	}
	r.ingress(under(ilnp.FoundRFC6741, false, from, theirNonce, ip6.TCP, tcp(flagSYN, 0)))
	if evs := r.events(); len(evs) != 1 || evs[0].Found != ilnp.FoundRFC6741 {
		t.Errorf("a sound packet after them: %+v", evs)
	}
}

// The rule of a peer that we contacted is found from its first answer with a
// nonce, and held to before the daemon knows.
func TestRuleOfPeers(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	guess := func(rule ilnp.ChecksumRule, sought bool, n ilnp.Nonce) {
		p := entryFor(there)
		p.Rule, p.RuleSought, p.LocalNonce = rule, sought, n // another nonce: another session
		r.upsert(p)
	}
	sends := func(want ilnp.FoundRule) {
		t.Helper()
		_, out := r.egress(toPeer(ip6.UDP, udp(30)))
		q, err := ilnpwire.ParsePacket(out)
		r.must(err)
		if !soundUnder(want, q) {
			t.Errorf("not sent under rule %d", want)
		}
	}
	answer := func(rule ilnp.FoundRule, n ilnp.Nonce) {
		if n.Present() {
			r.ingress(under(rule, false, at(there, theirs), n, ip6.UDP, udp(30)))
			return
		}
		r.ingress(fromPeer(there, ilnp.Nonce{}, ip6.UDP, udp(30)))
	}
	guess(ilnp.RuleIPv6, true, unlistedNonce(1))
	answer(ilnp.FoundRFC6741, ilnp.Nonce{})
	r.wantKinds("an answer that could be forged")
	sends(ilnp.FoundIPv6)
	answer(ilnp.FoundRFC6741, theirNonce)
	if evs := r.events(); len(evs) != 1 || evs[0].Kind != RuleSeen || evs[0].Found != ilnp.FoundRFC6741 || evs[0].Key.Remote != theirs {
		t.Errorf("events %+v", evs)
	}
	sends(ilnp.FoundRFC6741)
	answer(ilnp.FoundIPv6, theirNonce)
	r.wantKinds("a second answer")
	sends(ilnp.FoundRFC6741)

	guess(ilnp.RuleIPv6, true, unlistedNonce(2))
	answer(ilnp.FoundIPv6, theirNonce)
	r.wantKinds("as was guessed")
	answer(ilnp.FoundRFC6741, theirNonce)
	sends(ilnp.FoundIPv6)

	guess(ilnp.RuleRFC6741, false, unlistedNonce(3))
	answer(ilnp.FoundIPv6, theirNonce)
	r.wantKinds("the rule was fixed")
	sends(ilnp.FoundRFC6741)
}

// What tells a stack that always shows its nonce from Roam is counted apart.
func TestSignsOfAStack(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	want := func(with, without uint32, asks bool) {
		t.Helper()
		acts, err := r.Activity(r.keys())
		r.must(err)
		if a := acts[0]; a.WithNonce != with || (a.WithoutNonce != 0) != (without != 0) || a.Asks != asks {
			t.Errorf("%+v, want %d with, %d without, asks %v", a, with, without, asks)
		}
	}
	r.ingress(fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)))
	r.ingress(fromPeer(there, theirNonce, ip6.UDP, udp(9)))
	want(2, 0, false)
	r.ingress(echo(t, there, ourNonce, true, 7)) // not its nonce
	r.ingress(fromPeer(there, ilnp.Nonce{}, ip6.UDP, udp(9)))
	want(2, 1, false)
	r.ingress(echo(t, there, theirNonce, true, 7))
	want(2, 1, true)
}

// Only data with the right nonce show which of our locators the correspondent knows.
func TestWhereTheNonceCame(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	want := func(what string, l roam.L64) {
		t.Helper()
		acts, err := r.Activity(r.keys())
		r.must(err)
		if acts[0].NonceAt != l {
			t.Errorf("%s: came to %v, want %v", what, acts[0].NonceAt, l)
		}
	}
	want("nothing", 0)
	r.ingress(fromPeer(there, ilnp.Nonce{}, ip6.UDP, udp(9)))
	r.ingress(fromPeer(there, ourNonce, ip6.UDP, udp(9)))
	r.ingress(echo(t, there, theirNonce, true, 7))
	want("no nonce, another one, and an echo request", 0)
	r.ingress(fromPeer(there, theirNonce, ip6.UDP, udp(9)))
	want("a datagram", here)

	acts, err := r.LastHeard([]ilnp.SessionKey{{Local: ours, Remote: theirs}, {Local: ours, Remote: ours}})
	r.must(err)
	if len(acts) != 1 || time.Since(acts[0].LastRx) > time.Minute {
		t.Errorf("last heard: %+v", acts)
	}
}
