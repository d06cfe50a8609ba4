package site

import (
	"errors"
	"net/netip"

	"roam/lab/topo"
)

// Third is the prefix of the provider that AddProvider adds.
var Third = netip.MustParsePrefix("2001:db8:e::/64")

// AddProvider adds a third provider, by the link wan2 of the near border, before Roam is started.
func (s *Site) AddProvider() (p *topo.Host, err error) {
	if p, err = s.Lab.Host("provider2"); err != nil {
		return nil, err
	}
	err = errors.Join(s.Lab.Veth(s.Router, "wan2", p, "site"), s.Lab.Veth(p, "core", s.Core, "provider2"), p.Forward())
	if err != nil {
		return nil, err
	}
	return p, errors.Join(
		via(s.Router, everywhere, "wan2", p, "site", 102),
		via(p, Third, "site", s.Router, "wan2", 100),
		via(p, everywhere, "core", s.Core, "provider2", 100),
		via(s.Core, Third, "provider2", p, "core", 100))
}
