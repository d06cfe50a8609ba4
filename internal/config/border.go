package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"roam"
)

// Border is the section [border]: a site border router.
type Border struct {
	Inside []string // globs of the links to the inside
	Links  []BorderLink
	// Drained are names of links from which nothing is to leave.
	Drained []string
	// XDP are names of links whose drivers are to forward plain packets of known flows.
	XDP []string
	// Policy is a policy table in its own syntax; the role reads it.
	Policy      string
	Fallback    Fallback
	TCP         Division
	FlowLabel   bool          // the highest bit of the flow label marks packets of sessions
	Announce    time.Duration // how long changes of links are collected
	IdleTimeout time.Duration // after which a flow without packets is forgotten
	Liveness    bool          // providers are probed
	MaxFlows    int           // that there is space for at a time
	UDPPort     uint16        // of the hosts' control messages in UDP; 0: none
}

// BorderLink is a locator that a provider assigned, and the link to that provider.
type BorderLink struct {
	L64  roam.L64
	Name string
}

// Fallback is what happens to packets of no ILNP flow.
type Fallback uint8

// The fallbacks.
const (
	FallbackTranslate Fallback = iota // to and from the most preferred locator
	FallbackForward                   // as they are
	FallbackDrop
)

// Division is by what TCP is divided among providers.
type Division uint8

// The kinds of division.
const (
	ByConnection Division = iota
	ByPacket
)

var (
	fallbackWords = []string{FallbackTranslate: "translate", FallbackForward: "forward", FallbackDrop: "drop"}
	divisionWords = []string{ByConnection: "connection", ByPacket: "packet"}
)

// The bounds of border.announce.
const minAnnounce, maxAnnounce = time.Millisecond, 5 * time.Second

// The bounds of border.max_flows.
const minFlows, maxFlows = 1024, 1 << 20

// IsInside reports whether a link of that name leads to the inside of the site.
func (b Border) IsInside(link string) bool { return matches(b.Inside, link) }

// UsesXDP reports whether the driver of a link of that name is to forward.
func (b Border) UsesXDP(link string) bool { return slices.Contains(b.XDP, link) }

// Locators returns the locators of a link to a provider.
func (b Border) Locators(link string) (list []roam.L64) {
	for _, l := range b.Links {
		if l.Name == link {
			list = append(list, l.L64)
		}
	}
	return list
}

// linkTexts returns the links as they stand in the file.
func (b Border) linkTexts() []string {
	list := make([]string, len(b.Links))
	for i, l := range b.Links {
		list[i] = l.L64.Prefix().Addr().String() + " " + l.Name
	}
	return list
}

// border checks the section [border].
func (c *checker) border(r *raw) Border {
	b := Border{
		Inside:      c.globs("border.inside", r.Border.Inside),
		Policy:      r.Border.Policy,
		Fallback:    Fallback(c.word("border.fallback", r.Border.Fallback, fallbackWords)),
		TCP:         Division(c.word("border.tcp", r.Border.TCP, divisionWords)),
		FlowLabel:   r.Border.FlowLabel,
		Announce:    c.duration("border.announce", r.Border.Announce, minAnnounce, maxAnnounce),
		IdleTimeout: c.duration("border.idle_timeout", r.Border.IdleTimeout, minIdle, maxIdle),
		Liveness:    r.Border.Liveness,
		MaxFlows:    c.number("border.max_flows", r.Border.MaxFlows, minFlows, maxFlows),
		UDPPort:     c.port("border.udp_port", r.Border.UDPPort),
	}
	for _, name := range r.Border.Drained {
		if b.Drained = append(b.Drained, name); !linkName(name) {
			c.refuse("border.drained", strconv.Quote(name))
		}
	}
	for _, name := range r.Border.XDP {
		if b.XDP = append(b.XDP, name); !linkName(name) {
			c.refuse("border.xdp", strconv.Quote(name))
		}
	}
	for _, text := range r.Border.Links {
		l, ok := borderLink(text)
		switch {
		case !ok:
			c.refuse("border.links", strconv.Quote(text))
		case slices.ContainsFunc(b.Links, func(o BorderLink) bool { return o.L64 == l.L64 }):
			c.fault("border.links", "%s is listed twice; a locator leaves by one link", l.L64.Prefix())
		case b.IsInside(l.Name):
			c.fault("border.links", "%s is one of border.inside; a link leads to the inside or to a provider", l.Name)
		default:
			b.Links = append(b.Links, l)
		}
	}
	return b
}

// borderLink reads a locator, with or without "/64", and the name of a link.
func borderLink(text string) (l BorderLink, ok bool) {
	f := strings.Fields(text)
	if len(f) != 2 || !linkName(f[1]) {
		return l, false
	}
	l.Name = f[1]
	l.L64, ok = prefix64(f[0])
	return l, ok
}
