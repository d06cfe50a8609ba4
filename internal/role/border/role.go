// Package border is the role of a site border router: it puts the programs of
// internal/dataplane/border on the links to the inside and to providers, drives the core in
// roam/sbr with what these hand over and with the state of the links, and shows both.
//
// The role changes nothing on the host but its programs and maps. The host has to forward
// IPv6; Status says so where it does not. Driven by internal/daemon.
package border

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/dataplane"
	plane "roam/internal/dataplane/border"
	"roam/internal/hostnet"
	"roam/internal/keyfile"
	"roam/internal/loop"
	"roam/internal/rawio"
	"roam/internal/role"
	"roam/nidkey"
	"roam/sbr"
)

// Kind makes borders. Restore detaches filters of other roles too: none runs then.
var Kind = role.Kind{
	Name: config.RoleBorder,
	New: func(env role.Env) role.Role {
		return &Role{Env: env, loop: loop.New(time.Now), done: make(chan struct{})}
	},
	Restore: func(cfg config.Config) error {
		return dataplane.Disarm(filepath.Join(cfg.Pins(), plane.Name), hostnet.DetachAllClassic)
	},
}

// Role is one border. What is below loop belongs to the goroutine of Run.
type Role struct {
	role.Silent
	role.Env
	loop     *loop.Loop
	done     chan struct{}
	plane    *plane.Plane
	sender   sender
	routes   routes
	core     *sbr.Core
	links    []hostnet.Uplink // of the host
	addrs    []netip.Addr     // its own
	facts    <-chan hostnet.Facts
	events   <-chan plane.Event
	attached map[roam.LinkID]kind // links with programs
	probe    sbr.Probe
	xdp      map[roam.LinkID]xdpState // links that XDP was asked of
	notices  notices
	key      *nidkey.Key     // nil: the border has none
	drained  map[string]bool // names of links that a command has drained
	refused  [unsent + 1]refused
}

// sender is a rawio.Sender.
type sender interface {
	Send(link roam.LinkID, packet []byte) error
	Close() error
}

// routes is a hostnet.Routes.
type routes interface {
	Toward(dst netip.Addr) (roam.LinkID, error)
	Close()
}

// kind is where a link leads.
type kind uint8

const (
	elsewhere kind = iota
	inside
	provider
)

// Start loads the programs, or adopts those of an earlier daemon, and brings the tables to
// what the policy and the links say.
func (r *Role) Start(ctx context.Context) error {
	policy, err := r.parse(r.Config)
	if err != nil {
		return err
	}
	opts := dataplane.Options{Dir: r.Config.Pins(), Classic: hostnet.Classic{}}
	if r.plane, err = plane.Open(opts, r.Config.Border.UDPPort, r.Config.Border.MaxFlows); err != nil {
		return control.Errorf(control.CodeUnsupported, "%w", err).
			WithHint("a border needs a kernel with BTF (CONFIG_DEBUG_INFO_BTF) that is not locked down")
	}
	if err := r.openSender(); err != nil {
		return err
	}
	if r.facts, err = hostnet.FollowFacts(r.done); err != nil {
		return err
	}
	if r.events, err = r.plane.Follow(); err != nil {
		return err
	}
	r.attached, r.drained, r.xdp = make(map[roam.LinkID]kind), make(map[string]bool), make(map[roam.LinkID]xdpState)
	if err := r.adopt(); err != nil {
		return err
	}
	if err := r.readKey(); err != nil {
		return err
	}
	now := r.loop.Now()
	r.notices.role = r
	r.notices.open(now)
	r.probe = newProbe()
	r.core = sbr.New(r.Config.Border.Announce, r.Config.Border.UDPPort, r.Config.Border.MaxFlows, r.probe)
	r.core.HandleFallback(sbr.Fallback(r.Config.Border.Fallback), r.Config.Border.FlowLabel)
	if r.Config.Border.Liveness {
		r.core.Watch(now)
	}
	machine := loop.Drive(r.core, r.execute)
	r.loop.Add(&loop.Part{
		Machines: []loop.Machine{machine, &upkeep{role: r, due: now, swept: now}, &r.notices},
		Sources: []loop.Source{
			loop.On(r.facts, errLinks, r.handleFacts),
			loop.On(r.events, errEvents, r.handleEvent),
			loop.On((<-chan rawio.SiteNotice)(r.notices.requests), nil, r.notices.handleRequest),
		},
	})
	if err := r.plane.Configure(r.settings(r.Config), now.Add(renewal)); err != nil {
		return err
	}
	// The state of the links before the policy: programs that an earlier daemon left go on
	// forwarding, and would stop with a table that has no link.
	select {
	case f := <-r.facts:
		r.links, r.addrs = f.Links, f.Own
	case <-ctx.Done():
		return ctx.Err()
	}
	r.own()
	r.core.HandleSites(now, r.sites(r.Config))
	indices, err := r.plane.Indices()
	if err != nil {
		return err
	}
	r.core.HandleIndices(indices)
	r.core.HandlePolicy(now, policy)
	machine.Drain(now) // ends what the flows know of locators by other indices
	r.known(now)
	r.core.AnnounceAnew(now)
	machine.Drain(now)
	r.attach()
	if err := r.plane.TakeOver(); err != nil {
		return err
	}
	r.accelerate()
	return nil
}

// openSender opens what packets are sent by.
func (r *Role) openSender() error {
	s, err := rawio.Open()
	if err != nil {
		return err
	}
	r.sender = s
	t, err := hostnet.OpenRoutes()
	if err != nil {
		return err
	}
	r.routes = t
	return nil
}

var (
	errLinks  = errors.New("the state of links cannot be followed any more")
	errEvents = errors.New("what the programs hand over cannot be read any more")
)

// Run drives the core until ctx is done.
func (r *Role) Run(ctx context.Context) error { return r.loop.Run(ctx) }

// Close lets go of the programs, which go on rewriting.
func (r *Role) Close() error {
	r.loop.Close()
	close(r.done)
	errs := []error{r.notices.close()}
	if r.routes != nil {
		r.routes.Close()
	}
	if r.sender != nil {
		errs = append(errs, r.sender.Close())
	}
	if r.plane != nil {
		errs = append(errs, r.plane.Close())
	}
	return errors.Join(errs...)
}

// Check refuses a faulty policy as a whole, and a key that cannot be read.
func (r *Role) Check(next config.Config) error {
	if _, err := r.parse(next); err != nil {
		return err
	}
	if _, err := keyfile.Read(next); err != nil {
		return control.Errorf(control.CodeInvalid, "%w", err).
			WithHint("nothing was changed; the key so far is in use")
	}
	return nil
}

// Reload takes another policy, other links and settings over.
func (r *Role) Reload(ctx context.Context, next config.Config) error {
	policy, err := r.parse(next)
	if err != nil {
		return err
	}
	return r.loop.Do(ctx, func(now time.Time) {
		r.Warn("read the key; the one so far is in use", r.readKey())
		changed := next.Border.Policy != r.Config.Border.Policy
		r.Warn("write the settings", r.plane.Configure(r.settings(next), now.Add(renewal)))
		r.reconfigure(now, next)
		if changed {
			r.core.HandlePolicy(now, policy)
		}
		r.attach()
		r.own() // links to the inside may be others
		r.accelerate()
	})
}

// parse reads the policy of a configuration.
func (r *Role) parse(cfg config.Config) (sbr.Policy, error) {
	p, err := sbr.ParsePolicy([]byte(cfg.Border.Policy))
	if err != nil {
		return p, control.Errorf(control.CodeInvalid, "border.policy: %w", err).
			WithHint("correct that line of the policy (%s); nothing was changed", r.Place("border.policy"))
	}
	return p, nil
}

func (r *Role) settings(cfg config.Config) plane.Settings {
	direct, err := r.plane.ForwardsUnseen()
	if err != nil {
		r.Log.Debug("packets that come in pass the stack", "err", err)
	}
	return plane.Settings{
		Fallback:   plane.Fallback(cfg.Border.Fallback),
		TCPPackets: cfg.Border.TCP == config.ByPacket,
		FlowLabel:  cfg.Border.FlowLabel,
		Direct:     direct,
		ProbeID:    r.probe.ID,
	}
}

// newProbe draws what names the probes of this daemon.
func newProbe() (p sbr.Probe) {
	var id [2]byte
	rand.Read(id[:]) // never fails
	rand.Read(p.Token[:])
	rand.Read(p.Secret[:])
	p.ID = max(binary.BigEndian.Uint16(id[:]), 1)
	return p
}

// adopt notes the links to which an earlier daemon attached programs.
func (r *Role) adopt() error {
	links, err := r.plane.Attached()
	for _, l := range links {
		r.attached[l] = elsewhere
		if r.plane.AttachedXDP(l) {
			r.xdp[l] = xdpState{}
		}
	}
	return err
}

// known gives the core the flows that the programs know.
func (r *Role) known(now time.Time) {
	table := r.core.Table()
	flows, err := r.plane.Flows(table)
	if !r.Warn("read the flows", err) {
		return
	}
	for _, f := range flows {
		r.core.HandleFlow(now, f.FlowSeen, f.Announced)
	}
}

// kindOf says where a link leads.
func (r *Role) kindOf(u hostnet.Uplink) kind {
	switch {
	case len(r.Config.Border.Locators(u.Name)) > 0:
		return provider
	case r.Config.Border.IsInside(u.Name):
		return inside
	}
	return elsewhere
}

// attach puts the programs on the links of the configuration, and takes them off others.
func (r *Role) attach() {
	wanted := make(map[roam.LinkID]kind)
	for _, u := range r.links {
		if k := r.kindOf(u); k != elsewhere {
			wanted[u.Link] = k
		}
	}
	for l, was := range r.attached {
		if wanted[l] == elsewhere {
			r.Warn(fmt.Sprintf("take the programs off link %d", l), r.plane.Detach(l))
			delete(r.attached, l)
		} else if was == wanted[l] {
			delete(wanted, l)
		}
	}
	for l, k := range wanted {
		put := r.plane.AttachUplink
		if k == inside {
			put = r.plane.AttachInside
		}
		if r.Warn(fmt.Sprintf("put the programs on link %d", l), put(l)) {
			r.attached[l] = k
		}
	}
}
