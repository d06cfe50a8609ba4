package decide

import (
	"encoding/binary"
	"math/bits"

	"roam"
	"roam/wire/ip6"
)

// CrossedLongs is with how many long paths acknowledgements are crossed.
const CrossedLongs = 4

const (
	oddlyLate    = 8000 // 1/8 ms: the peer's time stamps are no milliseconds
	crossedLasts = 1000 // ms, from the last data on that came by a long path
	flagEnds     = 0x07 // FIN, SYN, RST
)

// CrossedKey is a TCP connection of a session that has used a slot.
type CrossedKey struct {
	Slot, Birth       uint32
	NearPort, FarPort uint16
}

// CrossedFlow is struct crossed_flow: a TCP connection whose acknowledgements are crossed.
type CrossedFlow struct {
	Seq   uint32   // of the session
	Base  uint32   // ms: by our clock less that of the peer's time stamps,
	Late  [2]int32 // 1/8 ms: how late data come by short paths, and by the long one;
	Known [2]bool  // whether that is known
	At    uint32   // ms: when data last came by the long path,
	Path  uint8    // and which one that is
	// ByLong says that the last data came by it.
	ByLong bool
}

// note notes how late data have come by a short path, 0, or by a long one, 1.
func (f *CrossedFlow) note(stamp, now uint32, is int) {
	if !f.Known[0] && !f.Known[1] {
		f.Base = now - stamp
	}
	late := int32(now - stamp - f.Base)
	if f.Known[is] {
		late += f.Late[is] - f.Late[is]>>3
	} else {
		late *= 8
	}
	f.Late[is], f.Known[is] = late, true
}

// back returns the path by which what acknowledges the last data returns.
func (f CrossedFlow) back(t *FlowTable) uint8 {
	path := f.Path & 15
	gap := 8 * int32(t.Gaps[bits.OnesCount16(t.Longs&(1<<path-1))&(CrossedLongs-1)])
	late := f.Late[0] - f.Late[1]
	switch crosses := !f.Known[0] || !f.Known[1] || 2*late < -gap || late > oddlyLate; {
	case crosses && !f.ByLong, !crosses && f.ByLong && 2*late > gap:
		return path
	}
	return t.Mate
}

// bucket returns the bucket of a flow.
func (p *Session) bucket(ports uint32) uint32 {
	return weight(roam.L64(p.LocalNID), roam.L64(p.RemoteNID), ports) % Buckets
}

// crosses reports whether this host crosses acknowledgements of the session.
func (p *Session) crosses() bool {
	return p.is(Placed) && p.is(Counted) && p.Table != nil && p.Table.Longs != 0
}

// noteDataPath notes by which path data of TCP have come.
func noteDataPath(t *step, p *Session) {
	if n, ok := tcpBody(t); !ok || n <= 0 || !p.crosses() {
		return
	}
	from, to, _ := t.k.ports(t.c.at)
	k := CrossedKey{p.Slot, p.Birth, to, from}
	i := t.s.pathBack(p, t.src.L64, t.dst.L64)
	if i < 0 {
		return
	}
	f, known := t.s.Crossed[k]
	isLong, now := int(p.Table.Longs>>i&1), uint32(t.now/millisecond)
	if f.ByLong = isLong == 1; f.ByLong {
		if now-f.At >= crossedLasts {
			f.Known = [2]bool{} // another connection may have had these ports
		}
		f.Seq, f.Path, f.At = p.Seq, uint8(i), now
	} else if !known {
		return
	}
	if stamp, ok := timeStamp(t); ok {
		f.note(stamp, now, isLong)
	}
	t.s.Crossed[k] = f
}

// tcpBody returns how long the data of a TCP segment are.
func tcpBody(t *step) (n int, ok bool) {
	if t.c.proto != ip6.TCP || !t.c.isWhole() {
		return 0, false
	}
	b, ok := t.k.load(t.c.at, 16)
	if !ok {
		return 0, false
	}
	return t.k.Len - t.c.at - int(b[ip6.TCPDataOffsetAt]>>4)*4, true
}

// timeStamp returns the time stamp of a segment, in the place where common stacks have it.
func timeStamp(t *step) (stamp uint32, ok bool) {
	words, _ := t.k.byteAt(t.c.at + ip6.TCPDataOffsetAt)
	b, ok := t.k.load(t.c.at+20, 8)
	if words>>4 < 8 || !ok || binary.BigEndian.Uint32(b) != 0x0101080a {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[4:]), true
}

// pathBack returns the path in use that leads back between two locators, or -1.
func (s *State) pathBack(p *Session, far, near roam.L64) int {
	for i := range min(p.NPaths, MaxPaths) {
		if s.uplink(p, i).L64 == near && p.Remote[p.path(i).Remote] == far {
			return i
		}
	}
	return -1
}

// crossedPath returns the path by which a segment without data returns, or -1: any.
func crossedPath(t outward, p *Session, flags uint8) int {
	if n, ok := tcpBody(t.step); !ok || n != 0 || flags&flagEnds != 0 || p.Table == nil {
		return -1
	}
	from, to, _ := t.k.ports(t.c.at)
	c, known := t.s.Crossed[CrossedKey{p.Slot, p.Birth, from, to}]
	if !known || c.Seq != p.Seq || uint32(t.now/millisecond)-c.At >= crossedLasts {
		return -1
	}
	i := c.back(p.Table)
	return t.s.choose(p, &p.Table.Turns, 0, ^(1 << (i & 15)), MaxPaths)
}
