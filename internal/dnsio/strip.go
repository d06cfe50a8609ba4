package dnsio

import (
	"net"
	"net/netip"
	"slices"

	"roam"

	"github.com/miekg/dns"
)

// strip removes session addresses from the answer of another server. Session addresses are
// local to a host, and another server could use them to direct a program to any peer of
// this host (DNS rebinding). The rest of the answer loses its signature. strip applies to
// answers to questions with the CD bit, too.
func (s *Server) strip(r *dns.Msg) {
	before := s.stripped.Load()
	for _, section := range []*[]dns.RR{&r.Answer, &r.Ns, &r.Extra} {
		*section = slices.DeleteFunc(*section, s.isSession)
	}
	if s.stripped.Load() > before {
		r.AuthenticatedData = false
	}
}

// isSession reports whether a record is a session address, and removes session addresses
// from the hints of a service binding (RFC 9460 §7.3).
func (s *Server) isSession(rr dns.RR) bool {
	switch rr := rr.(type) {
	case *dns.AAAA:
		return s.inSession(rr.AAAA)
	case *dns.SVCB:
		s.stripHints(rr)
	case *dns.HTTPS:
		s.stripHints(&rr.SVCB)
	}
	return false
}

func (s *Server) stripHints(rr *dns.SVCB) {
	rr.Value = slices.DeleteFunc(rr.Value, func(v dns.SVCBKeyValue) bool {
		hint, ok := v.(*dns.SVCBIPv6Hint)
		if !ok {
			return false
		}
		hint.Hint = slices.DeleteFunc(hint.Hint, s.inSession)
		return len(hint.Hint) == 0
	})
}

// inSession reports whether an address is a session address, and counts it.
func (s *Server) inSession(ip net.IP) bool {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !a.Is6() || roam.ILVFromAddr(a).L64 != s.prefix {
		return false
	}
	s.stripped.Add(1)
	return true
}

// Stripped returns the number of session addresses removed from upstream answers.
func (s *Server) Stripped() uint64 { return s.stripped.Load() }
