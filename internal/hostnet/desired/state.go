package desired

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// State is what one owner wants of the host's network. The zero State wants
// nothing. Links are named by their interface index.
type State struct {
	Devices    []Device
	Sysctls    []Sysctl
	Addresses  []Address
	Neighbours []Neighbour
	Proxies    []Proxy
	Routes     []Route
	Rules      []Rule
}

// Item is one thing that an owner may want: exactly one of the concrete types
// below. Items are comparable.
type Item interface {
	// Key names what the kernel has once: two items with one key contradict
	// each other unless they are equal.
	Key() string
	// Recorded returns the part that is needed to take the item back, as the
	// journal has it.
	Recorded() Item
	String() string

	stage() stage
	check() error
}

// stage orders items: one is made after those of lower stages and taken back
// before them.
type stage int

const (
	stageDevice stage = iota
	stageSysctl
	// stageForwarding comes after every accept_ra: when forwarding begins the
	// kernel drops the default routes of all links whose accept_ra is 1.
	stageForwarding
	stageAddress
	stageNeighbour
	stageRoute // its source address and next hop are there
	stageRule  // no packet takes a table before its routes are there
)

// Device is a pair of virtual interfaces (veth) that has no addresses but those
// that owners want, learns nothing and says nothing: no IPv6 at the peer, no
// address resolution, no multicast. What stands on it goes with it.
type Device struct {
	Name string `json:"name"`
	Peer string `json:"peer"`
	MTU  int    `json:"mtu,omitempty"` // of both ends, in bytes
	// Segments has the device cut GSO packets and finish checksums: no offloads
	// at either end, and no IPv6.
	Segments bool `json:"segments,omitempty"`
}

// Sysctl is net.ipv6.conf.LINK.KEY.
type Sysctl struct {
	Link  int    `json:"link,omitempty"`
	Name  string `json:"name,omitempty"` // instead of Link: "default", "all", or an interface in a journal of version 1
	Param string `json:"param"`          // accept_ra
	Value string `json:"value,omitempty"`
}

// Detection is how an address passes duplicate detection (RFC 4862 §5.4).
type Detection string

// Usual detects before the address is used, Optimistic while it is used
// (RFC 4429), None not at all.
const (
	Usual      Detection = ""
	Optimistic Detection = "optimistic"
	None       Detection = "none"
)

// Address is an address of a link, without a route for its prefix. An address
// that the host has already is left as it is.
type Address struct {
	Link      int        `json:"link"`
	Addr      netip.Addr `json:"addr"`
	Bits      int        `json:"bits"`
	Detection Detection  `json:"detection,omitempty"` // only when it is added
	// Preferred lets the kernel choose it as the source of new connections; it
	// is deprecated otherwise.
	Preferred bool      `json:"preferred,omitempty"`
	Until     time.Time `json:"-"` // end of its valid lifetime; zero: it has none
}

// Neighbour is a permanent entry of the neighbour table.
type Neighbour struct {
	Link int        `json:"link"`
	Addr netip.Addr `json:"addr"`
	MAC  string     `json:"mac"` // as net.HardwareAddr prints it
}

// Proxy has the kernel answer Neighbour Solicitations for an address that
// another node has (RFC 4861 §7.2.8). It needs the sysctl proxy_ndp of its link.
type Proxy struct {
	Link int        `json:"link"`
	Addr netip.Addr `json:"addr"`
}

// Route is a unicast route, or one that answers with Unreachable.
type Route struct {
	Dst         netip.Prefix `json:"dst"`
	Link        int          `json:"link,omitempty"`   // 0 only if Unreachable
	Gateway     netip.Addr   `json:"gateway,omitzero"` // invalid: the destination is on the link
	Source      netip.Addr   `json:"source,omitzero"`  // preferred source; invalid: the kernel chooses
	Table       int          `json:"table,omitempty"`  // 0: main
	Metric      int          `json:"metric,omitempty"` // 0: 1024
	MTU         int          `json:"mtu,omitempty"`    // of packets, in bytes; 0: that of the link
	Unreachable bool         `json:"unreachable,omitempty"`
}

// Rule sends packets to a table of routes. It has its priority for itself.
type Rule struct {
	Priority int          `json:"priority"`
	From     netip.Prefix `json:"from,omitzero"` // invalid: any
	To       netip.Prefix `json:"to,omitzero"`   // invalid: any
	In       string       `json:"in,omitempty"`  // name of the incoming interface
	Mark     uint32       `json:"mark,omitempty"`
	Table    int          `json:"table"`
}

// What Linux uses where nothing is said.
const (
	mainTable   = 254
	routeMetric = 1024
)

// Normal returns the route with the kernel's defaults filled in.
func (r Route) Normal() Route {
	r.Dst = r.Dst.Masked()
	r.Table, r.Metric = cmp.Or(r.Table, mainTable), cmp.Or(r.Metric, routeMetric)
	return r
}

// Key is the name: no two interfaces share it.
func (d Device) Key() string { return "device " + d.Name }

// Key is the parameter of the link.
func (s Sysctl) Key() string {
	if s.Link == 0 {
		return "sysctl " + s.Name + "/" + s.Param
	}
	return fmt.Sprintf("sysctl %d/%s", s.Link, s.Param)
}

// Key is the address on its link, whatever its prefix length: the kernel has it
// once.
func (a Address) Key() string { return "address " + a.Addr.String() + " on " + strconv.Itoa(a.Link) }

// Key is the address on its link.
func (n Neighbour) Key() string { return fmt.Sprintf("neighbour %s on %d", n.Addr, n.Link) }

// Key is the address on its link.
func (p Proxy) Key() string { return fmt.Sprintf("proxy %s on %d", p.Addr, p.Link) }

// Key is destination, table and metric: routes that share all three are the
// ways of one multipath route.
func (r Route) Key() string {
	r = r.Normal()
	return fmt.Sprintf("route %s table %d metric %d", r.Dst, r.Table, r.Metric)
}

// Key is the priority: the kernel takes a request to delete a rule for the first
// one of the priority that has what the request names.
func (r Rule) Key() string { return fmt.Sprintf("rule %d", r.Priority) }

// Recorded leaves out the MTU.
func (d Device) Recorded() Item { return Device{Name: d.Name, Peer: d.Peer} }

// Recorded leaves out the value: the journal has the one to put back.
func (s Sysctl) Recorded() Item { s.Value = ""; return s }

// Recorded leaves out lifetimes and detection.
func (a Address) Recorded() Item { return Address{Link: a.Link, Addr: a.Addr, Bits: a.Bits} }

// Recorded is the whole entry.
func (n Neighbour) Recorded() Item { return n }

// Recorded is the whole entry.
func (p Proxy) Recorded() Item { return p }

// Recorded is the whole route.
func (r Route) Recorded() Item { return r.Normal() }

// Recorded is the whole rule.
func (r Rule) Recorded() Item { return r }

// String names the device.
func (d Device) String() string { return fmt.Sprintf("device %s (MTU %d)", d.Name, d.MTU) }

// String is the line that sysctl(8) takes, with the link's index.
func (s Sysctl) String() string {
	link := s.Name
	if s.Link != 0 {
		link = fmt.Sprintf("LINK%d", s.Link)
	}
	return fmt.Sprintf("sysctl net.ipv6.conf.%s.%s = %s", link, s.Param, s.Value)
}

// String names address, link and what matters of the rest.
func (a Address) String() string {
	s := fmt.Sprintf("address %s/%d on link %d", a.Addr, a.Bits, a.Link)
	if a.Preferred {
		s += ", preferred"
	}
	if !a.Until.IsZero() {
		s += ", until " + a.Until.Format(time.TimeOnly)
	}
	return s
}

// String is close to what ip(8) takes.
func (n Neighbour) String() string {
	return fmt.Sprintf("neighbour %s on link %d at %s", n.Addr, n.Link, n.MAC)
}

// String is close to what ip(8) takes.
func (p Proxy) String() string {
	return fmt.Sprintf("neighbour proxy for %s on link %d", p.Addr, p.Link)
}

// String is close to what ip(8) takes.
func (r Route) String() string {
	r = r.Normal()
	s := fmt.Sprintf("route %s table %d metric %d", r.Dst, r.Table, r.Metric)
	if r.Unreachable {
		return s + ", unreachable"
	}
	if r.Gateway.IsValid() {
		s += " via " + r.Gateway.String()
	}
	s += fmt.Sprintf(" on link %d", r.Link)
	if r.Source.IsValid() {
		s += " from " + r.Source.String()
	}
	if r.MTU != 0 {
		s += fmt.Sprintf(" mtu %d", r.MTU)
	}
	return s
}

// String is close to what ip(8) takes.
func (r Rule) String() string {
	s := fmt.Sprintf("rule %d", r.Priority)
	if r.From.IsValid() {
		s += " from " + r.From.String()
	}
	if r.To.IsValid() {
		s += " to " + r.To.String()
	}
	if r.In != "" {
		s += " iif " + r.In
	}
	if r.Mark != 0 {
		s += fmt.Sprintf(" fwmark %#x", r.Mark)
	}
	return s + fmt.Sprintf(" table %d", r.Table)
}

// LinkOf returns the interface index of the link that an item stands on; 0: on
// none.
func LinkOf(x Item) int {
	switch x := x.(type) {
	case Sysctl:
		return x.Link
	case Address:
		return x.Link
	case Neighbour:
		return x.Link
	case Proxy:
		return x.Link
	case Route:
		return x.Link
	}
	return 0
}

func (Device) stage() stage    { return stageDevice }
func (Address) stage() stage   { return stageAddress }
func (Neighbour) stage() stage { return stageNeighbour }
func (Proxy) stage() stage     { return stageNeighbour }
func (Route) stage() stage     { return stageRoute }
func (Rule) stage() stage      { return stageRule }

func (s Sysctl) stage() stage {
	if s.Param == "forwarding" {
		return stageForwarding
	}
	return stageSysctl
}

var (
	errLink = errors.New("names no link")
	errIPv6 = errors.New("is not of IPv6")
)

// ipv6 reports whether an address is one that a host can have.
func ipv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() && a.Zone() == "" }

func onLink(link int, a netip.Addr) error {
	switch {
	case link <= 0:
		return errLink
	case !ipv6(a):
		return errIPv6
	}
	return nil
}

func (d Device) check() error {
	if d.Name == "" || d.Peer == "" || d.Name == d.Peer || d.MTU <= 0 {
		return errors.New("needs two names and an MTU")
	}
	return nil
}

// check refuses what could not be put back: disable_ipv6 takes all addresses of
// a link, and a write to "all" changes every link.
func (s Sysctl) check() error {
	switch {
	case s.Link < 0 || (s.Link == 0) == (s.Name == ""):
		return errLink
	case s.Param == "" || s.Value == "":
		return errors.New("needs a parameter and a value")
	case s.Param == "disable_ipv6", s.Name != "" && s.Name != "default" && s.Param != "proxy_ndp":
		return errors.New("cannot be put back as it was")
	}
	return nil
}

func (a Address) check() error {
	if a.Bits < 1 || a.Bits > 128 {
		return errors.New("needs a prefix length")
	}
	return onLink(a.Link, a.Addr)
}

func (n Neighbour) check() error {
	if n.MAC == "" {
		return errors.New("needs a hardware address")
	}
	return onLink(n.Link, n.Addr)
}

func (p Proxy) check() error { return onLink(p.Link, p.Addr) }

func (r Route) check() error {
	switch {
	case !r.Dst.IsValid() || !ipv6(r.Dst.Addr()),
		r.Gateway.IsValid() && !ipv6(r.Gateway), r.Source.IsValid() && !ipv6(r.Source):
		return errIPv6
	case r.Unreachable && (r.Link != 0 || r.Gateway.IsValid() || r.Source.IsValid()):
		return errors.New("leads nowhere and somewhere")
	case !r.Unreachable && r.Link <= 0:
		return errLink
	case r.Table < 0 || r.Metric < 0:
		return errors.New("has a negative table or metric")
	}
	return nil
}

func (r Rule) check() error {
	switch {
	case r.From.IsValid() && !ipv6(r.From.Addr()), r.To.IsValid() && !ipv6(r.To.Addr()):
		return errIPv6
	case r.From != r.From.Masked() || r.To != r.To.Masked():
		return errors.New("has bits beyond its prefix")
	case r.Priority <= 0 || r.Table <= 0:
		return errors.New("needs a priority and a table") // 0 is the kernel's own rule
	}
	return nil
}
