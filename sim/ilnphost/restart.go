package ilnphost

import (
	"fmt"
	"math/rand/v2"

	"roam/ilnp"
)

// kill ends the daemon: the data plane continues, what it reports is lost, and no timer runs, until restart.
func (h *Node) kill() {
	h.killed = true
	h.net.Note(h.name, "daemon killed")
}

// Restart replaces the core by one that restores the saved state of the old one. The data
// plane continues, as that of a killed daemon does.
func (h *Node) Restart() error { return h.restart(h.core.Export()) }

// restart is Restart from a state that may be outdated.
func (h *Node) restart(state []byte) error {
	cfg := h.cfg
	cfg.Rand = reader{rand.New(rand.NewPCG(h.net.Rand().Uint64(), 0))}
	core, err := ilnp.New(cfg)
	if err != nil {
		return fmt.Errorf("make core: %w", err)
	}
	if err := core.Restore(h.net.Now(), state); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	h.core, h.assist, h.killed = core, newAssistant(), false
	entries := core.Snapshot()
	h.net.Note(h.name, "restarts with %d sessions", len(entries))
	h.plane.sync(entries)
	h.Settle()
	for _, at := range h.attachments {
		if at.told {
			h.advertise(at)
		}
	}
	return nil
}
