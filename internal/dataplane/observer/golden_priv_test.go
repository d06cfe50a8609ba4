package observer

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"roam/internal/testutil"
	"roam/observer"
	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

const (
	ethLen   = 14
	passOn   = 1<<32 - 1 // -1 as the kernel returns it
	loopback = 1         // the link of a test run
	complete = 2         // CHECKSUM_COMPLETE of the kernel
)

// alone is a plane whose maps are not pinned and whose programs are attached nowhere.
func alone(t testing.TB) *Plane {
	t.Helper()
	testutil.NeedRoot(t)
	spec, err := loadBpf()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
	}
	p := &Plane{}
	if err := spec.LoadAndAssign(&p.objs, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if err := p.objs.Traffic.Put(bpfTrafficClass{}, make([]bpfTraffic, ebpf.MustPossibleCPU())); err != nil {
		t.Fatal(err)
	}
	return p
}

// counts returns what was counted of the test's link and, as link 0, of all that found no
// space.
func (p *Plane) counts(t testing.TB) map[observer.Class]observer.Traffic {
	t.Helper()
	counts, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(counts, func(k observer.Class, n observer.Traffic) bool {
		return k.Link > loopback || n == observer.Traffic{}
	})
	return counts
}

// frame puts an Ethernet header ahead of a packet.
func frame(p []byte) []byte {
	return append([]byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0x86, 0xdd}, p...)
}

// counted returns what the programs count of a frame, which they must pass on as it is.
func (p *Plane) counted(t *testing.T, prog *ebpf.Program, frame []byte, flags uint32,
) map[observer.Class]observer.Traffic {
	t.Helper()
	for k := range p.counts(t) {
		key := bpfTrafficClass{Link: uint32(k.Link), Next: k.Next, Flags: uint8(k.Flags), Checksum: k.Checksum}
		if err := p.objs.Traffic.Delete(key); err != nil {
			t.Fatal(err)
		}
	}
	run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Flags: flags}
	verdict, err := prog.Run(&run)
	if err != nil {
		t.Fatal(err)
	}
	if verdict != passOn || !bytes.Equal(run.DataOut, frame) {
		t.Errorf("verdict %#x, packet kept: %t", verdict, bytes.Equal(run.DataOut, frame))
	}
	return p.counts(t)
}

// classOf says what a packet is by the codecs.
func classOf(t *testing.T, packet []byte) observer.Class {
	t.Helper()
	k := observer.Class{Link: loopback}
	c, err := ip6.Walk(packet)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ilnp.FindNonce(packet, c)
	if err != nil {
		t.Fatal(err)
	}
	if k.Next = c.Upper; n.Nonce.Present() {
		k.Flags |= observer.Nonce
	}
	if c.Upper == ip6.ICMPv6 && !c.Later() && packet[c.UpperOffset] == ilnp.TypeLocatorUpdate {
		k.Flags |= observer.LocatorUpdate
	}
	return k
}

func (p *Plane) wantOne(t *testing.T, packet []byte, k observer.Class) {
	t.Helper()
	for prog, direction := range map[*ebpf.Program]observer.Flags{
		p.objs.ObserverIngress: 0, p.objs.ObserverEgress: observer.Egress,
	} {
		k := k
		k.Flags |= direction
		want := map[observer.Class]observer.Traffic{k: {Packets: 1, Bytes: uint64(len(packet))}}
		if got := p.counted(t, prog, frame(packet), 0); !maps.Equal(got, want) {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	}
}

// Both packets of every golden case count in the class that the codecs say, in both
// directions, and pass unchanged.
func TestGolden(t *testing.T) {
	p := alone(t)
	files, err := filepath.Glob("../../../wire/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	classes := make(map[observer.Class]int)
	for _, f := range files {
		base := strings.TrimSuffix(f, ".txt")
		t.Run(filepath.Base(base), func(t *testing.T) {
			txt, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			pcap, err := os.ReadFile(base + ".pcap")
			if err != nil {
				t.Fatal(err)
			}
			c, err := golden.Parse(pcap, txt)
			if err != nil {
				t.Fatal(err)
			}
			for _, packet := range [][]byte{c.Session, c.Wire} {
				k := classOf(t, packet)
				p.wantOne(t, packet, k)
				classes[k]++
			}
		})
	}
	// Those that matter occur: the expectation is not the codecs' alone.
	for _, k := range []observer.Class{
		{Link: loopback, Next: ip6.ICMPv6, Flags: observer.Nonce | observer.LocatorUpdate},
		{Link: loopback, Next: ip6.TCP, Flags: observer.Nonce}, {Link: loopback, Next: ip6.TCP},
		{Link: loopback, Next: ip6.UDP, Flags: observer.Nonce}, {Link: loopback, Next: ip6.UDP},
	} {
		if classes[k] == 0 {
			t.Errorf("no golden packet has the class %+v", k)
		}
	}
}

// ipv6 is an IPv6 packet between two addresses.
func ipv6(next uint8, body ...byte) []byte {
	b := make([]byte, ip6.HeaderLen, ip6.HeaderLen+len(body))
	b[0], b[6], b[7], b[8], b[24] = 6<<4, next, 64, 0x20, 0x20
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	return append(b, body...)
}

// What the parser refuses counts by the protocol of the IPv6 header; what is not IPv6 does
// not count, nor does the padding of a short frame.
func TestUnusualPackets(t *testing.T) {
	p := alone(t)
	udp := []byte{0, 1, 0, 2, 0, 8, 0, 0}
	unreadable := observer.Class{Link: loopback, Flags: observer.Unreadable}
	with := func(k observer.Class, next uint8) observer.Class { k.Next = next; return k }
	for name, c := range map[string]struct {
		packet []byte
		class  observer.Class
	}{
		"no header behind it": {ipv6(59), observer.Class{Link: loopback, Next: 59}},
		"options cut off":     {ipv6(ip6.DestOpts, ip6.UDP, 9, 1, 4, 0, 0, 0, 0), with(unreadable, ip6.DestOpts)},
		"segments left": {ipv6(ip6.Routing, append([]byte{ip6.UDP, 0, 4, 1, 0, 0, 0, 0}, udp...)...),
			with(unreadable, ip6.Routing)},
		"later fragment": {ipv6(ip6.Fragment, ip6.ICMPv6, 0, 1, 0, 0, 0, 0, 1, ilnp.TypeLocatorUpdate, 0, 0, 0),
			observer.Class{Link: loopback, Next: ip6.ICMPv6}},
		"nonce of another length": {ipv6(ip6.DestOpts, append([]byte{ip6.UDP, 0, 0x8b, 3, 1, 2, 3, 0}, udp...)...),
			observer.Class{Link: loopback, Next: ip6.DestOpts, Flags: observer.Nonce | observer.Unreadable}},
		"udp that speaks of 156": {ipv6(ip6.UDP, ilnp.TypeLocatorUpdate, 0, 0, 2, 0, 8, 0, 0),
			observer.Class{Link: loopback, Next: ip6.UDP}},
	} {
		t.Run(name, func(t *testing.T) { p.wantOne(t, c.packet, c.class) })
	}
	arp := append([]byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0x08, 0x06}, make([]byte, 46)...)
	if got := p.counted(t, p.objs.ObserverIngress, arp, 0); len(got) != 0 {
		t.Errorf("ARP counts: %+v", got)
	}
	padded := append(frame(ipv6(ip6.UDP, udp...)), make([]byte, 30)...)
	want := observer.Traffic{Packets: 1, Bytes: 48}
	if got := p.counted(t, p.objs.ObserverIngress, padded, 0); got[observer.Class{Link: loopback, Next: ip6.UDP}] != want {
		t.Errorf("a frame with padding counts %+v", got)
	}
}

// The state of a checksum is the kernel's.
func TestChecksumComplete(t *testing.T) {
	p := alone(t)
	const flag = 1 << 2 // BPF_F_TEST_SKB_CHECKSUM_COMPLETE
	f := frame(ipv6(ip6.UDP, 0, 1, 0, 2, 0, 8, 0, 0))
	_, err := p.objs.ObserverIngress.Run(&ebpf.RunOptions{Data: f, Flags: flag})
	testutil.NeedKernel(t, "test runs with CHECKSUM_COMPLETE", err == nil)
	k := observer.Class{Link: loopback, Next: ip6.UDP, Checksum: complete}
	if got := p.counted(t, p.objs.ObserverIngress, f, flag); got[k].Packets != 1 {
		t.Errorf("counted %+v", got)
	}
}

// A full table loses no packet, only its class: it counts as one of link 0, and classes
// that have an entry go on.
func TestFullTable(t *testing.T) {
	p := alone(t)
	size := p.objs.Traffic.MaxEntries()
	zero := make([]bpfTraffic, ebpf.MustPossibleCPU())
	udp := frame(ipv6(ip6.UDP, 0, 1, 0, 2, 0, 8, 0, 0))
	run := func(prog *ebpf.Program) {
		t.Helper()
		if v, err := prog.Run(&ebpf.RunOptions{Data: udp}); v != passOn || err != nil {
			t.Errorf("verdict %#x, %v", v, err)
		}
	}
	run(p.objs.ObserverIngress)
	for n := uint32(2); n < size; n++ {
		if err := p.objs.Traffic.Put(bpfTrafficClass{Link: 1000 + n}, zero); err != nil {
			t.Fatal(err)
		}
	}
	run(p.objs.ObserverIngress)
	run(p.objs.ObserverEgress)
	want := map[observer.Class]observer.Traffic{
		{Link: loopback, Next: ip6.UDP}: {Packets: 2, Bytes: 96},
		{}:                              {Packets: 1, Bytes: 48},
	}
	if got := p.counts(t); !maps.Equal(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// mostVerified bounds the instructions of a program that the verifier looks at, on all ways
// through it together: they are a part of the daemon's start.
const mostVerified = 10_000

// The verifier's work stays within its bound.
func TestVerifiersWork(t *testing.T) {
	p := alone(t)
	for _, prog := range []*ebpf.Program{p.objs.ObserverIngress, p.objs.ObserverEgress} {
		info, err := prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, ok := info.VerifiedInstructions()
		testutil.NeedKernel(t, "counts of verified instructions (Linux 5.16)", ok)
		if n > mostVerified {
			t.Errorf("%s: the verifier looks at %d instructions, at most %d", info.Name, n, mostVerified)
		}
	}
}
