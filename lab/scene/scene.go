// Package scene is the network that all experiments on mobility share, and the
// schedule of what happens to it.
//
// Implements a mobile host on several access networks, correspondents that stay
// or move too, a core router between them, and the arms under comparison: Roam,
// plain IPv6, IPv6 that never moves, Multipath TCP. Omits traffic and judging.
// Driven by the packages below lab/exp:
//
//	s, err := scene.Build(ctx, env, scene.Config{Name: "roam", Arm: scene.Roam, Mobile: nets, Advert: ra})
//	defer s.Close()
//	... start traffic to "cn1" on s.Mobile().Host ...
//	trace, err := s.Run(ctx, scene.Schedule{Length: 20 * time.Second, Steps: []scene.Step{
//		{At: 5 * time.Second, Op: scene.Attach, Link: "net2", From: "net1", Name: "soft 1"},
//		{At: 9 * time.Second, Op: scene.Detach, Link: "net1"},
//	}}, nil)
//
// The mobile host is "mn" with interfaces net1, net2 and so on, the
// correspondents are "cn1" and on, with eth0 where they stay. Applications are
// given those names in every arm.
package scene

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
)

// Arm is what runs on the hosts.
type Arm string

// The arms of an experiment.
const (
	Roam   Arm = "roam"   // Roam on every end host
	Plain  Arm = "plain"  // plain IPv6 through the same schedule: the control that fails
	Static Arm = "static" // plain IPv6 on the first link, where nothing ever happens
	MPTCP  Arm = "mptcp"  // the kernel's Multipath TCP: see MPTCPTool
)

// Tools names the programs that a scene starts, as the packages of Debian that
// hold them. MPTCPTool comes in addition where that arm is run.
var Tools = map[string]string{"radvd": "radvd", "ip": "iproute2", "nft": "nftables"}

// RA is how a router advertises: what topo.Advert says of these.
type RA struct{ Min, Max, Preferred, Valid time.Duration }

// Access is one access network of a host, with its emulated link.
type Access struct {
	Out, In linkem.Params // from the host and to it; Seed is set by Build
	Advert  *RA           // nil takes that of the Config
	Up      bool          // has carrier from the start; the first always has
}

// Symmetric is an access network with the same link both ways.
func Symmetric(p linkem.Params) Access { return Access{Out: p, In: p} }

// Correspondent is a host that the mobile one talks to.
type Correspondent struct {
	Access []Access // it moves too; nil puts it on a wire without delay
	NoRoam bool     // it has plain IPv6 in every arm
}

// Config describes a scene.
type Config struct {
	Name           string // of the topology, 1 to 16 of a-z and 0-9
	Arm            Arm
	Seed           uint64
	Mobile         []Access        // one at least
	Correspondents []Correspondent // none stands for one that stays
	Advert         RA
	Mode           string            // of Roam on the mobile host: soft (the default), hard or duality
	PeerMode       string            // of Roam on the correspondents
	More           map[string]string // lines appended to roam.conf, by host
	// Ready, if not nil, is called when the network is there and nothing of the
	// arm has been started.
	Ready func(context.Context, *Scene) error
}

// Scene is the network with everything that runs on it but traffic.
type Scene struct {
	Lab  *topo.Lab
	Core *topo.Host
	Ends []*End // the mobile host, then the correspondents

	env  *exp.Env
	cfg  Config
	ra   *raWatch
	mu   sync.Mutex
	isup map[string]bool // "mn/net1"
	// attached counts the addresses that the arm MPTCP was given.
	attached int
}

// End is an end host.
type End struct {
	Host   *topo.Host
	Node   *node.Node              // nil unless the arm is Roam
	Access []string                // interfaces on emulated links, in order; none for one that stays
	Links  map[string]*linkem.Link // direction AB is away from the host
	// Routers are those of the access networks, by interface of the host: "lan"
	// is towards it, "wan" towards the core.
	Routers map[string]*topo.Host
	Prefix  map[string]netip.Prefix // by interface
	Addr    netip.Addr              // what SLAAC made on the first network

	noRoam bool
}

// setupWithin bounds the wait for addresses and daemons.
const setupWithin = 30 * time.Second

// Build makes the network, starts what the arm needs, and waits until the mobile
// host and the correspondents are ready for traffic. It removes what it made
// when it fails.
func Build(ctx context.Context, env *exp.Env, cfg Config) (s *Scene, err error) {
	if len(cfg.Correspondents) == 0 {
		cfg.Correspondents = make([]Correspondent, 1)
	}
	lab, err := topo.New(cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("make topology: %w", err)
	}
	s = &Scene{Lab: lab, env: env, cfg: cfg, isup: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	wctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	if err = s.network(wctx); err != nil {
		return nil, err
	}
	if s.ra, err = watchRA(s.Mobile().Host, s.Mobile().Access); err != nil {
		return nil, err
	}
	if cfg.Ready != nil {
		if err = cfg.Ready(ctx, s); err != nil {
			return nil, err
		}
	}
	// What the arm starts outlives the set-up.
	switch cfg.Arm {
	case Roam:
		return s, errors.Join(s.nameHosts(), s.startRoam(ctx))
	case MPTCP:
		return s, errors.Join(s.nameHosts(), s.startMPTCP(ctx))
	case Plain, Static:
		return s, s.nameHosts()
	}
	return nil, fmt.Errorf("build scene: no arm is called %q", cfg.Arm)
}

// Arm returns what runs on the hosts.
func (s *Scene) Arm() Arm { return s.cfg.Arm }

// Mobile returns the mobile host.
func (s *Scene) Mobile() *End { return s.Ends[0] }

// Peer returns a correspondent: 0 is "cn1".
func (s *Scene) Peer(i int) *End { return s.Ends[i+1] }

// Close removes everything.
func (s *Scene) Close() error {
	if s.ra != nil {
		s.ra.close()
	}
	return s.Lab.Close()
}

// end finds a host by name; "" is the mobile one.
func (s *Scene) end(name string) *End {
	for _, e := range s.Ends {
		if name == "" || e.Host.Name() == name {
			return e
		}
	}
	return nil
}

// IsUp reports whether a link of the mobile host has carrier.
func (s *Scene) IsUp(link string) bool { return s.isUp(s.Mobile(), link) }

func (s *Scene) isUp(e *End, link string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isup[e.Host.Name()+"/"+link]
}

// Carrier gives a link of an end host carrier, or takes it, at once.
func (s *Scene) Carrier(e *End, link string, on bool) error {
	k := e.Links[link]
	if k == nil {
		return fmt.Errorf("change carrier: %s has no link %s", e.Host.Name(), link)
	}
	s.mu.Lock()
	s.isup[e.Host.Name()+"/"+link] = on
	s.mu.Unlock()
	if on {
		return k.Up()
	}
	return k.Down()
}

// Drops counts the frames that the emulator dropped, by reason: queue, loss,
// refused, cut. Only those that met a cut link, and the losses that were
// configured, were asked for.
func (s *Scene) Drops() map[string]uint64 {
	d := map[string]uint64{"queue": 0, "loss": 0, "refused": 0, "cut": 0}
	for _, e := range s.Ends {
		for _, k := range e.Links {
			for _, dir := range []linkem.Direction{linkem.AB, linkem.BA} {
				c := k.Counters(dir)
				d["queue"] += c.DropQueue
				d["loss"] += c.DropLoss
				d["refused"] += c.DropError
				d["cut"] += c.DropDown
			}
		}
	}
	return d
}

// Counters returns what the data planes and daemons counted, by host; empty
// without Roam.
func (s *Scene) Counters(ctx context.Context) (map[string][]node.Counter, error) {
	out := map[string][]node.Counter{}
	for _, e := range s.Ends {
		if e.Node == nil {
			continue
		}
		list, err := e.Node.Counters(ctx)
		if err != nil {
			return nil, err
		}
		out[e.Host.Name()] = list
	}
	return out, nil
}

// sorted returns the keys of a map in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
