package border

import (
	"encoding/binary"
	"errors"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/sbr"
)

// EventKind is what the programs hand over.
type EventKind uint8

// The kinds, as enum handover_kind numbers them.
const (
	FlowChanged = EventKind(bpfHandoverKindHAND_FLOW)    // both nodes have sent their nonces, or the inside one has moved
	FromInside  = EventKind(bpfHandoverKindHAND_INSIDE)  // a Locator Update or an ICMPv6 error
	FromOutside = EventKind(bpfHandoverKindHAND_OUTSIDE) // likewise
	OwnError    = EventKind(bpfHandoverKindHAND_OWN)     // an error of this host, with an internal locator
	TooBig      = EventKind(bpfHandoverKindHAND_TOO_BIG) // a packet from inside that does not fit into its link
)

// Event is one thing that the programs hand over.
type Event struct {
	Kind   EventKind
	Link   roam.LinkID
	Flow   sbr.FlowKey
	MTU    uint32 // of TooBig
	Came   int    // of FromInside: index of the site locator to which the flow's latest packet came; -1: unknown
	Packet []byte // from the IPv6 header on; not of FlowChanged
}

// The layout of struct handover.
const (
	handedKind    = 0
	handedLink    = 4
	handedLen     = 8
	handedDetail  = 12
	handedInside  = 16
	handedOutside = 24
	handedData    = 32
)

// Follow returns what the programs hand over, until the plane is closed. It is called once.
func (p *Plane) Follow() (<-chan Event, error) {
	events, closing := make(chan Event, 64), make(chan struct{})
	p.closing = closing
	var err error
	p.ring, err = dataplane.ReadRing(p.objs.Handovers, func(raw []byte) bool {
		if e, ok := parseEvent(raw); ok {
			select {
			case events <- e: // while the loop is behind, the ring fills, and programs count what it has no space for
			case <-closing:
				return false
			}
		}
		return true
	}, func() { close(events) })
	return events, err
}

// parseEvent reads a record of the ring.
func parseEvent(raw []byte) (e Event, ok bool) {
	if len(raw) < handedData {
		return e, false
	}
	n := binary.NativeEndian.Uint32(raw[handedLen:])
	if uint64(n) > uint64(len(raw)-handedData) {
		return e, false
	}
	e = Event{
		Kind: EventKind(binary.NativeEndian.Uint32(raw[handedKind:])),
		Link: roam.LinkID(binary.NativeEndian.Uint32(raw[handedLink:])),
		Came: -1,
		Flow: sbr.FlowKey{
			Inside:  roam.NID(binary.BigEndian.Uint64(raw[handedInside:])),
			Outside: roam.NID(binary.BigEndian.Uint64(raw[handedOutside:])),
		},
		Packet: append([]byte(nil), raw[handedData:handedData+n]...),
	}
	switch detail := binary.NativeEndian.Uint32(raw[handedDetail:]); e.Kind {
	case TooBig:
		e.MTU = detail
	case FromInside:
		e.Came = int(detail) - 1
	}
	return e, true
}

func half(l roam.L64) (h bpfHalf) {
	binary.BigEndian.PutUint64(h.B[:], uint64(l))
	return h
}

func halfNID(n roam.NID) bpfHalf { return half(roam.L64(n)) }

func locator(h bpfHalf) roam.L64 { return roam.L64(binary.BigEndian.Uint64(h.B[:])) }

func keyOf(k sbr.FlowKey) bpfFlowKey {
	return bpfFlowKey{Inside: halfNID(k.Inside), Outside: halfNID(k.Outside)}
}

func flowKey(k bpfFlowKey) sbr.FlowKey {
	return sbr.FlowKey{Inside: roam.NID(locator(k.Inside)), Outside: roam.NID(locator(k.Outside))}
}

// absent makes nothing of the removal of what was not there.
func absent(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// removeOthers removes all entries of a map but those.
func removeOthers[K comparable, V any](m *ebpf.Map, wanted map[K]V) error {
	var key K
	var value V
	var gone []K
	rows := m.Iterate()
	for rows.Next(&key, &value) {
		if _, ok := wanted[key]; !ok {
			gone = append(gone, key)
		}
	}
	errs := []error{rows.Err()}
	for _, k := range gone {
		errs = append(errs, absent(m.Delete(k)))
	}
	return errors.Join(errs...)
}
