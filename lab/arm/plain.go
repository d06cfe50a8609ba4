package arm

import (
	"context"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim/ilnphost"
)

// Plain is plain IPv6 through the same schedule: the control that fails.
var Plain Simulated = plain{}

type plain struct{}

func (plain) Name() string             { return "plain" }
func (plain) Title() string            { return "plain IPv6" }
func (plain) Traits() Traits           { return Traits{Moves: true} }
func (plain) Tools() map[string]string { return nil }
func (plain) Wrap() []string           { return nil }

func (plain) Setup(_ context.Context, net *Net) (System, error) {
	return idle{}, net.nameHosts(everyHost)
}

func (plain) Nodes(net *ilnphost.Network, mn, cn roam.NID, _ ilnp.Mode) (mobile, peer *ilnphost.Node) {
	return net.AddPlainNode("mn", mn, ilnphost.Problem), net.AddPlainNode("cn1", cn, ilnphost.Problem)
}

func (plain) Meet(*ilnphost.Node, *ilnphost.Node, roam.L64) {}
func (plain) SetMode(*ilnphost.Node, ilnp.Mode)             {}
func (plain) SetUse(*ilnphost.Node, roam.LinkID, bool)      {}

// idle is a system without any reaction.
type idle struct{}

func (idle) Attached(context.Context, *End, string) error          { return nil }
func (idle) Usable(context.Context, *End, string, time.Time) error { return nil }
func (idle) Detached(context.Context, *End, string) error          { return nil }
func (idle) Mode(context.Context, *End, string) error              { return nil }
func (idle) Use(context.Context, *End, string, bool) error         { return nil }
