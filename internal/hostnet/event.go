package hostnet

import (
	"net"
	"net/netip"

	"roam"
)

// Event is one thing that the watch tells; exactly one of the concrete types
// below. The order is the order in which to act: an uplink is announced before
// its first Locator, and its Locators go before it does.
type Event interface{ event() }

// LocatorChanged tells that a Locator became usable, was refreshed by a Router
// Advertisement or an address notification, or is not usable any more. Present
// is true only while this host answers for prefix:NID on that link.
type LocatorChanged struct{ roam.PrefixEvent }

// UplinkChanged tells the state of an uplink: when it becomes one, and when
// anything in it changes.
type UplinkChanged struct{ Uplink Uplink }

// LinkGone tells that the interface of an uplink does not exist any more, that it
// became a port of a bridge or bond, or that it is a tunnel with private prefixes only.
// All its Locators were reported absent before.
type LinkGone struct {
	Link roam.LinkID
	Name string // as last seen; "": it has not been an uplink of this process
}

// Acted follows the first UplinkChanged of a link and tells nothing: that it is
// taken says that its reader has acted on that one. Only then prefix:NID is added,
// since what a router holds for it comes at once: it must meet the programs, or
// the stack would answer data of sessions with resets.
type Acted struct{ Link roam.LinkID }

// PolicyChanged tells that Host.Obstruction may answer otherwise from now on. It
// comes before the first Locator.
type PolicyChanged struct {
	Armed bool // there are policies that may obstruct something
}

// LinkSeen tells, once, of a link that is there or has appeared, if TellLinks was
// called; again when it is no uplink any more, after LinkGone.
type LinkSeen struct {
	Link   roam.LinkID
	Name   string
	HasMAC bool // frames carry an Ethernet header
}

// Candidate tells that a link is there or has appeared that may become an uplink, or that
// it is none any more: it is gone, or a port of another. An uplink is no candidate from its
// first UplinkChanged on.
type Candidate struct {
	Link  roam.LinkID
	Name  string // "": it was a candidate of an earlier process
	Still bool
}

// DeviceRemade tells that somebody deleted the session device, and that there is
// another one now, without programs.
type DeviceRemade struct{ Device Device }

// Trouble tells why a prefix cannot become a Locator now, or, without a Locator,
// what is wrong with the host's network. What can be is tried again.
type Trouble struct {
	roam.LinkLocator
	LinkName string
	Reason   string // one line, for people
}

func (LocatorChanged) event() {}
func (UplinkChanged) event()  {}
func (LinkGone) event()       {}
func (Acted) event()          {}
func (PolicyChanged) event()  {}
func (LinkSeen) event()       {}
func (Candidate) event()      {}
func (DeviceRemade) event()   {}
func (Trouble) event()        {}

// Uplink is a link that has or had a default IPv6 route and a global prefix,
// and that the configuration does not exclude. It stays one until its
// interface is gone, or a port of another, or a tunnel with private prefixes only.
type Uplink struct {
	Link   roam.LinkID
	Name   string
	MTU    int  // IPv6 MTU in bytes: the least of the device's and the router's
	Up     bool // administratively up, with carrier
	Routed bool // has a default route whose lifetime has not ended, or a process took it away less than a second ago
	HasMAC bool // frames carry an Ethernet header
	MAC    net.HardwareAddr

	// Addrs are its global addresses in order, temporary ones (RFC 8981) left
	// out: those that a server may be bound to.
	Addrs []netip.Addr

	NextHop      netip.Addr // the default router; invalid if none or if the route names only the device
	NextHopMAC   net.HardwareAddr
	NextHopValid bool // the neighbour entry of NextHop is in a state that the kernel sends to

	Physical bool // frames leave this machine's memory: not virtual, not paravirtual
}

// Snapshot is everything that the events so far amount to.
type Snapshot struct {
	Uplinks  []Uplink           // by interface index
	Locators []roam.PrefixEvent // the present ones, by interface index and L64
}

// Device is the pair of interfaces in front of the session addresses.
type Device struct {
	Name, PeerName   string // roam0, roam0x
	Index, PeerIndex int
	MAC, PeerMAC     net.HardwareAddr
	MTU              int

	// The two ends of the segmentation device: what is sent into Segmentation comes out of
	// SegmentationPeer in segments with finished checksums.
	Segmentation, SegmentationPeer int
}
