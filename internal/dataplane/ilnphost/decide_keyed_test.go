package ilnphost

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// apart returns a source of draws that does not change those of all else.
func (g *gen) apart(seed uint64) *gen {
	own := *g
	own.Rand = rand.New(rand.NewPCG(g.now, seed))
	return &own
}

// keyed draws whether a session has a key for its peer's updates.
func (g *gen) keyed(w *world, p *bpfSessionEntry) {
	own := g.apart(p.Alias.Remote.uint64() + 1)
	if own.in(2) || p.RemoteNonce.Len == 0 {
		return
	}
	w.keys[userOf(*p)] = bpfUpdateKey{
		Key: macWords(macKey), Counter: pick[uint64](own, 0, 100), Acks: pick[uint64](own, 0, 100),
	}
	if !own.in(4) {
		p.Flags |= bpfEntryFlagsENTRY_UNCONFIRMED
	}
}

// sealed draws an update, or an acknowledgement, with a MAC in a session.
func (g *gen) sealed(w *world) (s shotAt, ok bool) {
	own := g.apart(uint64(len(g.last)))
	if len(w.sessions) == 0 || !own.in(8) {
		return s, false
	}
	p := w.sessions[own.IntN(len(w.sessions))]
	if p.RemoteNonce.Len == 0 {
		return s, false
	}
	u := moveTo(pick(own, remoteLocators...), pick[uint64](own, 50, 100, 101, 150, 1<<63))
	u.nonce, u.encap = p.RemoteNonce.nonce(), own.in(4)
	for range own.IntN(9) {
		u.list = append(u.list, pick(own, remoteLocators...))
	}
	if own.in(3) {
		u.list = u.list[1:]
	}
	if own.in(5) {
		u.op = ilnpwire.Acknowledgement
	}
	if own.in(6) {
		u.key[own.IntN(len(u.key))] ^= 1
	}
	if len(u.list) == 0 {
		return s, false
	}
	src := roam.ILV{NID: p.RemoteNid.nid(), L64: u.from}
	dst := roam.ILV{NID: p.LocalNid.nid(), L64: pick(own, ownLocators...)}
	b, err := u.between(src, dst)
	if err != nil {
		return s, false
	}
	if own.in(6) {
		b = mutate(own.Rand, b)
	}
	return shotOf(shotAt{}, decide.NewPacket(b, uint32(loopback))), true
}

// macBytes undoes macWords.
func macBytes(words [2]uint64) (key [ilnpwire.MACKeyLen]byte) {
	binary.NativeEndian.PutUint64(key[:], words[0])
	binary.NativeEndian.PutUint64(key[8:], words[1])
	return key
}

// atClockOf returns a report with the clock of the one that an answer ends with: the programs ask the kernel for
// a finer one than the model has.
func atClockOf(r ilnpwire.Report, answer []byte) *ilnpwire.Report {
	at := len(answer) - ilnpwire.ReportLen
	if r.Sealed {
		at = len(answer) - ilnpwire.SealedReportLen
	}
	r.Clock = binary.BigEndian.Uint32(answer[at+28:])
	return &r
}

// withoutClock takes the clock out of the report that a probe's answer brings, as it is finer
// than what moments are compared by, and the MAC, which covers it. The checksum stays as right as it was.
func withoutClock(b []byte) []byte {
	const checksum, clock, mac, flags, filled = -22, 12, ilnpwire.ReportLen - 16, 5, 1
	at := bytes.LastIndex(b, []byte("RORP"))
	if at < -checksum || at+clock+4 > len(b) || b[at+flags]&filled == 0 {
		return b
	}
	b = bytes.Clone(b)
	sum := b[at+checksum:]
	without := func(part []byte) {
		binary.BigEndian.PutUint16(sum, ip6.Adjust(binary.BigEndian.Uint16(sum), ip6.Sum(part), 0))
		clear(part)
	}
	if without(b[at+clock:][:4]); len(b)-at == mac+ilnpwire.MACLen {
		without(b[at+mac:])
	}
	return b
}
