package border

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/testutil"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

func policyText(a, b int) string {
	return fmt.Sprintf("%v 50 0 vlb 1 2\n%v %d 0 none 2\n%v %d 0 none 2\n",
		internal.Prefix(), siteA.Prefix(), a, siteB.Prefix(), b)
}

func source(b []byte) roam.L64 { return roam.L64(binary.BigEndian.Uint64(b[8:])) }

// transport makes a UDP or TCP packet from inside with these ports.
func transport(t *testing.T, proto uint8, from, to uint16) []byte {
	t.Helper()
	body := make([]byte, 20)
	binary.BigEndian.PutUint16(body, from)
	binary.BigEndian.PutUint16(body[2:], to)
	if body[12] = 0x50; proto == ip6.UDP {
		binary.BigEndian.PutUint16(body[4:], 20)
	}
	h := ip6.Header{NextHeader: proto, HopLimit: 64, PayloadLen: 20, Src: mine.Addr(), Dst: theirs.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, body...)
	if err := ip6.FinishL4(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// The programs divide packets one by one as the model does, after every change of the
// policy; and no packet leaves from a locator that the outside node does not know.
func TestShares(t *testing.T) {
	r := newRig(t)
	// The shares are those of each processor.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	datagram := transport(t, ip6.UDP, 1, 2)
	for _, precs := range [][2]int{{50, 50}, {20, 80}, {80, 20}, {0, 50}} {
		r.install(precs[0], precs[1])
		if f, ok := r.Flow(theKey, r.table); ok && len(f.Announced) > 0 {
			t.Errorf("%v: what was announced by other indices stays: %v", precs, f.Announced)
		}
		r.confirm(siteA)
		for range 10 {
			if _, out := r.run(r.objs.SbrInsideIngress, datagram); source(out) != siteA {
				t.Fatalf("%v: leaves from %v, which the outside node does not know", precs, source(out))
			}
		}
		if err := r.Announce(theKey, r.table, []roam.L64{siteA, siteB}); err != nil {
			t.Fatal(err)
		}
		members, sent := r.table.Inside[internal].Members, map[roam.L64]int{}
		const packets = 1000
		for range packets {
			_, out := r.run(r.objs.SbrInsideIngress, datagram)
			sent[source(out)]++
		}
		total := members[0].Weight + members[1].Weight
		for _, m := range members {
			want := packets * int(m.Weight) / int(total)
			if n := sent[m.L64]; n < want-runtime.NumCPU() || n > want+runtime.NumCPU() {
				t.Errorf("%v: %d of %d packets leave from %v, want %d", precs, n, packets, m.L64, want)
			}
		}
	}
	s, err := r.Shares(r.table)
	// Each of the four echoes that confirmed the flow is 52 bytes longer.
	if err != nil || s[0].TxBytes+s[1].TxBytes != 60*(s[0].TxPackets+s[1].TxPackets)+4*52 || s[1].TxPackets == 0 {
		t.Errorf("shares %+v, %v", s, err)
	}
}

// Where an index names another site locator, no flow has announced that one. What it announced by other indices stays,
// also in the kernel's table.
func TestWithdrawnFromAll(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	if err := r.Install(r.table, 1<<0, hops); err != nil {
		t.Fatal(err)
	}
	if f, ok := r.Flow(theKey, r.table); !ok || len(f.Announced) != 1 || f.Announced[0] != siteB {
		t.Errorf("announced %v, want %v", f.Announced, siteB)
	}
	if _, out := r.run(r.objs.SbrInsideIngress, transport(t, ip6.UDP, 1, 2)); source(out) != siteB {
		t.Errorf("leaves from %v, which the outside node does not know", source(out))
	}
	r.table.Sites[0].L64 = 0
	if err := r.Install(r.table, 0, hops); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Indices(); err != nil || list[0] != 0 || list[1] != siteB || list[2] != 0 {
		t.Errorf("a free index is not cleared: %v, %v", list, err)
	}
}

// A flow of which a node has lost its state has that node's new nonce, nothing announced and no MACs; packets with that
// nonce are the flow's. Nothing is written into a set that stays locked.
func TestRenew(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	if err := r.Seal(theKey, true); err != nil {
		t.Fatal(err)
	}
	lost := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	if err := r.Renew(theKey, lost, outward); err != nil {
		t.Fatal(err)
	}
	f, ok := r.Flow(theKey, r.table)
	if !ok || f.Inward != lost || f.Outward != outward || f.Sealed || len(f.Announced) != 0 {
		t.Errorf("%+v", f)
	}
	other := theKey
	other.Outside++
	if err := r.Renew(other, lost, outward); err != nil || r.known() != 1 {
		t.Errorf("a flow that is gone: %v", err)
	}
	n := setOf(keyOf(theKey), r.objs.FlowSets.MaxEntries())
	r.lock(n, 1)
	if err := r.Renew(theKey, inward, outward); err == nil {
		t.Error("written into a set that is locked")
	}
	r.lock(n, 0)
}

// A locator that is down may stay announced: no packet leaves from it, and all are in use again once it is up.
func TestAnnouncedDown(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	datagram := transport(t, ip6.UDP, 1, 2)
	p, err := sbr.ParsePolicy([]byte(policyText(50, 50)))
	if err != nil {
		t.Fatal(err)
	}
	up := sbr.Site{L64: siteB, Link: loopback, Up: true}
	if err := r.Install(sbr.NewTable(p, []sbr.Site{{L64: siteA, Link: loopback}, up}), 0, hops); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, out := r.run(r.objs.SbrInsideIngress, datagram); source(out) != siteB {
			t.Fatalf("leaves from %v, which is down", source(out))
		}
	}
	if err := r.Install(r.table, 0, hops); err != nil {
		t.Fatal(err)
	}
	sent := map[roam.L64]int{}
	for range 4 * runtime.NumCPU() {
		_, out := r.run(r.objs.SbrInsideIngress, datagram)
		sent[source(out)]++
	}
	if sent[siteA] == 0 || sent[siteB] == 0 {
		t.Errorf("up again, and leaves from %v", sent)
	}
}

// Packets are divided among three locators as among two, one by one as the model does.
func TestSharesOfThree(t *testing.T) {
	r := newRig(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const siteC roam.L64 = 0x2001_0db8_000e_0000
	all := []roam.L64{siteA, siteB, siteC}
	datagram := transport(t, ip6.UDP, 1, 2)
	for _, precs := range [][3]int{{50, 50, 50}, {10, 20, 70}} {
		text := fmt.Sprintf("%v 1 0 vlb 1 2\n", internal.Prefix())
		var sites []sbr.Site
		for i, l := range all {
			text += fmt.Sprintf("%v %d 0 none 2\n", l.Prefix(), precs[i])
			sites = append(sites, sbr.Site{L64: l, Link: loopback, Up: true})
		}
		p, err := sbr.ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r.table = sbr.NewTable(p, sites)
		if err := r.Install(r.table, everyIndex, hops); err != nil {
			t.Fatal(err)
		}
		r.confirm(all...)
		sent := map[roam.L64]int{}
		const packets = 10_000
		for range packets {
			_, out := r.run(r.objs.SbrInsideIngress, datagram)
			sent[source(out)]++
		}
		total := 0
		for _, m := range r.table.Inside[internal].Members {
			total += int(m.Weight)
		}
		for _, m := range r.table.Inside[internal].Members {
			want := float64(packets) * float64(m.Weight) / float64(total)
			if off := float64(sent[m.L64]) - want; off < -2 || off > 2 { // a packet of each other locator
				t.Errorf("%v: %d of %d packets leave from %v, want %.1f", precs, sent[m.L64], packets, m.L64, want)
			}
		}
	}
}

// A TCP connection keeps to the locator that the model says, unless the policy is by packets.
func TestConnections(t *testing.T) {
	r := newRig(t)
	random := rand.New(rand.NewPCG(3, 4))
	for _, precs := range [][2]int{{50, 50}, {20, 80}} {
		r.install(precs[0], precs[1])
		r.confirm(siteA, siteB)
		members, sent := r.table.Inside[internal].Members, map[roam.L64]int{}
		for range 300 {
			a, b := uint16(random.Uint32()), uint16(random.Uint32())
			want := members[sbr.OfConnection(members, remote, a, b)].L64
			for range 2 {
				if _, out := r.run(r.objs.SbrInsideIngress, transport(t, ip6.TCP, a, b)); source(out) != want {
					t.Fatalf("%v: ports %d and %d leave from %v, the model says %v", precs, a, b, source(out), want)
				}
			}
			sent[want]++
		}
		if len(sent) != 2 {
			t.Errorf("%v: all connections take one locator", precs)
		}
	}
	r.configure(Settings{TCPPackets: true})
	segment, sent := transport(t, ip6.TCP, 1, 2), map[roam.L64]int{}
	for range 100 {
		_, out := r.run(r.objs.SbrInsideIngress, segment)
		sent[source(out)]++
	}
	if len(sent) != 2 {
		t.Errorf("by packets: %v", sent)
	}
}

// A probe that asks for a report is one, too, and its answer loses the report: the ends count
// along different paths.
func TestReports(t *testing.T) {
	for name, size := range map[string]int{"plain": ilnp.ReportLen, "with a MAC": ilnp.SealedReportLen} {
		t.Run(name, func(t *testing.T) { hidesReports(t, size) })
	}
}

func hidesReports(t *testing.T, size int) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	site := roam.ILV{L64: siteB, NID: insideNID}
	data := make([]byte, size)
	copy(data[16:], "RORP")
	data[21], data[30] = 7, 9
	probe := func(src, dst roam.ILV, n ilnp.Nonce, request bool) []byte {
		b, err := ilnp.BuildEcho(src, dst, n, request, 7, 1, data)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := func(what string, b []byte, flags byte) {
		t.Helper()
		m, err := ilnp.ParsePacket(b)
		if err != nil || m.Payload[8+21] != flags || m.Payload[8+30] != 9 {
			t.Errorf("%s: %x, %v", what, m.Payload, err)
		}
	}
	_, out := r.run(r.objs.SbrUplinkIngress, probe(theirs, site, inward, true))
	want("request", out, 7)
	_, out = r.run(r.objs.SbrInsideIngress, probe(mine, theirs, outward, false))
	if want("answer from inside", out, 6); source(out) != siteB {
		t.Errorf("a probe to %v is answered from %v", siteB, source(out))
	}
	_, out = r.run(r.objs.SbrUplinkIngress, probe(theirs, site, inward, false))
	want("answer from outside", out, 6)
}

// The answer to a probe leaves from the locator that the probe came to, and each probe is
// answered there; another echo reply is divided as data.
func TestProbeReplies(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	for seq := uint16(1); seq < 40; seq++ {
		to := []roam.L64{siteA, siteB, siteB}[seq%3]
		verdict, out := r.run(r.objs.SbrUplinkIngress,
			r.echo(theirs, roam.ILV{L64: to, NID: insideNID}, inward, true, seq, 16))
		if d := roam.L64(binary.BigEndian.Uint64(out[24:])); verdict != passOn || d != internal {
			t.Fatalf("verdict %#x, to %v", verdict, d)
		}
		if _, out := r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, outward, false, seq, 16)); source(out) != to {
			t.Errorf("a probe to %v is answered from %v", to, source(out))
		}
	}
	if n := r.counter("tx_probe_reply"); n != 39 {
		t.Errorf("%d answers to probes, want 39", n)
	}
	// On a link that is down by now nothing is answered, least of all by another one.
	p, err := sbr.ParsePolicy([]byte(policyText(50, 50)))
	if err != nil {
		t.Fatal(err)
	}
	down := []sbr.Site{{L64: siteA, Link: loopback}, {L64: siteB, Link: loopback, Up: true}}
	if err := r.Install(sbr.NewTable(p, down), 0, hops); err != nil {
		t.Fatal(err)
	}
	if verdict, _ := r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, outward, false, 3, 16)); verdict != shot {
		t.Errorf("the answer to a probe of a link that is down: verdict %#x", verdict)
	}
	r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, outward, false, 3, 56))
	if r.counter("tx_probe_reply") != 39 {
		t.Error("an echo reply of another size counts as one to a probe")
	}
}

// What the programs note of announced locators does not outlast a change, of a flow or of the
// table.
func TestAnnouncedAnew(t *testing.T) {
	r := newRig(t)
	datagram, both := transport(t, ip6.UDP, 1, 2), []roam.L64{siteA, siteB}
	used := func() map[roam.L64]bool {
		sent := map[roam.L64]bool{}
		for range 8 {
			_, out := r.run(r.objs.SbrInsideIngress, datagram)
			sent[source(out)] = true
		}
		return sent
	}
	r.confirm(both...)
	if n := len(used()); n != 2 {
		t.Fatalf("packets leave from %d locators", n)
	}
	if err := r.Announce(theKey, r.table, both[1:]); err != nil {
		t.Fatal(err)
	}
	if sent := used(); sent[siteA] || !sent[siteB] {
		t.Errorf("packets leave from %v, the outside node knows %v", sent, siteB)
	}
	if err := r.Announce(theKey, r.table, both); err != nil {
		t.Fatal(err)
	}
	if n := len(used()); n != 2 {
		t.Errorf("packets leave from %d locators", n)
	}
	r.install(50, 50)
	if sent := used(); len(sent) != 1 {
		t.Errorf("packets leave from %v, and nothing is announced", sent)
	}
}

// The sum of a device over a datagram without checksum stays true.
func TestDeviceSumWithoutChecksum(t *testing.T) {
	r := newRig(t)
	r.flags = 1 << 2 // BPF_F_TEST_SKB_CHECKSUM_COMPLETE
	_, err := r.objs.SbrUplinkIngress.Run(&ebpf.RunOptions{Data: make([]byte, 64), Flags: r.flags})
	testutil.NeedKernel(t, "test runs with CHECKSUM_COMPLETE", err == nil)
	datagram := transport(t, ip6.UDP, 1, 2)
	datagram[40+6], datagram[40+7] = 0, 0
	if _, out := r.run(r.objs.SbrInsideIngress, datagram); out[40+6] != 0 || out[40+7] != 0 {
		t.Errorf("it has one: %x", out)
	}
}
