package dataplane

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/wire/ip6"
)

// Refusal is a packet that was dropped because its sender may have been a forger,
// as a security log wants it (RFC 6741 §11.1).
type Refusal struct {
	At               time.Time
	Link             roam.LinkID // where it came in
	Remote, Local    roam.ILV    // its source and destination, as on the wire
	Proto            uint8       // upper layer; 0: none that could be read
	Type             uint8       // of ICMPv6 messages
	SrcPort, DstPort uint16      // of TCP and UDP; 0 where the packet has none
}

// LastRefused returns one of the packets that were lately dropped for the reason
// that a counter of that name counts: the first one of a second. False if there
// was none, or if the counter is not one of suspicious packets.
func (p *Plane) LastRefused(counter string) (Refusal, bool, error) {
	i := slices.IndexFunc(counterTable[:], func(t struct{ name, meaning string }) bool { return t.name == counter })
	if i < 0 {
		return Refusal{}, false, nil
	}
	var perCPU []bpfRefusal
	if err := p.objs.Refusals.Lookup(uint32(i), &perCPU); err != nil {
		return Refusal{}, false, fmt.Errorf("read what was refused by %s: %w", counter, err)
	}
	last := slices.MaxFunc(perCPU, func(a, b bpfRefusal) int { return cmp.Compare(a.At, b.At) })
	return last.refusal(), last.At != 0, nil
}

func (r bpfRefusal) refusal() Refusal {
	out := Refusal{
		At: instant(r.At), Link: roam.LinkID(r.Ifindex), Remote: r.Remote.ilv(), Local: r.Local.ilv(), Proto: r.Proto,
		SrcPort: binary.BigEndian.Uint16(r.Ports[:]), DstPort: binary.BigEndian.Uint16(r.Ports[2:]),
	}
	if r.Proto == ip6.ICMPv6 {
		out.Type = r.Type
	}
	return out
}
