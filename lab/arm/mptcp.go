package arm

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"sync"

	"roam/lab/topo"
)

// MPTCP is the kernel's Multipath TCP.
var MPTCP Arm = mptcp{}

type mptcp struct{}

// mptcpTool opts an unmodified program in to Multipath TCP. Debian's package has
// the same name.
const mptcpTool = "mptcpize"

func (mptcp) Name() string             { return "mptcp" }
func (mptcp) Title() string            { return "Multipath TCP" }
func (mptcp) Traits() Traits           { return Traits{Moves: true, Commands: true, Survives: true} }
func (mptcp) Tools() map[string]string { return map[string]string{mptcpTool: mptcpTool} }
func (mptcp) Wrap() []string           { return []string{mptcpTool, "run"} }

// tableOf numbers the routing table of an access network.
func tableOf(i int) string { return strconv.Itoa(100 + i) }

// ip runs the ip program on a host.
func ip(ctx context.Context, h *topo.Host, args ...string) error {
	if out, err := h.Command(ctx, append([]string{"/usr/sbin/ip"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v on %s: %w: %s", args, h.Name(), err, out)
	}
	return nil
}

// Setup configures the kernel's path manager as its manual advises: packets from an address
// of an access network leave through that network, by a table of its own, and each address
// is an endpoint for a full mesh of subflows.
func (mptcp) Setup(ctx context.Context, net *Net) (System, error) {
	if err := net.nameHosts(everyHost); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(mptcpTool); err != nil {
		return nil, fmt.Errorf("run the arm mptcp: %w: apt-get install mptcpize", err)
	}
	for _, e := range net.Ends {
		if err := e.Host.Sysctl("net.mptcp.enabled", "1"); err != nil {
			return nil, fmt.Errorf("the kernel has no Multipath TCP: %w", err)
		}
		if err := ip(ctx, e.Host, "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"); err != nil {
			return nil, err
		}
		for i, link := range e.Access {
			p := e.Prefix[link]
			if err := ip(ctx, e.Host, "-6", "route", "add", p.String(), "dev", link, "table", tableOf(i)); err != nil {
				return nil, err
			}
			if err := ip(ctx, e.Host, "-6", "route", "add", "default", "via", p.Addr().Next().String(), "dev", link, "table",
				tableOf(i)); err != nil {
				return nil, err
			}
			if err := ip(ctx, e.Host, "-6", "rule", "add", "from", p.String(), "table", tableOf(i)); err != nil {
				return nil, err
			}
			if !net.Up(e, link) {
				continue
			}
			// The connection starts on this address.
			addr, err := e.Host.WaitAddr(ctx, link, p)
			if err != nil {
				return nil, err
			}
			if err := ip(ctx, e.Host, "mptcp", "endpoint", "add", addr.String(), "dev", link, "id", strconv.Itoa(i+1), "subflow",
				"fullmesh"); err != nil {
				return nil, err
			}
		}
	}
	return &mptcpSystem{}, nil
}

// mptcpSystem is Multipath TCP at work. It has an address on a link for an endpoint
// at once when the link has carrier.
type mptcpSystem struct {
	idle
	mu       sync.Mutex
	attached int // number of addresses assigned
}

func (s *mptcpSystem) Attached(ctx context.Context, e *End, link string) error {
	return s.endpoint(ctx, e, link, true)
}

func (s *mptcpSystem) Detached(ctx context.Context, e *End, link string) error {
	return s.endpoint(ctx, e, link, false)
}

func (s *mptcpSystem) Use(ctx context.Context, e *End, link string, on bool) error {
	return s.endpoint(ctx, e, link, on)
}

// endpoint makes a link an endpoint, or removes it. An endpoint added after the start gets
// a new address each time, like on a network that assigns new ones: Linux 6.18 makes no new
// subflow from the address that a connection started on and dropped.
func (s *mptcpSystem) endpoint(ctx context.Context, e *End, link string, on bool) error {
	id := strconv.Itoa(slices.Index(e.Access, link) + 1)
	if !on {
		_ = ip(ctx, e.Host, "mptcp", "endpoint", "delete", "id", id) // it may never have been added
		return nil
	}
	s.mu.Lock()
	s.attached++
	n := s.attached
	s.mu.Unlock()
	base := e.Prefix[link].Addr().As16()
	base[8], base[15] = 0xa, byte(n)
	base[14] = byte(n >> 8)
	addr := netip.AddrFrom16(base)
	if err := e.Host.AddAddr(link, netip.PrefixFrom(addr, 64)); err != nil {
		return err
	}
	return ip(ctx, e.Host, "mptcp", "endpoint", "add", addr.String(), "dev", link, "id", id, "subflow", "fullmesh")
}
