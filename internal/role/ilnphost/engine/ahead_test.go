package engine

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
)

// asked is a data plane whose ring of requests is read by a thread that has to wait for a processor, and that programs
// ask of while it writes an entry.
type asked struct {
	table
	t        *testing.T
	o        *outside
	met      int // of the packets, so many that were handed over beside the entry
	requests chan dataplane.Event
	left     []dataplane.Event // in the ring
	seen     [][]byte          // what had been sent before local programs could send past the daemon
}

func (p *asked) Requests() <-chan dataplane.Event { return p.requests }

func (p *asked) IsRead(<-chan dataplane.Event) bool {
	if len(p.left) == 0 {
		return len(p.requests) == 0
	}
	p.requests <- p.left[0]
	p.left = p.left[1:]
	return false
}

func (p *asked) Upsert(entry ilnp.Entry, turn dataplane.Turn) error {
	if _, exists := p.entries[entry.Key]; !exists && !entry.Preinstalled {
		if n := turn.Held(); n != p.met {
			p.t.Errorf("%d packets met, want %d", n, p.met)
		}
		turn.Held()
		p.seen = slices.Clone(p.o.resent)
	}
	return p.table.Upsert(entry, turn)
}

// numbersOf returns the sequence numbers of echo requests.
func numbersOf(packets [][]byte) (list []uint16) {
	for _, b := range packets {
		list = append(list, binary.BigEndian.Uint16(b[len(b)-2:]))
	}
	return list
}

// TestNothingOvertakesTheFirst: what local programs have sent to a session without an entry leaves before they can send
// past the daemon, also what is on its way to it, in order, and not once more when it is released. What others send
// waits.
func TestNothingOvertakesTheFirst(t *testing.T) {
	p := &asked{table: table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}, requests: make(chan dataplane.Event, 16)}
	e, o, _ := attached(t, &p.table, nil)
	p.t, p.o, p.met, e.cfg.Plane = t, o, 2, p
	number := func(seq uint16) dataplane.Event {
		b := built(t)(ilnpwire.BuildEcho(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{}, true, 1, seq, nil))
		return dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: b}
	}
	another := number(9)
	another.Key.Remote++
	broken := number(8)
	broken.Packet = broken.Packet[:41]
	p.requests <- number(2)
	third := number(3)
	third.Packets, broken.Packets = 1, 1
	p.left = []dataplane.Event{another, third, broken, number(4)}
	e.later = []dataplane.Event{number(1)}
	e.handlePlane(time.Now(), number(0))
	e.drain(time.Now())
	if got := numbersOf(p.seen); !slices.Equal(got, []uint16{0, 1, 2, 3, 4}) {
		t.Errorf("by then %v had left", got)
	}
	if len(o.resent) != 5 {
		t.Errorf("%v released in all", numbersOf(o.resent))
	}
	if len(e.later) != 1 || e.later[0].Key != another.Key {
		t.Errorf("%v is left for later", e.later)
	}
	if want := "first packet without a sound transport header"; e.refused[want] != 1 {
		t.Errorf("refused %v", e.refused)
	}
	e.release(time.Now(), sessionKey) // as when it turns out that the peer has no ILNP
	if got := numbersOf(o.resent); !slices.Equal(got[5:], []uint16{0}) {
		t.Errorf("released once more: %v, want what was held", got)
	}
	e.handlePlane(time.Now(), number(5))
	if got := numbersOf(o.resent); !slices.Equal(got[5:], []uint16{0, 5}) {
		t.Errorf("beside the entry: %v sent", got)
	}
}
