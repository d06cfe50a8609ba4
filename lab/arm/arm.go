// Package arm holds the systems that an experiment sets beside each other.
//
// Implements an interface for what a scene needs of each, and, in a file each, the
// arms that there are: Roam, plain IPv6, IPv6 that never moves, the kernel's
// Multipath TCP. Omits the network and the schedule, which are package scene's,
// and traffic. Driven by package scene in network namespaces and by package
// virtual in virtual time: both know the interface only, so that an arm is added
// with its file alone.
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
	// Title is what people read.
	Title() string
	Traits() Traits
	// Tools names the programs that the arm starts, as the packages of Debian that
	// hold them.
	Tools() map[string]string
	// Wrap is put before the command line of an application, so that it runs as
	// the arm wants it.
	Wrap() []string
	// Setup starts the arm on a network on which nothing of it runs. What it starts
	// lives as long as ctx and the hosts.
	Setup(ctx context.Context, net *Net) (System, error)
}

// Traits are what judges and figures need to know of an arm.
type Traits struct {
	Moves    bool // the schedule is carried out; else its hosts stay as they are
	Commands bool // there is somebody to command: a mode is set, a link withdrawn from
	Survives bool // connections are meant to live through the schedule
	Updates  bool // Locator Updates tell the correspondents of a move
}

// System is an arm at work on a network. A host on which it does not run has
// plain IPv6, and nothing is done there.
type System interface {
	// Attached is called when a link has got carrier.
	Attached(ctx context.Context, e *End, link string) error
	// Usable waits until a link that got carrier after since can be used.
	Usable(ctx context.Context, e *End, link string, since time.Time) error
	// Leaving is called before a link loses carrier that a handoff has left, and
	// waits for the end of that handoff.
	Leaving(ctx context.Context, e *End, link string) error
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
}

// End is an end host.
type End struct {
	Host   *topo.Host
	NID    roam.NID
	Node   *node.Node              // nil where no Roam runs
	Access []string                // interfaces on emulated links, in order; none for one that stays
	Links  map[string]*linkem.Link // direction AB is away from the host
	// Routers are those of the access networks, by interface of the host: "lan"
	// is towards it, "wan" towards the core.
	Routers map[string]*topo.Host
	Prefix  map[string]netip.Prefix // by interface
	Addr    netip.Addr              // what SLAAC made on the first network
	Plain   bool                    // it has plain IPv6 in every arm
}

// First is the interface on the host's first network.
func (e *End) First() string {
	if len(e.Access) > 0 {
		return e.Access[0]
	}
	return "eth0"
}

// nameHosts gives the applications the names of the hosts for which it is asked,
// where no daemon does.
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
