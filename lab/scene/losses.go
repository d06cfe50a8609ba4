package scene

import (
	"sync"
	"time"

	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/result"
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
	s.WatchDropped(l.Note)
	return l
}

// WatchDropped calls f, from several threads, with each frame that a link of any host drops
// although nobody asked it to. It takes the place of WatchOverflows. f must not keep the frame.
func (s *Scene) WatchDropped(f func(frame []byte)) {
	for _, e := range s.Ends {
		for _, k := range e.Links {
			k.WatchOverflow(linkem.AB, f)
			k.WatchOverflow(linkem.BA, f)
		}
	}
}

// Owners are the lists of what the emulator did with a probe's datagrams; either may be nil.
type Owners struct {
	Overflows *Losses // dropped, although nobody asked for it
	Asked     *Losses // lost, as the links were told
}

// Account says whose the datagrams are that a probe sent within spans of time and never
// delivered: the emulator's and the socket's are known one by one, all others are Roam's. up
// are the datagrams from the mobile host, down those to it.
func (o Owners) Account(what string, up, down *udpflow.Flow, spans ...[2]time.Time) result.Loss {
	sum := result.Loss{What: what}
	for way, f := range []*udpflow.Flow{up, down} {
		for _, s := range spans {
			c := f.Count(s[0], s[1])
			sum.Sent, sum.Lost, sum.Refused = sum.Sent+c.Written+c.Refused, sum.Lost+c.Lost, sum.Refused+c.Refused
			for _, seq := range f.Missing(s[0], s[1]) {
				switch {
				case f.Sent[seq].Refused: // it never left
				case o.Overflows != nil && o.Overflows.Has(way, seq):
					sum.Emulator++
				case o.Asked != nil && o.Asked.Has(way, seq):
					sum.Asked++
				case f.SocketDropped(seq):
					sum.Sockets++
				}
			}
		}
	}
	return sum
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
