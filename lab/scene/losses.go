package scene

import (
	"sync"

	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/workload/udpflow"
)

// Losses are the numbers of a UDP probe's datagrams that links of the emulator did not
// deliver, from the mobile host and to it.
type Losses struct {
	port uint16 // of the correspondent's end
	mu   sync.Mutex
	seen [2]map[uint64]bool
}

// NewLosses returns an empty list for the probe whose correspondent has a port.
func NewLosses(port uint16) *Losses {
	return &Losses{port: port, seen: [2]map[uint64]bool{{}, {}}}
}

// WatchLosses starts to record what the links of all hosts lose deliberately.
func (s *Scene) WatchLosses(port uint16) *Losses {
	l := NewLosses(port)
	for _, e := range s.Ends {
		for _, k := range e.Links {
			k.Watch(linkem.AB, l.Note)
			k.Watch(linkem.BA, l.Note)
		}
	}
	return l
}

// WatchOverflows starts to record what the links of all hosts drop although nobody asked
// them to.
func (s *Scene) WatchOverflows(port uint16) *Losses {
	l := NewLosses(port)
	for _, e := range s.Ends {
		for _, k := range e.Links {
			k.WatchOverflow(linkem.AB, l.Note)
			k.WatchOverflow(linkem.BA, l.Note)
		}
	}
	return l
}

// Note records a frame of any link.
func (l *Losses) Note(frame []byte) {
	p, ok := packets.ParseFrame(frame)
	if !ok || p.Proto != packets.UDP || p.DstPort != l.port && p.SrcPort != l.port {
		return
	}
	seq, ok := udpflow.Number(p.Data)
	if !ok {
		return
	}
	way := 0
	if p.SrcPort == l.port {
		way = 1
	}
	l.Add(way, seq)
}

// Add records a datagram by its number; way is 0 for those from the mobile host.
func (l *Losses) Add(way int, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[way][seq] = true
}

// Has reports whether a link did not deliver that datagram.
func (l *Losses) Has(way int, seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[way][seq]
}
