package border

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/internal/testutil"
	"roam/sbr"
	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

const (
	passOn   = 0xffffffff // -1
	shot     = 2
	redirect = 7
	loopback = 1

	encapPort = 6740

	everyIndex = 0xffff // of a table whose indices have nothing to do with those before
	maxFlows   = 65536

	insideNID  roam.NID = 0x0002_0003_0004_0005
	outsideNID roam.NID = 0x1002_1003_1004_1005
	internal   roam.L64 = 0xfd00_0000_0001_0000
	siteA      roam.L64 = 0x2001_0db8_000a_0000
	siteB      roam.L64 = 0x2001_0db8_000b_0000
	remote     roam.L64 = 0x2001_0db8_00cc_0000
)

var (
	inward  = ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	outward = ilnp.Nonce{Len: 4, Bytes: [12]byte{5, 6, 7, 8}}
	mine    = roam.ILV{L64: internal, NID: insideNID}
	theirs  = roam.ILV{L64: remote, NID: outsideNID}
	theKey  = sbr.FlowKey{Inside: insideNID, Outside: outsideNID}
	hops    = map[roam.LinkID]Hop{loopback: {MTU: 1500}}
)

// rig is a plane without links, whose programs are run one packet at a time.
type rig struct {
	*Plane
	*testing.T
	table sbr.Table
	flags uint32 // of test runs
}

func newRig(t *testing.T) *rig { return newRigOf(t, dataplane.ChecksumFlags()) }

// newRigOf has programs that change checksums with these flags.
func newRigOf(t *testing.T, checksumFlags uint64) *rig {
	t.Helper()
	testutil.NeedRoot(t)
	r := &rig{Plane: &Plane{}, T: t}
	if objs := kept[checksumFlags]; objs != nil {
		delete(kept, checksumFlags)
		r.objs = *objs
		r.empty()
	} else {
		r.load(checksumFlags)
	}
	objs := r.objs
	t.Cleanup(func() { kept[checksumFlags] = &objs })
	r.install(50, 50)
	r.configure(Settings{})
	return r
}

func (r *rig) configure(s Settings) {
	r.Helper()
	if err := r.Configure(s, time.Now().Add(time.Hour)); err != nil {
		r.Fatal(err)
	}
}

// install makes both site locators usable on the loopback link.
func (r *rig) install(a, b int) {
	r.Helper()
	p, err := sbr.ParsePolicy([]byte(policyText(a, b)))
	if err != nil {
		r.Fatal(err)
	}
	r.table = sbr.NewTable(p, []sbr.Site{{L64: siteA, Link: loopback, Up: true}, {L64: siteB, Link: loopback, Up: true}})
	if err := r.Install(r.table, everyIndex, hops); err != nil {
		r.Fatal(err)
	}
}

// run puts a packet through a program and returns what that makes of it.
func (r *rig) run(prog *ebpf.Program, packet []byte) (verdict uint32, out []byte) {
	r.Helper()
	frame := append([]byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0x86, 0xdd}, packet...)
	o := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Flags: r.flags}
	verdict, err := prog.Run(&o)
	if err != nil {
		r.Fatal(err)
	}
	return verdict, o.DataOut[14:]
}

// confirm makes a flow whose outside node knows those locators.
func (r *rig) confirm(known ...roam.L64) {
	r.Helper()
	r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, outward, true, 1, 56))
	r.run(r.objs.SbrUplinkIngress, r.echo(theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, false, 1, 56))
	if _, ok := r.Flow(theKey, r.table); !ok {
		r.Fatal("no flow after a nonce of each node")
	}
	if err := r.Announce(theKey, r.table, known); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) echo(src, dst roam.ILV, n ilnp.Nonce, request bool, seq uint16, size int) []byte {
	r.Helper()
	b, err := ilnp.BuildEcho(src, dst, n, request, 7, seq, make([]byte, size))
	if err != nil {
		r.Fatal(err)
	}
	return b
}

func (r *rig) counter(name string) uint64 {
	r.Helper()
	list, err := r.Counters()
	if err != nil {
		r.Fatal(err)
	}
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	r.Fatalf("no counter %s", name)
	return 0
}

// moved returns a golden packet between other addresses, with its checksum as right as it was.
func moved(t *testing.T, packet []byte, src, dst roam.ILV) []byte {
	t.Helper()
	c, err := ip6.Walk(packet)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(packet)
	copy(b[8:], src.Addr().AsSlice())
	copy(b[24:], dst.Addr().AsSlice())
	off, n, ok := ip6.ChecksumOffset(c.Upper)
	if ok && !c.Later() && c.UpperOffset+n <= c.End {
		field := b[c.UpperOffset+off:]
		if c.Upper != ip6.UDP && c.Upper != ip6.UDPLite || field[0] != 0 || field[1] != 0 {
			sum := ip6.Adjust(uint16(field[0])<<8|uint16(field[1]), ip6.Sum(packet[8:40]), ip6.Sum(b[8:40]))
			if sum == 0 && (c.Upper == ip6.UDP || c.Upper == ip6.UDPLite) {
				sum = 0xffff
			}
			field[0], field[1] = byte(sum>>8), byte(sum)
		}
	}
	return b
}

// Every golden packet becomes in the programs what the model makes of it, in both directions.
func TestGolden(t *testing.T) { everyGolden(t, newRig(t)) }

// The sum that a device has computed over a whole packet stays true: the kernel fails a test
// run that spoils it. Without the kernel's flag for IPv6 the programs keep it true themselves.
func TestDeviceSum(t *testing.T) {
	for _, flags := range []uint64{dataplane.ChecksumFlags(), 1 << 4} {
		r := newRigOf(t, flags)
		r.flags = 1 << 2 // BPF_F_TEST_SKB_CHECKSUM_COMPLETE
		frame := make([]byte, 64)
		_, err := r.objs.SbrUplinkIngress.Run(&ebpf.RunOptions{Data: frame, Flags: r.flags})
		testutil.NeedKernel(t, "test runs with CHECKSUM_COMPLETE", err == nil)
		everyGolden(t, r)
	}
}

func everyGolden(t *testing.T, r *rig) {
	compared := 0
	for name, wire := range goldenPackets(t) {
		chain, err := ip6.Walk(wire)
		if err != nil {
			t.Fatal(err)
		}
		if control(wire, chain) {
			continue
		}
		compared++
		t.Run(name, func(t *testing.T) {
			r.compare(t, r.objs.SbrInsideIngress, redirect, moved(t, wire, mine, theirs), sbr.Source, siteA)
			site := roam.ILV{L64: siteA, NID: insideNID}
			r.compare(t, r.objs.SbrUplinkIngress, passOn, moved(t, wire, theirs, site), sbr.Destination, internal)
		})
	}
	if compared < 40 {
		t.Errorf("only %d golden packets are no control messages", compared)
	}
}

// goldenPackets reads the golden packets, by their names.
func goldenPackets(t *testing.T) map[string][]byte {
	files, err := filepath.Glob("../../../wire/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	packets := map[string][]byte{}
	for _, f := range files {
		base := strings.TrimSuffix(f, ".txt")
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
		packets[filepath.Base(base)] = c.Wire
	}
	return packets
}

// A probe in UDP keeps both of its checksums valid, and is answered from where it came to.
func TestEncapsulated(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	encap := func(b []byte) []byte {
		b, err := ilnp.Encapsulate(b, encapPort)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	valid := func(what string, b []byte) {
		t.Helper()
		c, err := ip6.Walk(b)
		if err != nil || ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, b[c.UpperOffset:c.End]) != 0 {
			t.Errorf("%s: the checksum of the datagram is wrong, %v", what, err)
		}
		if m, err := ilnp.ParseControl(b, encapPort); err != nil || !m.Encapsulated {
			t.Errorf("%s: %+v, %v", what, m, err)
		}
	}
	site := roam.ILV{L64: siteB, NID: insideNID}
	for seq := range uint16(4) {
		_, out := r.run(r.objs.SbrUplinkIngress, encap(r.echo(theirs, site, inward, true, seq, 16)))
		valid("inward", out)
		verdict, out := r.run(r.objs.SbrInsideIngress, encap(r.echo(mine, theirs, outward, false, seq, 16)))
		if valid("outward", out); verdict != redirect || source(out) != siteB {
			t.Errorf("verdict %#x, from %v", verdict, source(out))
		}
	}
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: internal}}}
	b, err := ilnp.BuildUpdate(mine, theirs, outward, u)
	if err != nil {
		t.Fatal(err)
	}
	before := r.counter("handed_over")
	if verdict, _ := r.run(r.objs.SbrInsideIngress, encap(b)); verdict != shot || r.counter("handed_over") != before+1 {
		t.Errorf("an update in UDP: verdict %#x", verdict)
	}
}

// control reports whether the daemon is given a packet.
func control(b []byte, c ip6.Chain) bool {
	if c.Upper != ip6.ICMPv6 || c.Later() || c.Fragmented {
		return false
	}
	return b[c.UpperOffset] == ilnp.TypeLocatorUpdate || b[c.UpperOffset] < ilnp.TypeEchoRequest
}

func (r *rig) compare(t *testing.T, prog *ebpf.Program, verdict uint32, packet []byte, at sbr.End, to roam.L64) {
	t.Helper()
	want, err := sbr.Rewrite(packet, at, to, sbr.RuleIPv6)
	if err != nil {
		t.Fatal(err)
	}
	if at == sbr.Source {
		want[7]--
	}
	got, out := r.run(prog, packet)
	if got != verdict || !bytes.Equal(out, want) {
		t.Errorf("verdict %#x, want %#x\n got %x\nwant %x", got, verdict, out, want)
	}
}
