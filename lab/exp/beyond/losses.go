package beyond

import (
	"sync"

	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/workload/udpflow"
)

// losses are the datagrams of the UDP probe that links lost as they were told to,
// by number: out of the mobile host, and in.
type losses struct {
	mu   sync.Mutex
	seen [2]map[uint64]bool
}

// watchLosses looks at what the links of all hosts lose from now on.
func watchLosses(s *scene.Scene) *losses {
	l := &losses{seen: [2]map[uint64]bool{{}, {}}}
	for _, e := range s.Ends {
		for _, k := range e.Links {
			k.Watch(linkem.AB, l.note)
			k.Watch(linkem.BA, l.note)
		}
	}
	return l
}

// note takes a frame that was lost, whichever link it was on. The correspondent's
// end of the probe has the known port.
func (l *losses) note(frame []byte) {
	p, ok := packets.ParseFrame(frame)
	if !ok || p.Proto != packets.UDP || p.DstPort != udpPort && p.SrcPort != udpPort {
		return
	}
	seq, ok := udpflow.Number(p.Data)
	if !ok {
		return
	}
	way := 0
	if p.SrcPort == udpPort {
		way = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[way][seq] = true
}

// has reports whether a link has lost that datagram.
func (l *losses) has(way int, seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[way][seq]
}
