package border

import (
	"fmt"
	"time"

	"roam"
	"roam/internal/control"
	"roam/internal/dataplane"
	"roam/sbr"
	"roam/wire/ip6"
)

// unsent is why a packet of the core's did not leave, beside its refusals.
const unsent = sbr.Refusals

// reasons name the refusals of the core, and that one.
var reasons = [unsent + 1]string{
	sbr.Malformed:       "unreadable message",
	sbr.WrongNonce:      "not the nonce of its flow",
	sbr.ForeignLocators: "update from outside that lists locators of this site or none that can be used",
	sbr.UnknownLocators: "no locator that the policy knows",
	sbr.NoLink:          "no link is up",
	sbr.UnknownAck:      "acknowledges nothing that passed",
	sbr.SealedInternal:  "update with a MAC that lists internal locators: set uplinks.border at that host",
	sbr.Incomplete:      "fragments that did not all come, or for which there was no space",
	sbr.NoFlow:          "error about a packet of no flow: border.fallback drops these",
	sbr.OtherNonces:     "not the nonce of its flow, and more such updates than pass",
	unsent:              "no route to its destination, or the link's queue was full",
}

// refused are the messages that the core refused for one reason, and one of the latest.
type refused struct {
	messages uint64
	last     dataplane.Refusal
}

// lookEach is the time between two messages that are kept, as between two packets of the programs
// (REFUSAL_EACH): a storm of them costs little.
const lookEach = time.Second

func (r *refused) add(now time.Time, p sbr.Packet) {
	if r.messages++; r.messages > 1 && now.Sub(r.last.At) < lookEach {
		return
	}
	r.last = dataplane.Refusal{At: now, Link: p.Link}
	c, err := ip6.Walk(p.Bytes)
	if err != nil {
		return
	}
	r.last.Remote, r.last.Local, r.last.Proto = roam.ILVFromAddr(c.Header.Src), roam.ILVFromAddr(c.Header.Dst), c.Upper
	if c.Upper == ip6.ICMPv6 && !c.Later() && c.UpperOffset < c.End {
		r.last.Type = p.Bytes[c.UpperOffset]
	}
}

// reportRefused lists what did not cross the border.
func (r *Role) reportRefused(out *control.BorderReport) error {
	out.Refused, out.Dropped = []control.BorderRefusals{}, []control.BorderDrops{}
	for why, n := range r.refused {
		if n.messages > 0 {
			out.Refused = append(out.Refused,
				control.BorderRefusals{Reason: reasons[why], Messages: n.messages, Last: r.packet(n.last)})
		}
	}
	dropped, err := r.plane.Refused()
	for _, d := range dropped {
		out.Dropped = append(out.Dropped,
			control.BorderDrops{Counter: "border_" + d.Name, Reason: d.Meaning, Packets: d.Value, Last: r.packet(d.Last)})
	}
	return err
}

// packet describes a packet that did not cross the border.
func (r *Role) packet(p dataplane.Refusal) (out control.BorderPacket) {
	if p.At.IsZero() {
		return out
	}
	out = control.BorderPacket{
		Time: p.At, Link: fmt.Sprint(p.Link), Protocol: p.Proto, SourcePort: p.SrcPort, DestinationPort: p.DstPort,
	}
	for _, u := range r.links {
		if u.Link == p.Link {
			out.Link = u.Name
		}
	}
	if p.Remote != (roam.ILV{}) {
		out.Source, out.Destination = p.Remote.Addr(), p.Local.Addr()
	}
	if p.Proto == ip6.ICMPv6 {
		out.ICMPType = &p.Type
	}
	return out
}
