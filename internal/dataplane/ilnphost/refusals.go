package ilnphost

import (
	"encoding/binary"
	"fmt"
	"slices"

	"roam"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

// Refusal is a packet that was dropped because its sender may have been a forger.
type Refusal = dataplane.Refusal

// LastRefused returns one of the packets that were lately dropped for the reason
// that a counter of that name counts: the first one of a second. False if there
// was none, or if the counter is not one of suspicious packets.
func (p *Plane) LastRefused(counter string) (Refusal, bool, error) {
	i := slices.IndexFunc(counterTable[:], func(l dataplane.Label) bool { return l.Name == counter })
	if i < 0 {
		return Refusal{}, false, nil
	}
	last, err := dataplane.Latest(p.objs.Refusals, uint32(i), func(r bpfRefusal) uint64 { return r.At })
	if err != nil {
		return Refusal{}, false, fmt.Errorf("read what was refused by %s: %w", counter, err)
	}
	return last.refusal(), last.At != 0, nil
}

func (r bpfRefusal) refusal() Refusal {
	out := Refusal{
		At: dataplane.Instant(r.At), Link: roam.LinkID(r.Ifindex), Remote: r.Remote.ilv(), Local: r.Local.ilv(), Proto: r.Proto,
		SrcPort: binary.BigEndian.Uint16(r.Ports[:]), DstPort: binary.BigEndian.Uint16(r.Ports[2:]),
	}
	if r.Proto == ip6.ICMPv6 {
		out.Type = r.Type
	}
	return out
}
