package engine

import (
	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
)

// copy sends the first packet of a session once more, under the other rule.
func (e *Engine) copy(o ilnp.Copy) {
	packet := e.copies.Take(o)
	if p, made := e.session(o.Key); packet == nil || !made || !p.RuleSought || p.State == ilnp.Plain {
		return
	}
	d := e.cfg.Network.Device()
	err := e.cfg.Sender.Resend(roam.LinkID(d.Index), d.MAC, packet, dataplane.CopyMark)
	e.report("send first packet under the other rule", err)
}
