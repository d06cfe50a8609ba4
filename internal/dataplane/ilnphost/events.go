package ilnphost

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
)

// EventKind is what the data plane reports.
type EventKind uint32

// The kinds of events; types.h says what each one means.
const (
	Miss        = EventKind(bpfEventKindEV_MISS)
	PendingPeer = EventKind(bpfEventKindEV_PENDING)
	OtherNonce  = EventKind(bpfEventKindEV_OTHER_NONCE)
	ErrorIn     = EventKind(bpfEventKindEV_ERROR_IN)
	ErrorOut    = EventKind(bpfEventKindEV_ERROR_OUT)
	Control     = EventKind(bpfEventKindEV_CONTROL)
	NonceSeen   = EventKind(bpfEventKindEV_NONCE)
	LocatorSeen = EventKind(bpfEventKindEV_LOCATOR)
	Silence     = EventKind(bpfEventKindEV_SILENCE)
	Life        = EventKind(bpfEventKindEV_LIFE)
	RuleSeen    = EventKind(bpfEventKindEV_RULE)
	First       = EventKind(bpfEventKindEV_FIRST)
	Retried     = EventKind(bpfEventKindEV_RETRIED)
	PerFlow     = EventKind(bpfEventKindEV_PER_FLOW)
	Stall       = EventKind(bpfEventKindEV_STALL)
	Queue       = EventKind(bpfEventKindEV_QUEUE)
	More        = EventKind(bpfEventKindEV_MORE)
	Acked       = EventKind(bpfEventKindEV_ACKED)
)

// Event is one report of the data plane.
type Event struct {
	Kind         EventKind
	At           time.Time   // when the programs saw it
	Link         roam.LinkID // where the packet was seen
	Key          ilnp.SessionKey
	Remote       roam.ILV // as on the wire; zero for packets on their way out
	Local        roam.ILV
	Nonce        ilnp.Nonce
	OwnNonce     ilnp.Nonce // what a pending peer is answered with
	Found        ilnp.FoundRule
	Encapsulated bool   // the nonce came in UDP
	Bytes        int    // of the packet seen, from its IPv6 header; More: in all
	Packets      int    // More: how many; PendingPeer: that have gone to the pending peer; Miss: 1 if it waits for its turn (Turn.Held)
	Packet       []byte // whole, from its IPv6 header, where the kind has one
}

// read starts a reader for each ring.
func (p *Plane) read() error {
	for _, ring := range []struct {
		from *ebpf.Map
		to   chan Event
	}{{p.objs.Urgent, p.urgent}, {p.objs.Requests, p.requests}, {p.objs.Unvalidated, p.unvalidated}} {
		r, err := dataplane.ReadRing(ring.from, p.handOn(ring.to), func() { close(ring.to) })
		if err != nil {
			return err
		}
		p.rings = append(p.rings, r)
	}
	return nil
}

// handOn returns what a ring's reader does with a record; false: the plane is closed.
func (p *Plane) handOn(to chan<- Event) func(raw []byte) bool {
	return func(raw []byte) bool {
		ev, ok := decodeEvent(raw)
		if !ok {
			return true
		}
		select {
		case to <- ev:
			return true
		case <-p.closing:
			return false
		}
	}
}

// IsRead reports whether no event is on its way to one of the channels of events.
func (p *Plane) IsRead(c <-chan Event) bool {
	ring := 0
	switch c {
	case p.requests:
		ring = 1
	case p.unvalidated:
		ring = 2
	}
	return p.rings[ring].Empty() && len(c) == 0
}

func decodeEvent(raw []byte) (Event, bool) {
	var e bpfEvent
	head := int(unsafe.Sizeof(e))
	if len(raw) < head {
		return Event{}, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&e)), head), raw) // byte by byte what C wrote
	ev := Event{
		Kind:         EventKind(e.Kind),
		At:           dataplane.Instant(e.At),
		Link:         roam.LinkID(e.Ifindex),
		Key:          e.Key.key(),
		Remote:       e.Remote.ilv(),
		Local:        e.Local.ilv(),
		Nonce:        e.Nonce.nonce(),
		OwnNonce:     e.OwnNonce.nonce(),
		Found:        ilnp.FoundRule(e.Rule), // the same values
		Encapsulated: e.Encap != 0,
		Bytes:        int(e.Bytes),
		Packets:      int(e.Packets),
	}
	if e.Len > 0 && head+int(e.Len) <= len(raw) {
		ev.Packet = bytes.Clone(raw[head : head+int(e.Len)])
	}
	return ev, true
}

func (h bpfHalf) uint64() uint64 { return binary.BigEndian.Uint64(h.B[:]) }

func half(v uint64) (h bpfHalf) {
	binary.BigEndian.PutUint64(h.B[:], v)
	return h
}

func (k bpfSessionKey) key() ilnp.SessionKey {
	return ilnp.SessionKey{Local: roam.NID(k.Local.uint64()), Remote: roam.NID(k.Remote.uint64())}
}

func sessionKey(k ilnp.SessionKey) bpfSessionKey {
	return bpfSessionKey{Local: half(uint64(k.Local)), Remote: half(uint64(k.Remote))}
}

func (a bpfAddr) ilv() roam.ILV {
	return roam.ILV{L64: roam.L64(a.L64.uint64()), NID: roam.NID(a.Nid.uint64())}
}

func (n bpfNonce) nonce() ilnp.Nonce { return ilnp.Nonce{Len: n.Len, Bytes: n.B} }

func nonce(n ilnp.Nonce) bpfNonce { return bpfNonce{Len: n.Len, B: n.Bytes} }

// nextHop returns the address as the kernel wants it.
func nextHop(a netip.Addr) [16]byte {
	if !a.Is6() {
		return [16]byte{}
	}
	return a.As16()
}
