package scene

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"

	"roam/lab/topo"
)

// MPTCPTool opts an unmodified program in to Multipath TCP, see Arm.Wrap. Debian's package has the same name.
const MPTCPTool = "mptcpize"

// Wrap returns what is to be put before the command line of an application, so
// that it runs as the arm wants it; nothing but for MPTCP.
func (a Arm) Wrap() []string {
	if a != MPTCP {
		return nil
	}
	return []string{MPTCPTool, "run"}
}

// tableOf numbers the routing table of an access network.
func tableOf(i int) string { return strconv.Itoa(100 + i) }

// ip runs the ip program on a host.
func ip(ctx context.Context, h *topo.Host, args ...string) error {
	if out, err := h.Command(ctx, append([]string{"/usr/sbin/ip"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v on %s: %w: %s", args, h.Name(), err, out)
	}
	return nil
}

// startMPTCP sets up the kernel's path manager as its manual advises: what has an
// address of an access network leaves through it, by a table of its own, and
// each address is an endpoint for a full mesh of subflows.
func (s *Scene) startMPTCP(ctx context.Context) error {
	if _, err := exec.LookPath(MPTCPTool); err != nil {
		return fmt.Errorf("run the arm mptcp: %w: apt-get install mptcpize", err)
	}
	for _, e := range s.Ends {
		if err := e.Host.Sysctl("net.mptcp.enabled", "1"); err != nil {
			return fmt.Errorf("the kernel has no Multipath TCP: %w", err)
		}
		if err := ip(ctx, e.Host, "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"); err != nil {
			return err
		}
		for i, link := range e.Access {
			p := e.Prefix[link]
			if err := ip(ctx, e.Host, "-6", "route", "add", p.String(), "dev", link, "table", tableOf(i)); err != nil {
				return err
			}
			if err := ip(ctx, e.Host, "-6", "route", "add", "default", "via", first(p).Addr().String(), "dev", link, "table", tableOf(i)); err != nil {
				return err
			}
			if err := ip(ctx, e.Host, "-6", "rule", "add", "from", p.String(), "table", tableOf(i)); err != nil {
				return err
			}
			if !s.isUp(e, link) {
				continue
			}
			if err := s.endpoint(ctx, e, link, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// endpoint adds the address of a link to the endpoints, when there is one, or
// takes it off them.
func (s *Scene) endpoint(ctx context.Context, e *End, link string, on bool) error {
	id := 0
	for i, l := range e.Access {
		if l == link {
			id = i + 1
		}
	}
	if !on {
		addrs, err := e.Host.Addrs(link)
		if err != nil {
			return err
		}
		// The address that the connection began with has the number 0, and no
		// endpoint's.
		for _, a := range addrs {
			_ = ip(ctx, e.Host, "mptcp", "endpoint", "delete", "id", "0", a.Addr().String())
		}
		_ = ip(ctx, e.Host, "mptcp", "endpoint", "delete", "id", strconv.Itoa(id)) // it may never have been added
		return nil
	}
	addr, err := e.Host.WaitAddr(ctx, link, e.Prefix[link])
	if err != nil {
		return err
	}
	return ip(ctx, e.Host, "mptcp", "endpoint", "add", addr.String(), "dev", link, "id", strconv.Itoa(id), "subflow", "fullmesh")
}
