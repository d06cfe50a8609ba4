package arm

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"roam"
	"roam/ilnp"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/sim/ilnphost"
)

// usableWithin bounds the wait for a link that got carrier.
const usableWithin = 10 * time.Second

// Roam is Roam on every end host, except those with plain IPv6 in every arm.
var Roam Simulated = roamArm{}

type roamArm struct{}

func (roamArm) Name() string  { return "roam" }
func (roamArm) Title() string { return "Roam" }
func (roamArm) Traits() Traits {
	return Traits{Moves: true, Commands: true, Survives: true, Updates: true}
}

// Tools returns none: the lab finds roam and roamd by itself.
func (roamArm) Tools() map[string]string { return nil }
func (roamArm) Wrap() []string           { return nil }

// Setup starts the daemons, the mobile host's last, and waits until each has a
// locator.
func (roamArm) Setup(ctx context.Context, net *Net) (System, error) {
	if err := net.nameHosts(func(to *End) bool { return to.Plain }); err != nil {
		return nil, err
	}
	mobile := net.Ends[0]
	var peers []*node.Node
	for _, e := range append(append([]*End{}, net.Ends[1:]...), mobile) {
		if e.Plain {
			continue
		}
		name, mode := e.Host.Name(), net.PeerMode
		if e == mobile {
			mode = net.Mode
		}
		n, err := node.New(e.Host, net.Programs, node.Options{
			NID: e.NID, Mode: mode, Hosts: net.hostsFile(), More: net.More[name],
			Log: filepath.Join(net.Dir, net.Name+"-"+name+".roamd.log"),
		})
		if err != nil {
			return nil, err
		}
		if err := n.Start(ctx); err != nil {
			return nil, err
		}
		e.Node = n
		if err := n.WaitUsable(ctx, e.First()); err != nil {
			return nil, err
		}
		if e != mobile {
			peers = append(peers, n)
		}
	}
	if net.Keys {
		if err := node.PairKeys(ctx, mobile.Node, peers...); err != nil {
			return nil, err
		}
	}
	return &roamSystem{log: net.Log}, nil
}

// hostsFile names the hosts with their first locators, as an administrator would. It
// includes the mobile host, so that others can open sessions to it.
func (net *Net) hostsFile() string {
	var b strings.Builder
	for _, e := range net.Ends {
		if e.Plain {
			continue
		}
		v := roam.ILVFromAddr(e.Prefix[e.First()].Addr())
		v.NID = e.NID
		fmt.Fprintf(&b, "%s %s\n", v, e.Host.Name())
	}
	return b.String()
}

// roamSystem is Roam running on a network. Its daemons detect link changes by themselves.
type roamSystem struct {
	idle
	log func(format string, args ...any)
}

func (s *roamSystem) Usable(ctx context.Context, e *End, link string, since time.Time) error {
	if e.Node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usableWithin)
	defer cancel()
	return topo.Wait(ctx, "locator on "+link, func() bool {
		_, ok := node.Added(e.Node.Events(), link, since)
		return ok
	})
}

func (s *roamSystem) Mode(ctx context.Context, e *End, mode string) error {
	return ask(ctx, e, "mode", mode)
}

func (s *roamSystem) Use(ctx context.Context, e *End, link string, on bool) error {
	return ask(ctx, e, "locator", map[bool]string{false: "disable", true: "enable"}[on], link)
}

func ask(ctx context.Context, e *End, words ...string) error {
	if e.Node == nil {
		return nil
	}
	_, err := e.Node.Ask(ctx, words...)
	return err
}

func (roamArm) Nodes(net *ilnphost.Network, mn, cn roam.NID, mode ilnp.Mode) (mobile, peer *ilnphost.Node) {
	return net.AddNode("mn", ilnp.Config{NIDs: []roam.NID{mn}, Mode: mode}),
		net.AddNode("cn1", ilnp.Config{NIDs: []roam.NID{cn}, Accept: ilnp.Any})
}

func (roamArm) Meet(mobile, peer *ilnphost.Node, home roam.L64) {
	mobile.Know(peer, home)
	peer.Know(mobile)
}

func (roamArm) SetMode(mobile *ilnphost.Node, mode ilnp.Mode) { mobile.SetMode(mode) }

func (roamArm) SetUse(mobile *ilnphost.Node, link roam.LinkID, on bool) { mobile.Disable(link, !on) }
