package beyond

import (
	"sync"

	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/workload/udpflow"
)

// losses are the numbers of the UDP probe's datagrams that links lost deliberately, from
// the mobile host and to it.
type losses struct {
	mu   sync.Mutex
	seen [2]map[uint64]bool
}

// watchLosses starts to record the losses of the links of all hosts.
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

// note records a lost frame of any link. The correspondent's end of the probe has the known
// port.
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
