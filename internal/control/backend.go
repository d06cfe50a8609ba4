package control

import (
	"context"

	"roam"
)

// Backend is what the daemon offers. Every method may be called from several
// goroutines at once. Refusals are of type *Error and name what to do; any
// other error is shown as an internal one.
type Backend interface {
	Host
	Border
	// Status tells who the host is and how the daemon fares.
	Status(ctx context.Context) (Status, error)
	// Counters lists every counter, zero or not, in a stable order.
	Counters(ctx context.Context) ([]Counter, error)
	// Subscribe returns the events from now on. The channel is closed when ctx
	// is done or the daemon ends.
	Subscribe(ctx context.Context) (<-chan Event, error)
	// History returns what happened, the oldest first: the latest events of the
	// host and of each correspondent, as far as the daemon remembers.
	History(ctx context.Context) ([]Event, error)
	// Roles lists all that each role says of itself, in the order of their start, and
	// of a peer, unless that is 0.
	Roles(ctx context.Context, peer roam.NID) ([]RoleReport, error)
	// Reload reads the configuration and the hosts file again and applies the
	// differences. An invalid file changes nothing.
	Reload(ctx context.Context) (Reloaded, error)
	// Shutdown ends the daemon. With removePlane it first removes the data
	// plane and gives the host back what was changed; without, sessions go on
	// and a new daemon adopts them.
	Shutdown(ctx context.Context, removePlane bool) error
}

// Host is what the role of an ILNPv6 host answers. Where the daemon has no such role,
// or it does not run, every method fails with CodeUnavailable.
type Host interface {
	// Locators lists this host's locators, links in the order of their names.
	Locators(ctx context.Context) ([]Locator, error)
	// EachSession calls f for each correspondent, those with a session and those that are
	// known, as they are read: a list of many is not of one moment. An error of f ends it
	// and is returned.
	EachSession(ctx context.Context, f func(Session) error) error
	// Summary counts the correspondents.
	Summary(ctx context.Context) (Summary, error)
	// Probe asks on every path to a correspondent whether it works, for at
	// most three seconds. An unknown correspondent is CodeNotFound.
	Probe(ctx context.Context, peer roam.NID) (Probed, error)
	// Flows says which rules decide about flows to a port of a correspondent, TCP first,
	// and by which paths they leave.
	Flows(ctx context.Context, q FlowRequest) ([]Flow, error)
	// SetMode changes the handoff mode until the next start.
	SetMode(ctx context.Context, mode Mode) error
	// SetLinkEnabled lets the host use a link, or takes it out of use
	// gracefully. An unknown link is CodeNotFound, its hint lists the links.
	SetLinkEnabled(ctx context.Context, link string, enabled bool) error
	// Peers lists what is known of every correspondent, and where that is written.
	Peers(ctx context.Context) ([]KnownPeer, error)
	// AddPeer makes a correspondent known from a line of `roam export` or of
	// the hosts file, now and after a restart. A name that should not be taken
	// unasked is CodeChoice, and nothing is changed then.
	AddPeer(ctx context.Context, q AddRequest) (Peer, error)
	// RemovePeer forgets a correspondent that was added, now and after a restart,
	// and ends its sessions. One that only the hosts file names is CodeConflict.
	RemovePeer(ctx context.Context, q RemoveRequest) (Removed, error)
	// RenamePeer gives a correspondent that was added another name in place of
	// one that it has; its sessions go on.
	RenamePeer(ctx context.Context, q RenameRequest) (Peer, error)
	// Export returns the lines with which another host makes this one known.
	Export(ctx context.Context) (Exported, error)
}

// Border is what the role of a site border router answers. Where the daemon has no such
// role, or it does not run, every method fails with CodeUnavailable.
type Border interface {
	// SetDrained stops sending by a link to a provider, which still receives, or uses
	// it again; until the next start. An unknown link is CodeNotFound, its hint lists
	// the links. Draining the last link of an internal locator is CodeConflict, as is
	// to use one again that border.drained lists.
	SetDrained(ctx context.Context, link string, drained bool) error
}

// Sessions returns all correspondents of a host.
func Sessions(ctx context.Context, h Host) ([]Session, error) {
	list := []Session{}
	err := h.EachSession(ctx, func(s Session) error {
		list = append(list, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
