package engine

import (
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/rawio"
	ilnpwire "roam/wire/ilnp"
)

// handleReassembled takes a Locator Update that came in fragments. The data
// plane let each one pass because of its nonce, and turned its addresses into
// session addresses; the core gets the packet as if it had come whole.
func (e *Engine) handleReassembled(now time.Time, m rawio.Message) {
	src, dst := roam.ILVFromAddr(m.Src), roam.ILVFromAddr(m.Dst)
	if src.L64 != e.cfg.SessionPrefix || dst.L64 != e.cfg.SessionPrefix {
		e.refused["Locator Update in fragments from outside of a session"]++
		return
	}
	p, ok := e.session(ilnp.SessionKey{Local: dst.NID, Remote: src.NID})
	if !ok || len(p.Paths) == 0 {
		e.refused["Locator Update in fragments without a session"]++
		return
	}
	path := p.Paths[0]
	packet, err := ilnpwire.Reassembled(roam.ILV{NID: p.RemoteNID, L64: path.Remote}, roam.ILV{NID: p.LocalNID, L64: path.Local.L64}, p.RemoteNonce, m.Body)
	if err != nil {
		e.refused["Locator Update in fragments that cannot be put together"]++
		return
	}
	e.core.HandlePacket(now, path.Local.Link, packet)
}
