// Package observer is the role that counts what the links of a host carry, beside an ILNP
// host or without one: it puts the programs of internal/dataplane/observer on links as
// they appear, drives the core in roam/observer, and shows what that knows.
//
// Driven by internal/daemon.
package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/dataplane"
	plane "roam/internal/dataplane/observer"
	"roam/internal/hostnet"
	"roam/internal/loop"
	"roam/internal/metrics"
	"roam/internal/role"
	"roam/observer"
	"roam/wire/ip6"
)

// Kind makes observers. Restore detaches filters of other roles too: none runs then.
var Kind = role.Kind{
	Name: config.RoleObserver,
	New: func(env role.Env) role.Role {
		return &Role{Env: env, loop: loop.New(time.Now), links: make(map[roam.LinkID]string)}
	},
	Restore: func(cfg config.Config) error {
		return dataplane.Disarm(filepath.Join(cfg.Pins(), config.RoleObserver), hostnet.DetachAllClassic)
	},
}

// Role is one observer. What is below loop belongs to the goroutine of Run.
type Role struct {
	role.Silent
	role.Env
	loop  *loop.Loop
	plane *plane.Plane
	core  *observer.Core
	links map[roam.LinkID]string // that are observed, by name; "": by an earlier daemon
}

// Start loads the programs and reads what those of an earlier daemon have counted.
func (r *Role) Start(context.Context) (err error) {
	r.plane, err = plane.Open(dataplane.Options{Dir: r.Config.Pins(), Classic: hostnet.Classic{}})
	if err != nil {
		return control.Errorf(control.CodeUnsupported, "%w", err).
			WithHint("the observer needs a kernel with BTF (CONFIG_DEBUG_INFO_BTF) that is not locked down")
	}
	observed, err := r.plane.Attached()
	for _, link := range observed {
		r.links[link] = ""
	}
	r.core = observer.New(r.loop.Now())
	machine := loop.Drive(r.core, r.execute)
	r.loop.Add(&loop.Part{Machines: []loop.Machine{machine}})
	machine.Drain(r.loop.Now())
	return err
}

// Run observes links as they appear, until ctx is done.
func (r *Role) Run(ctx context.Context) error {
	links, err := hostnet.FollowLinks(ctx.Done())
	if err != nil {
		return err
	}
	r.loop.Add(&loop.Part{Sources: []loop.Source{loop.On(links, nil, r.follow)}})
	return r.loop.Run(ctx)
}

// Close lets go of the programs, which go on counting.
func (r *Role) Close() error {
	r.loop.Close()
	return r.plane.Close()
}

// follow attaches to a link that appeared, and lets go of one that went or is not wanted.
func (r *Role) follow(_ time.Time, l hostnet.LinkChanged) {
	wanted := r.Config.Observer.Wants(l.Name, hostnet.OwnDevice(r.Config.Host.Device, l.Name))
	name, observed := r.links[l.Link]
	switch {
	case l.Present && wanted && l.Name != name:
		if r.Warn("observe "+l.Name, r.plane.Attach(l.Link)) {
			r.links[l.Link] = l.Name
		}
	case observed && !(l.Present && wanted):
		r.Warn("let go of "+l.Name, r.plane.Detach(l.Link))
		delete(r.links, l.Link)
	}
}

// execute does one thing that the core wants done.
func (r *Role) execute(now time.Time, o observer.Output) {
	switch o := o.(type) {
	case observer.Read:
		counts, err := r.plane.Read()
		for k := range counts {
			if _, observed := r.links[k.Link]; !observed && k.Link != 0 { // it went while no daemon ran
				err = errors.Join(err, r.plane.Detach(k.Link))
				delete(counts, k)
			}
		}
		r.Warn("read the counts", err)
		r.core.HandleReading(now, counts)
	case observer.Seen:
		where := directions[o.Class.Flags&observer.Egress] + " on " + r.links[o.Class.Link]
		r.Publish(control.Event{Time: o.At, Kind: control.KindUpdateSeen, Reason: where})
	}
}

// Status names the links and what they carry in all, and the links that are wanted and
// not there.
func (r *Role) Status(ctx context.Context, _ *control.Status, own *control.RoleStatus) error {
	return r.loop.Do(ctx, func(time.Time) {
		links, packets, rate := slices.Sorted(maps.Values(r.links)), uint64(0), 0.0
		for _, n := range r.core.Counts() {
			packets, rate = packets+n.Packets, rate+n.PacketsPerSecond
		}
		own.Facts = []control.RoleFact{
			{Name: "links", Value: cmp.Or(strings.Join(links, " "), "none")},
			{Name: "packets", Value: fmt.Sprintf("%d (%.0f/s)", packets, rate)},
		}
		if absent := r.Config.Observer.Absent(links); len(absent) > 0 {
			own.Error = "not observed: " + strings.Join(absent, ", ")
			own.Do = "bring the link up, or correct observer.links (" + r.Place("observer.links") + ")"
		}
	})
}

// Report returns []control.ObservedCount.
func (r *Role) Report(ctx context.Context) (any, error) { return r.counts(ctx) }

func (r *Role) counts(ctx context.Context) (list []control.ObservedCount, err error) {
	err = r.loop.Do(ctx, func(time.Time) {
		list = []control.ObservedCount{}
		for _, n := range r.core.Counts() {
			if n.Packets > 0 {
				list = append(list, control.ObservedCount{
					Link: r.links[n.Link], Direction: directions[n.Flags&observer.Egress],
					Protocol: ip6.ProtocolName(n.Next), Flags: flags(n.Flags), Checksum: checksums[n.Checksum&3],
					Packets: n.Packets, Bytes: n.Bytes, PacketsPerS: n.PacketsPerSecond,
				})
			}
		}
	})
	return list, err
}

var directions = []string{"in", "out"}

// checksums are in the kernel's order of ip_summed.
var checksums = []string{"none", "unnecessary", "complete", "partial"}

func flags(f observer.Flags) []string {
	list := []string{}
	for i, name := range []string{"nonce", "locator-update", "unreadable"} {
		if f&(observer.Nonce<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// Metrics writes packets and bytes by link and class.
func (r *Role) Metrics(ctx context.Context, w io.Writer) error {
	list, err := r.counts(ctx)
	packets := metrics.Family{Name: "roam_observer_packets_total", Kind: "counter", Help: "IPv6 packets on links."}
	bytes := metrics.Family{Name: "roam_observer_bytes_total", Kind: "counter", Help: "Their bytes, IPv6 header included."}
	for _, n := range list {
		labels := []string{"link", n.Link, "direction", n.Direction, "protocol", n.Protocol,
			"flags", strings.Join(n.Flags, ","), "checksum", n.Checksum}
		packets.Samples = append(packets.Samples, metrics.Sample{Value: float64(n.Packets), Labels: labels})
		bytes.Samples = append(bytes.Samples, metrics.Sample{Value: float64(n.Bytes), Labels: labels})
	}
	return cmp.Or(err, metrics.WriteFamilies(w, packets, bytes))
}
