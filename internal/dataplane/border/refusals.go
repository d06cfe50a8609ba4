package border

import (
	"encoding/binary"
	"fmt"
	"strings"

	"roam"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

// Refused is how many packets the programs have dropped for one reason, and one of the latest.
type Refused struct {
	dataplane.Counter
	Last dataplane.Refusal // the first one of a second on one processor; At is zero where none is kept
}

// Refused lists the reasons for which the programs have dropped packets.
func (p *Plane) Refused() (list []Refused, err error) {
	counters, err := p.Counters()
	if err != nil {
		return nil, err
	}
	for i, c := range counters {
		if c.Value == 0 || !strings.HasPrefix(c.Name, "drop_") {
			continue
		}
		last, err := dataplane.Latest(p.objs.Refusals, uint32(i), func(r bpfRefusal) uint64 { return r.At })
		if err != nil {
			return nil, fmt.Errorf("read what was refused by %s: %w", c.Name, err)
		}
		list = append(list, Refused{c, last.refusal()})
	}
	return list, nil
}

func (r bpfRefusal) refusal() dataplane.Refusal {
	out := dataplane.Refusal{
		At: dataplane.Instant(r.At), Link: roam.LinkID(r.Ifindex), Remote: address(r.Remote), Local: address(r.Local),
		Proto: r.Proto, SrcPort: binary.BigEndian.Uint16(r.Ports[:]), DstPort: binary.BigEndian.Uint16(r.Ports[2:]),
	}
	if r.Proto == ip6.ICMPv6 {
		out.Type = r.Type
	}
	return out
}

func address(a bpfAddr) roam.ILV { return roam.ILV{L64: locator(a.L64), NID: roam.NID(locator(a.Nid))} }
