package decide

import (
	"encoding/binary"
	"math/bits"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// CrossedLongs is how many long paths of a session take connections beside short ones.
const CrossedLongs = 4

const (
	crossedLasts = 1000 // ms, from the last data on that came by a long path
)

// CrossedKey is a TCP connection of a session that has used a slot.
type CrossedKey struct {
	Slot, Birth       uint32
	NearPort, FarPort uint16
}

// CrossedFlow is struct crossed_flow: a TCP connection of which data come by a long path, too.
type CrossedFlow struct {
	Both  uint32 // ms: when data last came by a short path, or the peer asked,
	At    uint32 // by the long one,
	Wait  uint32 // and for how long data may be missing then
	Ack   uint32 // up to where all was there in our last segment with blocks,
	Moved uint32 // ms: and when that was first so, or newer data came by the long path; 0: there was none
	// Newest is the end of the newest data that did, if any Came.
	Newest uint32
	Came   bool
}

// bucket returns the bucket of a flow.
func (p *Session) bucket(ports uint32) uint32 {
	return weight(roam.L64(p.LocalNID), roam.L64(p.RemoteNID), ports) % Buckets
}

// crosses reports whether this host withholds blocks in the session.
func (p *Session) crosses() bool {
	return p.is(Placed) && p.is(Counted) && p.Table != nil && p.Table.Longs != 0
}

// noteDataPath notes by which kind of path data of TCP have come, once some came by a long one.
func noteDataPath(t *step, p *Session) {
	n, ok := tcpBody(t)
	if !ok || n <= 0 || !p.is(Placed) || !p.is(Counted) {
		return
	}
	from, to, _ := t.k.ports(t.c.at)
	k, now, wait := CrossedKey{p.Slot, p.Birth, to, from}, uint32(t.now/millisecond), waitsFor(t, p)
	f, known := t.s.Crossed[k]
	b, _ := t.k.load(t.c.at, 16)
	end := binary.BigEndian.Uint32(b[4:]) + uint32(n)
	switch {
	case wait > 0 && known:
		f.At, f.Wait = now, wait
		if !f.Came || int32(end-f.Newest) > 0 {
			if f.Newest, f.Came = end, true; f.Moved != 0 {
				f.Moved = now
			}
		}
	case wait > 0:
		f = CrossedFlow{At: now, Both: now - crossedLasts, Wait: wait, Newest: end, Came: true}
	case known:
		f.Both = now
	default:
		return
	}
	t.s.Crossed[k] = f
}

// waitsFor returns for how long, in ms, data may be missing of a connection of which some come by the path of a packet;
// 0: that is no long one.
func waitsFor(t *step, p *Session) uint32 {
	i := t.s.pathBack(p, t.src.L64, t.dst.L64)
	if !p.crosses() || i < 0 || p.Table.Longs>>i&1 == 0 {
		return 0
	}
	return uint32(p.Table.Waits[bits.OnesCount16(p.Table.Longs&(1<<i-1))&(CrossedLongs-1)])
}

// crossAsked withholds the blocks of these connections from now on, as the peer asks. It reports whether that is done.
func crossAsked(t *step, p *Session, connections ilnp.Connections) bool {
	wait, now := waitsFor(t, p), uint32(t.now/millisecond)
	if wait == 0 {
		return false
	}
	for _, ports := range connections {
		if ports != [2]uint16{} {
			t.s.Crossed[CrossedKey{p.Slot, p.Birth, ports[1], ports[0]}] = CrossedFlow{At: now, Both: now, Wait: wait}
		}
	}
	return true
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

// pathBack returns the path in use that leads back between two locators, or -1.
func (s *State) pathBack(p *Session, far, near roam.L64) int {
	for i := range min(p.NPaths, MaxPaths) {
		if s.uplink(p, i).L64 == near && p.Remote[p.path(i).Remote] == far {
			return i
		}
	}
	return -1
}

// Withheld says that a segment leaves without its blocks of SACK about data behind the Newest, if any Came.
type Withheld struct {
	Is     bool
	Newest uint32
	Came   bool
}

// withhold withholds the blocks of SACK of a segment that is to be without them.
func withhold(t outward, p *Session, flags uint8) {
	b, ok := t.k.load(t.c.at, 16)
	if !ok || flags&(flagSYN|flagRST) != 0 {
		return
	}
	header, ok := t.k.load(t.c.at, int(b[ip6.TCPDataOffsetAt]>>4)*4)
	if !ok || blocksAt(header) == 0 {
		return
	}
	k := CrossedKey{p.Slot, p.Birth, binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])}
	f, known := t.s.Crossed[k]
	now := uint32(t.now / millisecond)
	if !known || now-f.At >= crossedLasts || now-f.Both >= crossedLasts {
		return
	}
	if ack := binary.BigEndian.Uint32(b[8:]); f.Ack != ack || f.Moved == 0 {
		f.Ack, f.Moved = ack, now
		t.s.Crossed[k] = f
	}
	if now-f.Moved < f.Wait {
		t.out.Withheld = Withheld{Is: true, Newest: f.Newest, Came: f.Came}
	}
}

// blocksAt returns where the blocks of SACK are in a TCP header, where common stacks have them; 0: there are none.
func blocksAt(tcp []byte) int {
	const stamp, sack = 0x0101080a, 0x01010500
	at := 20
	if len(tcp) < at+4 {
		return 0
	}
	if binary.BigEndian.Uint32(tcp[at:]) == stamp {
		if at += 12; len(tcp) < at+4 {
			return 0
		}
	}
	word := binary.BigEndian.Uint32(tcp[at:])
	if size := 2 + int(word&0xff); word&^0xff != sack || size < 12 || size > 36 || size&7 != 4 || at+size > len(tcp) {
		return 0
	}
	return at
}

// hideBlocks takes out of the blocks of SACK of a segment what is behind the newest data that came by the long path. A
// first one of data that came twice stays.
func (w Withheld) hideBlocks(tcp []byte) {
	at := blocksAt(tcp[:int(tcp[ip6.TCPDataOffsetAt]>>4)*4])
	if at == 0 {
		return
	}
	option := tcp[at : at+2+int(tcp[at+3])]
	old, ack := ip6.Sum(option), binary.BigEndian.Uint32(tcp[8:])
	var told []byte
	for i := 4; i < len(option); i += 8 {
		begin, end := binary.BigEndian.Uint32(option[i:]), binary.BigEndian.Uint32(option[i+4:])
		switch isTwice := i == 4 && int32(end-ack) <= 0; {
		case isTwice:
		case !w.Came || int32(begin-w.Newest) >= 0:
			continue
		case int32(end-w.Newest) > 0:
			end = w.Newest
		}
		told = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(told, begin), end)
	}
	for i := range option {
		option[i] = 1
	}
	if len(told) > 0 {
		option[2], option[3] = 5, uint8(2+len(told))
		copy(option[4:], told)
	}
	adjustAt(tcp[ip6.TCPChecksumAt:], old, ip6.Sum(option))
}
