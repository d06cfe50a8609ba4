// Package scene is the network that all experiments on mobility share, and the schedule of
// its changes.
//
// It implements a mobile host on several access networks, correspondents that stay or move
// too, a core router between them, and one of the arms of lab/arm on the hosts. It omits
// traffic and judging. It is driven by the packages below lab/exp:
//
//	s, err := scene.Build(ctx, env, scene.Config{Name: "roam", Arm: arm.Roam, Mobile: nets, Advert: ra})
//	defer s.Close()
//	... start traffic to "cn1" on s.Mobile().Host ...
//	trace, err := s.Run(ctx, scene.Schedule{Length: 20 * time.Second, Steps: []scene.Step{
//		{At: 5 * time.Second, Op: scene.Attach, Link: "net2", From: "net1", Name: "soft 1"},
//		{At: 9 * time.Second, Op: scene.Detach, Link: "net1"},
//	}}, nil)
//
// The mobile host is "mn" with interfaces net1, net2 and so on; the correspondents are
// "cn1" and so on, with eth0 if they stay. Applications can use those names in every arm.
package scene

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"roam"
	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
)

// Tools are the programs that a scene starts, with their Debian packages. The tools of its
// arm come in addition.
var Tools = map[string]string{"radvd": "radvd", "ip": "iproute2", "nft": "nftables"}

// RA holds the parameters of a router's advertisements, as in topo.Advert.
type RA struct{ Min, Max, Preferred, Valid time.Duration }

// Access is one access network of a host, with its emulated link.
type Access struct {
	Out, In linkem.Params // from the host and to it; Seed is set by Build
	Advert  *RA           // nil: that of the Config
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
	Arm            arm.Arm
	Seed           uint64
	Mobile         []Access        // one at least
	Correspondents []Correspondent // empty: one that stays
	Advert         RA
	Mode           string            // of Roam on the mobile host: soft (the default), hard or duality
	PeerMode       string            // of Roam on the correspondents
	More           map[string]string // lines appended to roam.conf, by host
	Keys           bool              // Roam's mobile host and each correspondent have each other's key
	Keep           bool              // with --pcap all packets of the end hosts are captured until Close
	// Ready, if not nil, is called when the network is ready and the arm has not started.
	Ready func(context.Context, *Scene) error
}

// Scene is the network with everything that runs on it but traffic.
type Scene struct {
	Lab  *topo.Lab
	Core *topo.Host
	Ends []*End // the mobile host, then the correspondents

	env    *exp.Env
	cfg    Config
	system arm.System // the arm at work
	ra     *raWatch
	mu     sync.Mutex
	isup   map[string]bool // "mn/net1"
	kept   string          // the directory of its captures; "" without
	keeper *Captures       // those of Config.Keep; nil without
	wires  []*updateCount
	data   *dataCount
}

// End is an end host in the form that arms use.
type End = arm.End

// keptLen is how many bytes of each packet Config.Keep keeps.
const keptLen = 160

// setupWithin bounds the wait for addresses and daemons.
const setupWithin = 30 * time.Second

// Build makes the network, starts the arm, and waits until the mobile host and the
// correspondents are ready for traffic. If it fails, it removes everything it made.
func Build(ctx context.Context, env *exp.Env, cfg Config) (s *Scene, err error) {
	if len(cfg.Correspondents) == 0 {
		cfg.Correspondents = make([]Correspondent, 1)
	}
	lab, err := topo.New(cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("make topology: %w", err)
	}
	s = &Scene{Lab: lab, env: env, cfg: cfg, isup: map[string]bool{}}
	made := s // a failure returns nil
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Close())
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
	if cfg.Keep && env.Pcap != "" {
		// They end with the scene, which outlives the set-up.
		if s.keeper, err = s.Capture(ctx, filepath.Join(env.Pcap, cfg.Name), keptLen, "ip6"); err != nil {
			return nil, err
		}
	}
	if cfg.Ready != nil {
		if err = cfg.Ready(ctx, s); err != nil {
			return nil, err
		}
	}
	if cfg.Arm == nil {
		return nil, errors.New("build scene: no arm is named")
	}
	// The arm's processes outlive the set-up, so they get a context of their own.
	s.system, err = cfg.Arm.Setup(ctx, &arm.Net{
		Name: cfg.Name, Ends: s.Ends, Dir: env.Dir, Programs: node.Binaries{Roam: env.Roam, Roamd: env.Roamd},
		Up: s.isUp, Log: env.View.Logf, Mode: cfg.Mode, PeerMode: cfg.PeerMode, More: cfg.More, Keys: cfg.Keys,
	})
	return s, err
}

// Arm returns the arm that runs on the hosts.
func (s *Scene) Arm() arm.Arm { return s.cfg.Arm }

// Mobile returns the mobile host.
func (s *Scene) Mobile() *End { return s.Ends[0] }

// Peer returns a correspondent: 0 is "cn1".
func (s *Scene) Peer(i int) *End { return s.Ends[i+1] }

// Close removes everything.
func (s *Scene) Close() (err error) {
	if s.keeper != nil {
		var dropped int
		if dropped, err = s.keeper.Stop(); dropped > 0 {
			s.env.View.Logf("captures of %s: the kernel dropped %d packets", s.cfg.Name, dropped)
		}
	}
	if s.ra != nil {
		s.ra.close()
	}
	return errors.Join(err, s.Lab.Close())
}

// end finds a host by name; "" is the mobile host.
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

// Carrier gives a link of an end host carrier, or removes it, at once.
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

// Drops counts the frames that the emulator dropped, by reason: queue, loss, refused, cut.
// Only cut and loss are deliberate.
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

// Counters returns the counters of the data planes and daemons, by host; empty without
// Roam.
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

// NID returns the Node Identifier of an end host. It is fixed, so that runs are comparable.
func NID(host string) roam.NID {
	if host == "mn" {
		return 0x1000_0000_0000_00a1
	}
	i, _ := strconv.Atoi(strings.TrimPrefix(host, "cn")) // names are our own
	return 0x1000_0000_0000_00c0 + roam.NID(i)
}

// sorted returns the keys of a map in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
