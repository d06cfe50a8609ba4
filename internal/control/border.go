package control

import (
	"context"
	"net/netip"
	"time"

	"roam"
)

// BorderReport is what the role border reports: RoleReport.Report.
type BorderReport struct {
	Policy string   `json:"policy"` // in its own syntax, a label a line
	Inside []string `json:"inside"` // names of the links to the inside that are there
	// Internal are the locators of the site's own hosts in the policy, Idle those whose lines can
	// never act.
	Internal []roam.L64       `json:"internal"`
	Idle     []BorderIdle     `json:"idle"`
	Links    []BorderLink     `json:"links"` // those of the configuration, and those to the inside
	Sites    []BorderSite     `json:"sites"`
	Flows    []BorderFlow     `json:"flows"`
	Refused  []BorderRefusals `json:"refused"`
	Dropped  []BorderDrops    `json:"dropped"`
	// MaxFlows is how many flows there is space for, FlowsRefused how often there was none.
	MaxFlows     int    `json:"max_flows"`
	FlowsRefused uint64 `json:"flows_refused"`
}

// BorderIdle is a line of the policy that can never act, wholly or in part.
type BorderIdle struct {
	Locator roam.L64 `json:"locator"`
	Why     string   `json:"why"`
}

// BorderLink is a link of the border.
type BorderLink struct {
	Name     string     `json:"name"`
	Locators []roam.L64 `json:"locators"` // that its provider assigned; none: it leads to the inside
	Exists   bool       `json:"exists"`
	Up       bool       `json:"up"`     // with carrier
	Routed   bool       `json:"routed"` // a default route leads over it
	Router   string     `json:"router,omitempty"`
	Hardware string     `json:"hardware,omitempty"` // whether the router's hardware address is known: HardwareKnown...
	Programs bool       `json:"programs"`           // they are attached in both directions
	XDP      string     `json:"xdp,omitempty"`      // where border.xdp lists it: XDPWhole...
}

// What a link does with XDP.
const (
	XDPWhole    = "on"
	XDPReceives = "receives only" // its driver sends no frames of other links' programs
	XDPUnknown  = "unknown"       // a kernel before 6.3 does not say whether the driver sends them: it is not asked to
	XDPNone     = "none"          // its driver has no XDP, or another program is there
)

// What is known of the hardware address of a router.
const (
	HardwareKnown   = "known"
	HardwareUnknown = "unknown"
	HardwareNone    = "none" // the link has no such addresses
)

// BorderSite is a locator that a provider assigned to the site.
type BorderSite struct {
	Locator   roam.L64 `json:"locator"`
	Link      string   `json:"link"` // "": none is configured
	State     string   `json:"state"`
	DrainedBy string   `json:"drained_by,omitempty"` // where State is BorderDrained: DrainedByCommand or DrainedByConfig
	NextHop   string   `json:"next_hop"`             // "known": its hardware address is; "kernel": the kernel looks it up
	TXPackets uint64   `json:"tx_packets"`           // sent from it
	TXBytes   uint64   `json:"tx_bytes"`
	RXPackets uint64   `json:"rx_packets"` // received for it
	RXBytes   uint64   `json:"rx_bytes"`
}

// States of a site locator.
const (
	BorderUp      = "up"
	BorderDown    = "down"
	BorderDrained = "drained"
	BorderSilent  = "silent" // its link is up, and nobody outside answers by it
)

// By what a link is drained. One that both drain is drained by the configuration.
const (
	DrainedByCommand = "command"       // until undrained, or the next start
	DrainedByConfig  = "configuration" // border.drained
)

// DrainRequest stops sending by a link to a provider, or uses it again.
type DrainRequest struct {
	Link    string `json:"link"`
	Drained bool   `json:"drained"`
}

// NoBorder returns a Border that answers everything with err.
func NoBorder(err error) Border { return noBorder{err} }

type noBorder struct{ err error }

func (n noBorder) SetDrained(context.Context, string, bool) error { return n.err }

// BorderFlow is what two nodes exchange across a border.
type BorderFlow struct {
	Inside    roam.NID   `json:"inside"`
	Internal  roam.L64   `json:"internal"` // locator of the inside node
	Outside   roam.NID   `json:"outside"`
	Remote    roam.L64   `json:"remote"`    // locator of the outside node
	Announced []roam.L64 `json:"announced"` // site locators that the outside node has acknowledged
	IdleS     float64    `json:"idle_s"`    // since the last packet
}

// BorderRefusals is how many messages the daemon did not forward for one reason.
type BorderRefusals struct {
	Reason   string       `json:"reason"`
	Messages uint64       `json:"messages"`
	Last     BorderPacket `json:"last"`
}

// BorderDrops is how many packets the programs dropped for one reason.
type BorderDrops struct {
	Counter string       `json:"counter"`
	Reason  string       `json:"reason"`
	Packets uint64       `json:"packets"`
	Last    BorderPacket `json:"last,omitzero"` // zero: none is kept
}

// BorderPacket is a packet that did not cross the border: of its reason the first one in the latest
// second that had any.
type BorderPacket struct {
	Time            time.Time  `json:"time"`
	Link            string     `json:"link"` // by which it came or was to leave; its number where it has gone
	Source          netip.Addr `json:"source,omitzero"`
	Destination     netip.Addr `json:"destination,omitzero"`
	Protocol        uint8      `json:"protocol"` // upper layer
	ICMPType        *uint8     `json:"icmp_type,omitempty"`
	SourcePort      uint16     `json:"source_port,omitempty"` // TCP and UDP
	DestinationPort uint16     `json:"destination_port,omitempty"`
}
