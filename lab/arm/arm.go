// Package arm holds the systems that an experiment compares.
//
// It implements an interface with the operations that a scene needs, and one file for each
// arm: Roam, plain IPv6, IPv6 on a host that never moves, the kernel's Multipath TCP. It
// omits the network and the schedule, which lab/scene has, and traffic. It is driven by
// lab/scene in network namespaces and by lab/virtual in virtual time. Both know only the
// interface, so that a new arm is one new file.
package arm

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"roam"
	"roam/ilnp"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/sim/ilnphost"
)

// Arm is a system under comparison. Its values can be compared with ==.
type Arm interface {
	// Name is a word of a-z, for cells, series and files.
	Name() string
	// Title is the arm's name in reports.
	Title() string
	Traits() Traits
	// Tools names the programs that the arm starts, as the packages of Debian that
	// hold them.
	Tools() map[string]string
	// Wrap is a prefix for the command line of an application, for arms that need one.
	Wrap() []string
	// Setup starts the arm on a network without it. Its processes live as long as ctx and
	// the hosts.
	Setup(ctx context.Context, net *Net) (System, error)
}

// Traits are the properties of an arm that judges and figures need.
type Traits struct {
	Moves    bool // the schedule moves its hosts
	Commands bool // it accepts commands: set a mode, withdraw from a link
	Survives bool // connections are meant to live through the schedule
	Updates  bool // Locator Updates tell the correspondents of a move
}

// System is an arm running on a network. On a host with plain IPv6 its methods do nothing.
type System interface {
	// Attached is called when a link has got carrier.
	Attached(ctx context.Context, e *End, link string) error
	// Usable waits until a link that got carrier after since can be used.
	Usable(ctx context.Context, e *End, link string, since time.Time) error
	// Detached is called when a link has lost carrier.
	Detached(ctx context.Context, e *End, link string) error
	// Mode sets the mode of Roam, or does the like.
	Mode(ctx context.Context, e *End, mode string) error
	// Use withdraws from a link that keeps carrier, or uses it again.
	Use(ctx context.Context, e *End, link string, on bool) error
}

// Simulated is an arm that the engine sim can carry out, too.
type Simulated interface {
	Arm
	// Nodes adds the mobile host and its correspondent.
	Nodes(net *ilnphost.Network, mn, cn roam.NID, mode ilnp.Mode) (mobile, peer *ilnphost.Node)
	// Meet makes the two known to each other, when they have locators; home is
	// that of the correspondent.
	Meet(mobile, peer *ilnphost.Node, home roam.L64)
	// SetMode sets the mode of Roam, or does the like.
	SetMode(mobile *ilnphost.Node, mode ilnp.Mode)
	// SetUse withdraws from a link, or uses it again.
	SetUse(mobile *ilnphost.Node, link roam.LinkID, on bool)
}

// Net is a network on which an arm runs.
type Net struct {
	Name     string // of the topology
	Ends     []*End // the mobile host, then the correspondents
	Dir      string // for the logs of daemons
	Programs node.Binaries
	Up       func(e *End, link string) bool // whether a link has carrier
	Log      func(format string, args ...any)

	Mode, PeerMode string            // of Roam on the mobile host and on the correspondents
	More           map[string]string // lines appended to roam.conf, by host
	Keys           bool              // Roam's mobile host and each correspondent have each other's key
}

// End is an end host.
type End struct {
	Host   *topo.Host
	NID    roam.NID
	Node   *node.Node              // nil where no Roam runs
	Access []string                // interfaces on emulated links, in order; empty for a host that stays
	Links  map[string]*linkem.Link // direction AB is away from the host
	// Routers are the routers of the access networks, by interface of the host: "lan" is
	// towards the host, "wan" towards the core.
	Routers map[string]*topo.Host
	Prefix  map[string]netip.Prefix // by interface
	Addr    netip.Addr              // the SLAAC address on the first network
	Plain   bool                    // it has plain IPv6 in every arm
}

// First is the interface on the host's first network.
func (e *End) First() string {
	if len(e.Access) > 0 {
		return e.Access[0]
	}
	return "eth0"
}

// nameHosts adds every host for which asked returns true to the hosts file of the others,
// for arms without a daemon that answers names.
func (net *Net) nameHosts(asked func(to *End) bool) (err error) {
	for _, from := range net.Ends {
		for _, to := range net.Ends {
			if from != to && asked(to) {
				err = errors.Join(err, from.Host.AddName(to.Addr, to.Host.Name()))
			}
		}
	}
	return err
}

func everyHost(*End) bool { return true }
