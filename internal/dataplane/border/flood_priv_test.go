package border

import (
	"encoding/binary"
	"os"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// floodPackets is how many packets of each kind a flood has; ROAM_FLOOD asks for another number.
func floodPackets(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ROAM_FLOOD")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= maxFlows {
		t.Fatalf("ROAM_FLOOD=%q; want a number of packets, more than %d", text, maxFlows)
	}
	return n
}

// entries returns how many entries a map has.
func entries[K, V any](t *testing.T, m *ebpf.Map) (n int) {
	t.Helper()
	var k K
	var v V
	rows := m.Iterate()
	for rows.Next(&k, &v) {
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// flooder makes packets of nodes and nonces that no other packet of it has.
type flooder struct {
	inside, outside []byte // an echo each, whose nodes and nonce are replaced
}

func newFlooder(r *rig) flooder {
	return flooder{
		inside:  r.echo(mine, theirs, outward, true, 1, 16),
		outside: r.echo(theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, true, 1, 16),
	}
}

// nonceAt is where the nonce of an echo begins: behind the IPv6 header, the head of the destination
// options and that of the option.
const nonceAt = 40 + 2 + 2

// node is the n-th Node Identifier of a flood.
func node(n int) roam.NID { return 0x2002_0000_0000_0000 + roam.NID(n) }

// fill writes nodes and a nonce into an echo. The checksum stays as it was: the programs adjust it.
func fill(b []byte, src, dst roam.NID, nonce uint32) []byte {
	binary.BigEndian.PutUint64(b[16:], uint64(src))
	binary.BigEndian.PutUint64(b[32:], uint64(dst))
	binary.BigEndian.PutUint32(b[nonceAt:], nonce)
	return b
}

// live is a flow that goes on while a flood passes.
type live struct {
	*rig
	data, reply  []byte
	was          FlowEntry
	passed, lost int
}

// newLive makes a flow whose outside node knows both site locators.
func newLive(r *rig) *live {
	r.Helper()
	r.confirm(siteA, siteB)
	l := &live{rig: r, data: transport(r.T, ip6.UDP, 1, 2)}
	l.reply = moved(r.T, l.data, theirs, roam.ILV{L64: siteB, NID: insideNID})
	l.was, _ = r.Flow(theKey, r.table)
	return l
}

// pass has a packet of the flow pass in each direction.
func (l *live) pass() {
	for _, p := range []struct {
		prog    *ebpf.Program
		packet  []byte
		verdict uint32
	}{{l.objs.SbrInsideIngress, l.data, redirect}, {l.objs.SbrUplinkIngress, l.reply, passOn}} {
		l.passed++
		if verdict, out := l.run(p.prog, p.packet); verdict != p.verdict || string(out[40:42]) != string(p.packet[40:42]) {
			l.lost++
		}
	}
}

// wantUntouched wants nothing of the flow lost, its packets divided as before, and its entry as it was.
func (l *live) wantUntouched(after string) {
	l.Helper()
	f, ok := l.Flow(theKey, l.table)
	if l.lost > 0 || l.passed == 0 {
		l.Errorf("%s: %d of %d packets of the live flow lost", after, l.lost, l.passed)
	}
	f.Seen, f.Sent = l.was.Seen, l.was.Sent
	if !ok || f.FlowSeen != l.was.FlowSeen || len(f.Announced) != 2 {
		l.Errorf("%s: the live flow is %+v, %v, was %+v", after, f, ok, l.was)
	}
}

// A flood of nonces from either side, of nodes that nobody answers or in the name of a live flow's,
// makes no flow: it passes through a table of bounded size. A live flow loses nothing, a new flow is
// confirmed behind the flood, and the counters have each packet.
func TestNonceFlood(t *testing.T) {
	r := newRig(t)
	l, flood, n := newLive(r), newFlooder(r), floodPackets(t)
	for i, c := range []struct {
		name, counter string
		send          func(i int)
		newFlows      bool // no flow is known of these nodes
	}{
		{"from inside", "tx_fallback", func(i int) {
			r.run(r.objs.SbrInsideIngress, fill(flood.inside, node(i), outsideNID, uint32(i)))
		}, true},
		{"from outside", "rx_fallback", func(i int) {
			r.run(r.objs.SbrUplinkIngress, fill(flood.outside, node(i), insideNID, uint32(i)))
		}, true},
		{"from outside in the name of a live node", "rx_flow", func(i int) {
			r.run(r.objs.SbrUplinkIngress, fill(flood.outside, outsideNID, insideNID, 0x8000_0000+uint32(i)))
		}, false},
	} {
		before := r.counts()
		passed := l.passed
		for k := range n {
			if c.send(k); k%64 == 0 {
				l.pass()
			}
		}
		l.wantUntouched(c.name)
		after := r.counts()
		want := uint64(n)
		if !c.newFlows {
			want += uint64(l.passed-passed) / 2 // the live flow's own
		}
		if got := after[c.counter] - before[c.counter]; got != want {
			t.Errorf("%s: %s counts %d packets, want %d", c.name, c.counter, got, want)
		}
		if after["flow_confirmed"] != before["flow_confirmed"] ||
			after["flow_table_full"]+after["drop_ring_full"] != 0 {
			t.Errorf("%s: %d flows confirmed, %d without space, %d events lost", c.name,
				after["flow_confirmed"]-before["flow_confirmed"], after["flow_table_full"], after["drop_ring_full"])
		}
		if n := r.known(); n != 1+i {
			t.Errorf("%s: %d flows, want %d", c.name, n, 1+i)
		}
		most := int(r.objs.PendingFlows.MaxEntries())
		if got := entries[bpfFlowKey, bpfWholeFlow](t, r.objs.PendingFlows); got > most || c.newFlows && got < most/2 {
			t.Errorf("%s: %d pending flows, at most %d", c.name, got, most)
		}
		// Another flow is confirmed.
		r.run(r.objs.SbrInsideIngress, fill(flood.inside, insideNID, node(-i-1), 1))
		r.run(r.objs.SbrUplinkIngress, fill(flood.outside, node(-i-1), insideNID, 2))
		if _, ok := r.Flow(sbr.FlowKey{Inside: insideNID, Outside: node(-i - 1)}, r.table); !ok {
			t.Errorf("%s: no flow after a nonce of each node", c.name)
		}
	}
}

// Nodes on both sides that answer each other fill the table of flows, and no more: a live flow stays
// and loses nothing, packets of further flows pass, and a counter has them.
func TestFlowFlood(t *testing.T) {
	r := newRig(t)
	l, flood, n := newLive(r), newFlooder(r), floodPackets(t)
	const most = maxFlows
	for i := range n {
		in, _ := r.run(r.objs.SbrInsideIngress, fill(flood.inside, node(i), outsideNID, uint32(i)))
		out, _ := r.run(r.objs.SbrUplinkIngress, fill(flood.outside, outsideNID, node(i), uint32(i)))
		if in != redirect || out != passOn {
			t.Fatalf("flow %d: verdicts %#x and %#x", i, in, out)
		}
		if i%64 == 0 {
			l.pass()
		}
	}
	l.wantUntouched("a flood of flows")
	counts := r.counts()
	if got := r.known(); got != most || counts["flow_confirmed"] != uint64(most) {
		t.Errorf("%d flows, %d confirmed, want %d of each", got, counts["flow_confirmed"], most)
	}
	if full := counts["flow_table_full"]; full != uint64(n+1-most) {
		t.Errorf("flow_table_full counts %d, want %d", full, n+1-most)
	}
	// One that goes makes space.
	if err := r.Forget(sbr.FlowKey{Inside: node(0), Outside: outsideNID}); err != nil {
		t.Fatal(err)
	}
	r.run(r.objs.SbrInsideIngress, fill(flood.inside, node(-1), outsideNID, 1))
	r.run(r.objs.SbrUplinkIngress, fill(flood.outside, outsideNID, node(-1), 2))
	if _, ok := r.Flow(sbr.FlowKey{Inside: node(-1), Outside: outsideNID}, r.table); !ok {
		t.Error("a flow has gone, and another one finds no space")
	}
}

// A node elsewhere that claims the NID of the outside node, before the first exchange or in the middle
// of it, has neither its nonce nor its locator in the flow.
func TestNonceFromElsewhere(t *testing.T) {
	site, elsewhere := roam.ILV{L64: siteA, NID: insideNID}, roam.ILV{L64: 0x2001_0db8_0bad_0000, NID: outsideNID}
	forged := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	claim := func(r *rig) { r.run(r.objs.SbrUplinkIngress, r.echo(elsewhere, site, forged, true, 1, 16)) }
	request := func(r *rig) { r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, outward, true, 1, 16)) }
	answer := func(r *rig) { r.run(r.objs.SbrUplinkIngress, r.echo(theirs, site, inward, false, 1, 16)) }
	for name, events := range map[string][]func(*rig){
		"before":            {claim, request, answer},
		"between":           {request, claim, answer},
		"all the time":      {claim, request, claim, answer, claim},
		"an inside answer":  {answer, claim, request, answer},
		"and from outside":  {claim, answer, claim, request, claim, answer},
		"and nothing comes": {claim, request, claim, request},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, e := range events {
				e(r)
			}
			f, ok := r.Flow(theKey, r.table)
			if ok != (name != "and nothing comes") || ok && (f.Inward != inward || f.Outward != outward || f.Remote != remote) {
				t.Errorf("%s: flow %v, to %v, the nonce of the outside node %v", name, ok, f.Remote, f.Inward == inward)
			}
		})
	}
}

// A node whose nonce has got into a flow, by a forged source, does not draw the flow to its locator:
// the border's updates bear the inside node's nonce.
func TestRemoteIsInsidesChoice(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA, siteB)
	elsewhere := roam.ILV{L64: 0x2001_0db8_0bad_0000, NID: outsideNID}
	r.run(r.objs.SbrUplinkIngress, r.echo(elsewhere, roam.ILV{L64: siteA, NID: insideNID}, inward, true, 1, 16))
	if f, _ := r.Flow(theKey, r.table); f.Remote != remote {
		t.Errorf("drawn to %v", f.Remote)
	}
	r.run(r.objs.SbrInsideIngress, r.echo(mine, elsewhere, outward, false, 1, 16))
	if f, _ := r.Flow(theKey, r.table); f.Remote != elsewhere.L64 {
		t.Errorf("the inside node sends to %v, the flow is to %v", elsewhere.L64, f.Remote)
	}
}

// counts returns all counters.
func (r *rig) counts() map[string]uint64 {
	r.Helper()
	list, err := r.Counters()
	if err != nil {
		r.Fatal(err)
	}
	out := make(map[string]uint64)
	for _, c := range list {
		out[c.Name] = c.Value
	}
	return out
}
