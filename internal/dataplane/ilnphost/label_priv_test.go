package ilnphost

import (
	"encoding/binary"
	"slices"
	"testing"

	"roam/flowrule"
	"roam/ilnp"
	"roam/wire/ip6"
)

// Packets of sessions bear the highest bit of the flow label where the host is told to mark them, on the
// full path and on the compact one, beside the rest of their label and their traffic class. Those of plain
// IPv6 do not, and a rule's label stays that of its flow.
func TestLabelBit(t *testing.T) {
	const version, label, bit = 6<<28 | 0xfb<<20, 0x7, 0x80000
	sent := func(r *rig, proto uint8, body []byte) uint32 {
		b := toPeer(proto, body)
		binary.BigEndian.PutUint32(b, version|label)
		v, out := r.egress(b)
		if v != redirect {
			t.Fatalf("verdict %d", v)
		}
		return binary.BigEndian.Uint32(out)
	}
	var ruled [32]uint32
	for _, on := range []bool{false, true} {
		marked := uint32(version | label)
		if on {
			marked |= bit
		}
		for name, c := range map[string]struct {
			prepare func(r *rig)
			want    uint32
		}{
			"session": {func(r *rig) { r.uplink(here); r.upsert(entryFor(there)) }, marked},
			"being set up": {func(r *rig) {
				r.uplink(here)
				p := entryFor(there)
				p.State = ilnp.Initiated
				r.upsert(p)
			}, marked},
			"settled": {func(r *rig) { r.uplink(here); p := entryFor(there); r.upsert(p); r.settle(p.Key) }, marked},
			"plain": {func(r *rig) {
				r.uplink(here)
				p := entryFor(there)
				p.State = ilnp.Plain
				r.upsert(p)
				r.settle(p.Key)
			}, version | label},
		} {
			r := newRig(t)
			if on {
				r.reload(func(p *Plane) { p.opts.LabelBit = true })
			}
			c.prepare(r)
			for turn, body := range [][]byte{udp(9), udp(99), tcp(flagACK, 9)} {
				proto := uint8(ip6.UDP)
				if turn == 2 {
					proto = ip6.TCP
				}
				if got := sent(r, proto, body); got != c.want {
					t.Errorf("%s, marks %v, packet %d: %#x, want %#x", name, on, turn, got, c.want)
				}
			}
		}
		r := newRig(t)
		r.reload(func(p *Plane) { p.opts.LabelBit = on })
		r.change(func(s *HostSettings) { s.AcceptAny = true })
		r.ingress(knock(at(there, theirs), theirNonce))
		if got := sent(r, ip6.TCP, tcp(flagSYN|flagACK, 0)); got != marked {
			t.Errorf("to a pending peer, marks %v: %#x, want %#x", on, got, marked)
		}
		r = newRig(t)
		r.reload(func(p *Plane) { p.opts.LabelBit = on })
		ruledSession(r, flowRules(by("b", flowrule.Match{})), there)
		labels := [32]uint32{}
		for i := range labels {
			v, out := r.egress(datagramOn(1000+1009*uint16(i), 2000, 10))
			if v != redirect {
				t.Fatalf("with a rule: verdict %d", v)
			}
			labels[i] = labelOf(out)
		}
		if !slices.ContainsFunc(labels[:], func(l uint32) bool { return l&bit == 0 }) {
			t.Error("all flows with a rule have the bit")
		}
		if !on {
			ruled = labels
		} else if labels != ruled {
			t.Errorf("labels of flows with a rule are %#x, and without marks %#x", labels, ruled)
		}
	}
}
