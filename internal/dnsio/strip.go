package dnsio

import (
	"net"
	"net/netip"
	"slices"

	"roam"

	"github.com/miekg/dns"
)

// strip takes session addresses out of another server's answer: they mean something
// on this host only, and whoever gave them out could send a program to any peer of
// this host that it names (DNS rebinding). What is left was not signed as it is now.
// It holds for answers to questions with the CD bit as well.
func (s *Server) strip(r *dns.Msg) {
	before := s.stripped.Load()
	for _, section := range []*[]dns.RR{&r.Answer, &r.Ns, &r.Extra} {
		*section = slices.DeleteFunc(*section, s.isSession)
	}
	if s.stripped.Load() > before {
		r.AuthenticatedData = false
	}
}

// isSession reports whether a record is a session address, and takes those out that
// a service binding hints at (RFC 9460 §7.3).
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

// Stripped returns how many session addresses were taken out of answers of other
// servers.
func (s *Server) Stripped() uint64 { return s.stripped.Load() }
