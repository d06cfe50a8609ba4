package scene

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"roam/lab/linkem"
	"roam/lab/packets"
)

// Flow is what a link carries one way between the mobile host and a correspondent by one transport protocol.
type Flow struct {
	Link  string
	Way   linkem.Direction // AB: from the mobile host
	Peer  uint64           // the last 64 bits of the correspondent's address
	Proto uint8            // packets.TCP or packets.UDP
}

// Data are the bytes of flows, in Ethernet frames.
type Data map[Flow]uint64

// dataCount counts what links deliver.
type dataCount struct {
	mu    sync.Mutex
	bytes Data
}

// CountData has samples hold the data of the mobile host's sessions, apart from all else that a link carries: Roam
// measures the rate of a path with packets of its own, and on a busy machine it sends more of them.
func (s *Scene) CountData() {
	c := &dataCount{bytes: Data{}}
	for name, k := range s.Mobile().Links {
		for _, way := range []linkem.Direction{linkem.AB, linkem.BA} {
			k.WatchDelivered(way, func(frame []byte) { c.note(name, way, frame) })
		}
	}
	s.data = c
}

// note counts a frame if a session's data are in it.
func (c *dataCount) note(link string, way linkem.Direction, frame []byte) {
	p, ok := packets.ParseFrame(frame)
	if !ok || p.Proto != packets.TCP && p.Proto != packets.UDP {
		return
	}
	peer := p.Dst.As16()
	if way == linkem.BA {
		peer = p.Src.As16()
	}
	f := Flow{link, way, binary.BigEndian.Uint64(peer[8:]), p.Proto}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes[f] += uint64(len(frame))
}

// read returns the counts of one moment; nil: nothing is counted.
func (c *dataCount) read() Data {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.bytes)
}

// ByFlow returns the bytes of each flow one way between two readings, by link. The flows have no link.
func (d Data) ByFlow(since Data, way linkem.Direction) map[Flow]map[string]uint64 {
	out := map[Flow]map[string]uint64{}
	for f, n := range d {
		if f.Way != way {
			continue
		}
		all := f
		all.Link = ""
		if out[all] == nil {
			out[all] = map[string]uint64{}
		}
		out[all][f.Link] = n - since[f]
	}
	return out
}

// Of returns the bytes of all flows one way by link.
func (d Data) Of(way linkem.Direction) map[string]uint64 {
	out := map[string]uint64{}
	for f, n := range d {
		if f.Way == way {
			out[f.Link] += n
		}
	}
	return out
}

// Only returns the data of one transport protocol.
func (d Data) Only(proto uint8) Data {
	out := maps.Clone(d)
	maps.DeleteFunc(out, func(f Flow, _ uint64) bool { return f.Proto != proto })
	return out
}

// Carried returns all bytes that the links carried one way.
func (s Sample) Carried(way linkem.Direction) map[string]uint64 {
	if way == linkem.AB {
		return s.Out
	}
	return s.In
}

// Used returns the bytes of the sessions' data on the given links, one way, and all bytes on the others: whatever a
// host sends along a link that it must not use is a fault.
func (s Sample) Used(way linkem.Direction, links []string) map[string]uint64 {
	out := s.Data.Of(way)
	for l, n := range s.Carried(way) {
		if !slices.Contains(links, l) {
			out[l] = n
		}
	}
	return out
}

// DataShares is Shares of what is Used: of data alone on the given links.
func (t *Trace) DataShares(links []string, from, to time.Time) (out, in map[string]float64) {
	a, b := t.Within(from, to)
	return shares(a.Used(linkem.AB, links), b.Used(linkem.AB, links)),
		shares(a.Used(linkem.BA, links), b.Used(linkem.BA, links))
}
