package scene

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"roam/lab/linkem"
	"roam/lab/topo"
)

// first returns the router's own address in a prefix.
func first(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr().Next(), p.Bits()) }

// second returns the other end's address in a prefix of two routers.
func second(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(first(p).Addr().Next(), p.Bits()) }

func prefix(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}

// network makes hosts, routers and links, and waits for the addresses that SLAAC
// makes.
func (s *Scene) network(ctx context.Context) (err error) {
	if s.Core, err = s.Lab.Host("r0"); err != nil {
		return fmt.Errorf("make core router: %w", err)
	}
	if err = s.Core.Forward(); err != nil {
		return err
	}
	if err = s.addEnd(ctx, "mn", Correspondent{Access: s.cfg.Mobile}); err != nil {
		return err
	}
	var adverts []topo.Advert
	for i, c := range s.cfg.Correspondents {
		if err = s.addEnd(ctx, fmt.Sprintf("cn%d", i+1), c); err != nil {
			return err
		}
		if len(c.Access) == 0 {
			if adverts, err = s.addWire(adverts, i); err != nil {
				return err
			}
		}
	}
	if len(adverts) > 0 {
		if _, err = s.Core.Router(adverts...); err != nil {
			return err
		}
	}
	return s.ready(ctx)
}

// addEnd adds an end host with its access networks.
func (s *Scene) addEnd(ctx context.Context, name string, c Correspondent) error {
	h, err := s.Lab.Host(name)
	if err != nil {
		return fmt.Errorf("make host: %w", err)
	}
	e := &End{
		Host:    h,
		NID:     NID(name),
		Links:   map[string]*linkem.Link{},
		Routers: map[string]*topo.Host{},
		Prefix:  map[string]netip.Prefix{},
		Plain:   c.NoRoam,
	}
	s.Ends = append(s.Ends, e)
	for i, a := range c.Access {
		if err := s.addAccess(ctx, e, i, a); err != nil {
			return fmt.Errorf("access network %d of %s: %w", i+1, name, err)
		}
	}
	return nil
}

// addAccess adds one access network with its router, joined to the core.
func (s *Scene) addAccess(ctx context.Context, e *End, i int, a Access) error {
	host := len(s.Ends) - 1 // 0 is the mobile one
	ifname, name, p := fmt.Sprintf("net%d", i+1), fmt.Sprintf("r%d", i+1), prefix("2001:db8:%d::/64", i+1)
	if host > 0 {
		name, p = fmt.Sprintf("r%dx%d", i+1, host), prefix("2001:db8:c%d:%d::/64", host, i+1)
	}
	r, err := s.Lab.Host(name)
	if err != nil {
		return err
	}
	if err := r.Forward(); err != nil {
		return err
	}
	seed := s.cfg.Seed + uint64(i) + 16*uint64(host)
	a.Out.Seed, a.In.Seed = seed, seed
	link, err := s.Lab.Link(e.Host, ifname, r, "lan", a.Out)
	if err == nil {
		err = link.Set(linkem.BA, a.In)
	}
	if err != nil {
		return err
	}
	e.Access, e.Links[ifname], e.Prefix[ifname], e.Routers[ifname] = append(e.Access, ifname), link, p, r
	wan := prefix("2001:db8:f%d:%d::/64", host, i+1)
	err = errors.Join(
		s.Lab.Veth(r, "wan", s.Core, name),
		r.AddAddr("lan", first(p)),
		s.Core.AddAddr(name, first(wan)),
		r.AddAddr("wan", second(wan)),
		r.AddRoute(netip.MustParsePrefix("::/0"), first(wan).Addr(), "wan"),
		s.Core.AddRoute(p, second(wan).Addr(), name),
		ingressFilter(ctx, r, p),
		s.Carrier(e, ifname, i == 0 || a.Up))
	if err != nil {
		return err
	}
	ra := s.cfg.Advert
	if a.Advert != nil {
		ra = *a.Advert
	}
	_, err = r.Router(advert(ra, "lan", p))
	return err
}

// ingressFilter makes a router drop packets with source addresses outside its own network,
// as every access network should (BCP 38): a host cannot send from one network with
// another's address.
func ingressFilter(ctx context.Context, r *topo.Host, p netip.Prefix) error {
	for _, rule := range [][]string{
		{"add", "table", "ip6", "bcp38"},
		{"add", "chain", "ip6", "bcp38", "forward", "{ type filter hook forward priority 0 ; }"},
		{"add", "rule", "ip6", "bcp38", "forward", "iifname", "lan", "ip6", "saddr", "!=", p.String(), "counter", "drop"},
	} {
		if out, err := r.Command(ctx, append([]string{"/usr/sbin/nft"}, rule...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("filter on %s: %w: %s", r.Name(), err, out)
		}
	}
	return nil
}

// addWire connects the last correspondent to the core, and returns the core's
// advertisements with the one for it added.
func (s *Scene) addWire(adverts []topo.Advert, i int) ([]topo.Advert, error) {
	e, ifname, p := s.Ends[len(s.Ends)-1], fmt.Sprintf("cn%d", i+1), prefix("2001:db8:c%d::/64", i+1)
	if err := errors.Join(s.Lab.Veth(e.Host, "eth0", s.Core, ifname), s.Core.AddAddr(ifname, first(p))); err != nil {
		return nil, fmt.Errorf("correspondent %d: %w", i+1, err)
	}
	e.Prefix["eth0"] = p
	return append(adverts, advert(s.cfg.Advert, ifname, p)), nil
}

// advert returns the advertisement of a router on an interface.
func advert(ra RA, ifname string, p netip.Prefix) topo.Advert {
	return topo.Advert{
		Interface:   ifname,
		Prefix:      p,
		MinInterval: ra.Min,
		MaxInterval: ra.Max,
		Preferred:   ra.Preferred,
		Valid:       ra.Valid,
	}
}

// ready waits for the addresses on the first network of every end host.
func (s *Scene) ready(ctx context.Context) (err error) {
	for _, e := range s.Ends {
		if e.Addr, err = e.Host.WaitAddr(ctx, e.First(), e.Prefix[e.First()]); err != nil {
			return err
		}
	}
	return nil
}
