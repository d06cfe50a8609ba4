package ilnphost

import (
	"encoding/binary"
	"errors"
	"fmt"
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
		t.Run(fmt.Sprint("marks ", on), func(t *testing.T) {
			r := newRig(t)
			r.reload(func(p *Plane) { p.opts.LabelBit = on })
			for name, c := range map[string]struct {
				state   ilnp.SessionState
				settled bool
				want    uint32
			}{
				"session":      {ilnp.Established, false, marked},
				"being set up": {ilnp.Initiated, false, marked},
				"settled":      {ilnp.Established, true, marked},
				"plain":        {ilnp.Plain, true, version | label},
			} {
				r.uplink(here)
				p := entryFor(there)
				p.State = c.state
				r.upsert(p)
				if c.settled {
					r.settle(p.Key)
				}
				for turn, body := range [][]byte{udp(9), udp(99), tcp(flagACK, 9)} {
					proto := uint8(ip6.UDP)
					if turn == 2 {
						proto = ip6.TCP
					}
					if got := sent(r, proto, body); got != c.want {
						t.Errorf("%s, packet %d: %#x, want %#x", name, turn, got, c.want)
					}
				}
				r.must(r.Delete(p.Key))
			}
			p := ruledSession(r, flowRules(by("b", flowrule.Match{})), there)
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
			r.must(errors.Join(r.Delete(p.Key), r.SetUplinks(nil)))
			r.change(func(s *HostSettings) { s.AcceptAny = true })
			r.ingress(knock(at(there, theirs), theirNonce))
			if got := sent(r, ip6.TCP, tcp(flagSYN|flagACK, 0)); got != marked {
				t.Errorf("to a pending peer: %#x, want %#x", got, marked)
			}
		})
	}
}
