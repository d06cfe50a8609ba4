package ilnphost

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

var (
	hopMAC  = net.HardwareAddr{0xde, 0xad, 0xbe, 0xef, 0x00, 0x01}
	hop     = netip.MustParseAddr("fe80::1")
	linkMAC = net.HardwareAddr{0xba, 0xdc, 0x0f, 0xfe, 0xe0, 0x02}
)

// hopUplink is an uplink whose next hop is known.
func hopUplink() UplinkEntry {
	return UplinkEntry{
		Local: roam.LinkLocator{Link: loopback, L64: here}, Usable: true, MTU: 1500,
		NextHop: hop, MAC: linkMAC, NextHopMAC: hopMAC, KnownAt: time.Now(),
	}
}

// uplinkLive is what the programs see of the next hop of the first uplink.
func (r *rig) uplinkLive() (l bpfUplinkLive) {
	r.t.Helper()
	r.must(r.objs.UplinkLives.Lookup(uint32(0), &l))
	return l
}

// lately is a time ago that the coarse clock of the programs has passed for certain.
const lately = 20 * time.Millisecond

// kernelWay makes it so long ago that the kernel got a packet to send to the next hop.
func (r *rig) kernelWay(ago time.Duration) {
	r.t.Helper()
	l := r.uplinkLive()
	l.Checked = dataplane.Monotonic(time.Now().Add(-ago))
	r.must(r.objs.UplinkLives.Put(uint32(0), &l))
}

// framed sends a packet and reports whether the program wrote its Ethernet header.
func (r *rig) framed(p []byte, set ...func(*ebpf.RunOptions)) bool {
	r.t.Helper()
	in := frame(p)
	v, out := r.run(r.objs.IlnpSessionEgress, in, set...)
	if v != redirect {
		r.t.Fatalf("verdict %d", v)
	}
	if !bytes.Equal(out[12:14], in[12:14]) {
		r.t.Errorf("the type of the frame is %x", out[12:14])
	}
	written := bytes.Equal(out[:12], append(bytes.Clone(hopMAC), linkMAC...))
	if !written && !bytes.Equal(out[:12], in[:12]) {
		r.t.Errorf("the frame starts with %x", out[:12])
	}
	return written
}

// When a frame gets the addresses of the next hop, and when it is left to the kernel.
func TestFrameToNextHop(t *testing.T) {
	r := newRig(t)
	data, nonced := toPeer(ip6.TCP, tcp(flagACK, 9)), toPeer(ip6.TCP, tcp(flagSYN, 0))
	for name, c := range map[string]struct {
		change func(*UplinkEntry)
		remote roam.L64
		packet []byte
		gso    bool
		plain  bool
		want   bool
	}{
		"data":                    {packet: data, want: true},
		"with a nonce":            {packet: nonced, want: true},
		"GSO packet":              {packet: toPeer(ip6.TCP, tcp(flagACK, 1300)), gso: true, want: true},
		"plain IPv6":              {packet: data, plain: true, want: true},
		"in our network":          {packet: data, remote: here},
		"no next hop":             {packet: data, change: func(e *UplinkEntry) { e.NextHop = netip.Addr{} }},
		"no address of it":        {packet: data, change: func(e *UplinkEntry) { e.NextHopMAC = nil }},
		"no address of our own":   {packet: data, change: func(e *UplinkEntry) { e.MAC = nil }},
		"longer address":          {packet: data, change: func(e *UplinkEntry) { e.NextHopMAC = make([]byte, 8) }},
		"since an unknown time":   {packet: data, change: func(e *UplinkEntry) { e.KnownAt = time.Time{} }},
		"link without MAC header": {packet: data, change: func(e *UplinkEntry) { e.MAC, e.NextHopMAC = nil, nil }},
	} {
		e, p := hopUplink(), entryFor(there)
		if c.change != nil {
			c.change(&e)
		}
		if c.remote != 0 {
			p = entryFor(c.remote)
		}
		if c.plain {
			p.State = ilnp.Plain
		}
		r.must(r.SetUplinks([]UplinkEntry{e}))
		r.upsert(p)
		r.kernelWay(lately)
		var set []func(*ebpf.RunOptions)
		if c.gso {
			set = append(set, gso)
		}
		if got := r.framed(c.packet, set...); got != c.want {
			t.Errorf("%s: framed %v, want %v", name, got, c.want)
		}
	}
}

// A packet that the direct route has brought to the uplink of its path leaves there, as it
// would have left by the session device. Others are redirected, as there.
func TestDirectRoute(t *testing.T) {
	r := newRig(t)
	ip(t, "link add up1 index 2 type veth peer name peer1 index 3")
	for _, l := range []string{"up1", "peer1"} {
		ip(t, "link set "+l+" up")
	}
	atUplink := func(o *ebpf.RunOptions) { o.Context = skbContext{Ifindex: 2} }
	first, second := hopUplink(), hopUplink()
	first.Local.Link, second.Local.L64 = 2, here+1
	r.must(r.SetUplinks([]UplinkEntry{first, second}))
	for _, c := range []struct {
		what    string
		packet  []byte
		on      func(*ebpf.RunOptions)
		local   roam.LinkLocator
		ago     time.Duration
		verdict int
	}{
		{"a datagram", toPeer(ip6.UDP, udp(9)), atUplink, first.Local, lately, passOn},
		{"a segment", toPeer(ip6.TCP, tcp(flagACK, 9)), atUplink, first.Local, lately, passOn},
		{"a first segment, with a nonce", toPeer(ip6.TCP, tcp(flagSYN, 0)), atUplink, first.Local, lately, passOn},
		{"one by the session device", toPeer(ip6.UDP, udp(9)), func(*ebpf.RunOptions) {}, first.Local, lately, redirect},
		{"one along another uplink", toPeer(ip6.UDP, udp(9)), atUplink, second.Local, lately, redirect},
		{"the kernel is to check the next hop", toPeer(ip6.UDP, udp(9)), atUplink, first.Local, time.Second, redirect},
	} {
		e := entryFor(there)
		e.Paths = []ilnp.Path{{Local: c.local, Remote: there}}
		r.upsert(e)
		r.kernelWay(time.Second)
		_, want := r.egress(c.packet)
		r.kernelWay(c.ago)
		v, out := r.run(r.objs.IlnpSessionEgress, frame(c.packet), c.on)
		if v != c.verdict || !bytes.Equal(out[ethLen:], want) {
			t.Errorf("%s: verdict %d, %s", c.what, v, difference(out[ethLen:], want))
		}
		if v == passOn && !bytes.Equal(out[:12], append(bytes.Clone(hopMAC), linkMAC...)) {
			t.Errorf("%s: the frame starts with %x", c.what, out[:12])
		}
	}
	got := r.counted(func() {
		arrived := func(o *ebpf.RunOptions) { o.Context = skbContext{Ifindex: 2, Arrived: 2} }
		if v, _ := r.run(r.objs.IlnpSessionEgress, frame(toPeer(ip6.UDP, udp(9))), arrived); v != shot {
			t.Errorf("of another node: verdict %d", v)
		}
	})
	r.wantCounts("of another node", got, counts{"drop_forwarded": 1})
	r.must(r.SetUplinks(nil))
	// The kernel would transmit what is only consumed there.
	for what, c := range map[string]struct {
		packet []byte
		want   counts
	}{
		"without a usable uplink": {toPeer(ip6.UDP, udp(9)), counts{"drop_no_path": 1}},
		"to a peer without a session": {packet(session(ours), session(theirs+1), ip6.UDP, udp(9)),
			counts{"miss_handed_over": 1}},
		"an error of our stack": {toPeer(ip6.ICMPv6, []byte{1, 4, 0, 0, 0, 0, 0, 0}), counts{"error_handed_over": 1}},
	} {
		got = r.counted(func() {
			if v, out := r.run(r.objs.IlnpSessionEgress, frame(c.packet), atUplink); v != redirect {
				t.Errorf("%s: verdict %d, frame %x", what, v, out[:ethLen])
			}
		})
		r.wantCounts(what, got, c.want)
	}
}

// One packet of an uplink takes the kernel's way every 100 ms, or the kernel would not
// check its neighbour.
func TestKernelChecksNextHop(t *testing.T) {
	r := newRig(t)
	r.must(r.SetUplinks([]UplinkEntry{hopUplink()}))
	r.upsert(entryFor(there))
	data := toPeer(ip6.UDP, udp(9))
	if r.framed(data) {
		t.Error("the first packet did not take the kernel's way")
	}
	for range 3 {
		r.kernelWay(50 * time.Millisecond)
		if !r.framed(data) {
			t.Error("50 ms later a packet took the kernel's way")
		}
		r.kernelWay(110 * time.Millisecond)
		if r.framed(data) {
			t.Error("110 ms later none did")
		}
	}
}

// discovery is a message of neighbour discovery, by src about target, with the option of
// that type.
func discovery(kind byte, src, dst, target netip.Addr, option byte, mac net.HardwareAddr) []byte {
	body := []byte{kind, 0, 0, 0, 0, 0, 0, 0}
	fixed := map[byte]int{134: 8, 137: 32}[kind]
	if kind != 134 {
		body = append(body, target.AsSlice()...)
		fixed = map[byte]int{137: 16}[kind]
	}
	body = append(append(body, make([]byte, fixed)...), 5, 1, 0, 0, 0, 0, 5, 220) // an MTU
	if option != 0 {
		body = append(append(body, option, 1), mac...)
	}
	b := packet(roam.ILVFromAddr(src), roam.ILVFromAddr(dst), ip6.ICMPv6, body)
	b[7] = 255
	return b
}

// A message of neighbour discovery that gives the next hop another hardware address ends
// what is known, until the daemon knows it anew. Others do not.
func TestNeighbourDiscoveryEndsKnowledge(t *testing.T) {
	r := newRig(t)
	r.must(r.SetUplinks([]UplinkEntry{hopUplink()}))
	r.upsert(entryFor(there))
	data := toPeer(ip6.UDP, udp(9))
	ip(t, "link add up1 type veth peer name peer1")
	ip(t, "link set up1 up") // packets of a test run arrive on links that are up
	other, err := net.InterfaceByName("up1")
	r.must(err)
	all, own, neighbour := netip.MustParseAddr("ff02::1"), at(here, ours).Addr(), netip.MustParseAddr("fe80::2")
	fresh := net.HardwareAddr{0xde, 0xad, 0xbe, 0xef, 0x00, 0x03}
	far := discovery(136, hop, own, hop, 2, fresh)
	far[7] = 254
	cut := discovery(136, hop, all, hop, 2, fresh)
	cut = append(cut[:ip6.HeaderLen+24], 0, 0)
	cut[5] = 26
	for name, c := range map[string]struct {
		packet []byte
		link   roam.LinkID
		ends   bool
	}{
		"advertisement of the router":        {discovery(134, hop, all, hop, 1, fresh), loopback, true},
		"solicitation by it":                 {discovery(135, hop, own, own, 1, fresh), loopback, true},
		"advertisement":                      {discovery(136, hop, all, hop, 2, fresh), loopback, true},
		"advertisement to our locator":       {discovery(136, hop, own, hop, 2, fresh), loopback, true},
		"advertisement by somebody else":     {discovery(136, neighbour, all, hop, 2, fresh), loopback, true},
		"redirect to it":                     {discovery(137, neighbour, own, hop, 2, fresh), loopback, true},
		"unreadable options":                 {cut, loopback, true},
		"the same by the router":             {discovery(134, hop, all, hop, 1, hopMAC), loopback, false},
		"the same by a solicitation":         {discovery(135, hop, own, own, 1, hopMAC), loopback, false},
		"the same by an advertisement":       {discovery(136, hop, own, hop, 2, hopMAC), loopback, false},
		"router advertisement without":       {discovery(134, hop, all, hop, 0, nil), loopback, false},
		"advertisement without":              {discovery(136, hop, own, hop, 0, nil), loopback, false},
		"another router":                     {discovery(134, neighbour, all, hop, 1, fresh), loopback, false},
		"solicitation by a neighbour":        {discovery(135, neighbour, own, own, 1, fresh), loopback, false},
		"advertisement of a neighbour":       {discovery(136, neighbour, all, neighbour, 2, fresh), loopback, false},
		"advertisement on another link":      {discovery(136, hop, all, hop, 2, fresh), roam.LinkID(other.Index), false},
		"advertisement from another network": {far, loopback, false},
		"solicitation of routers":            {discovery(133, hop, all, hop, 1, fresh), loopback, false},
		"datagram":                           {packet(at(there, theirs), at(here, ours), ip6.UDP, udp(9)), loopback, false},
	} {
		e := hopUplink()
		r.must(r.SetUplinks([]UplinkEntry{e}))
		var live bpfUplinkLive
		r.must(r.objs.UplinkLives.Put(uint32(0), &live))
		r.kernelWay(lately)
		if !r.framed(data) {
			t.Fatalf("before %s: not framed", name)
		}
		f := frame(c.packet)
		if c.link != loopback {
			copy(f, other.HardwareAddr)
		}
		r.run(r.objs.IlnpUplinkIngress, f, on(c.link))
		r.kernelWay(lately)
		if got := r.framed(data); got == c.ends {
			t.Errorf("after %s: framed %v", name, got)
		}
		// The daemon knew the same at that time or a moment later: that may be outdated.
		e.KnownAt = time.Now().Add(20 * time.Millisecond)
		r.must(r.SetUplinks([]UplinkEntry{e}))
		r.kernelWay(lately)
		if got := r.framed(data); got == c.ends {
			t.Errorf("a moment after %s: framed %v", name, got)
		}
		e.KnownAt = time.Now().Add(time.Second)
		r.must(r.SetUplinks([]UplinkEntry{e}))
		r.kernelWay(lately)
		if !r.framed(data) {
			t.Errorf("a second after %s: not framed", name)
		}
	}
}
