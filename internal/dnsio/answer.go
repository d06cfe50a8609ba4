package dnsio

import (
	"net/netip"
	"strconv"
	"strings"

	"roam"
	"roam/naming"

	"github.com/miekg/dns"
)

// ttl of answers from the table, in seconds. It is short, since a reload may change the
// table and a cache on the same host gains nothing.
const ttl = 5

// local answers for a name of the table.
func (s *Server) local(q *dns.Msg, rec naming.Record) *dns.Msg {
	question := q.Question[0]
	switch question.Qtype {
	case dns.TypeAAAA, dns.TypeANY:
		if s.asked != nil {
			s.asked(rec.NID)
		}
		// One address: the session address represents all locators.
		return found(q, aaaa(question.Name, roam.ILV{L64: s.prefix, NID: rec.NID}.Addr()))
	case dns.TypeA, dns.TypeSVCB, dns.TypeHTTPS:
		// An IPv4 address, or the address hints of a service binding, would make the
		// application bypass the session.
		return found(q)
	case dns.TypeNID, dns.TypeL64:
		return found(q, ilnpRecords(question, rec)...)
	}
	return s.elsewhere(q, found(q))
}

// original answers a question with the CD bit: with the name's own records, as a validating
// client needs them.
func (s *Server) original(q *dns.Msg, rec naming.Record) *dns.Msg {
	question := q.Question[0]
	mine := found(q)
	switch question.Qtype {
	case dns.TypeAAAA, dns.TypeANY:
		for _, l := range rec.Locators {
			mine.Answer = append(mine.Answer, aaaa(question.Name, roam.ILV{L64: l.L64, NID: rec.NID}.Addr()))
		}
	case dns.TypeNID, dns.TypeL64:
		mine = found(q, ilnpRecords(question, rec)...)
	}
	return s.elsewhere(q, mine)
}

// elsewhere forwards q, and returns mine if no upstream server has an answer.
func (s *Server) elsewhere(q, mine *dns.Msg) *dns.Msg {
	if len(s.Upstream()) == 0 {
		return mine
	}
	if r := s.forward(q); r.Rcode == dns.RcodeSuccess && len(r.Answer) > 0 {
		return r
	}
	return mine
}

// reverse answers for a session address.
func reverse(q *dns.Msg, table *naming.Table, alias roam.NID) *dns.Msg {
	rec, ok := table.ByNID(alias)
	if !ok || len(rec.Names) == 0 {
		return refuse(q, dns.RcodeNameError)
	}
	if t := q.Question[0].Qtype; t != dns.TypePTR && t != dns.TypeANY {
		return found(q)
	}
	return found(q, &dns.PTR{Hdr: header(q.Question[0].Name, dns.TypePTR), Ptr: dns.Fqdn(rec.Names[0])})
}

// sessionAlias returns the low half of the address that a reverse name encodes, if its high
// half is the session prefix.
func (s *Server) sessionAlias(name string) (roam.NID, bool) {
	digits, ok := strings.CutSuffix(strings.ToLower(dns.Fqdn(name)), ".ip6.arpa.")
	if !ok || len(digits) != 63 {
		return 0, false
	}
	var b [16]byte
	for i := range 32 {
		if i > 0 && digits[2*i-1] != '.' {
			return 0, false
		}
		v, err := strconv.ParseUint(digits[2*i:2*i+1], 16, 4)
		if err != nil {
			return 0, false
		}
		// The nibbles are in reverse order, the lower half of the last byte first.
		b[15-i/2] |= byte(v) << (4 * (i % 2))
	}
	ilv := roam.ILVFromAddr(netip.AddrFrom16(b))
	return ilv.NID, ilv.L64 == s.prefix
}

func found(q *dns.Msg, rr ...dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	m.Answer = rr
	return m
}

func refuse(q *dns.Msg, rcode int) *dns.Msg {
	m := new(dns.Msg).SetRcode(q, rcode)
	m.RecursionAvailable = true
	return m
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

func aaaa(name string, a netip.Addr) dns.RR {
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: a.AsSlice()}
}

// ilnpRecords returns the NID or L64 records of RFC 6742 §§2.1, 2.3 that q requests.
func ilnpRecords(q dns.Question, rec naming.Record) (out []dns.RR) {
	if q.Qtype == dns.TypeNID {
		return []dns.RR{&dns.NID{
			Hdr:        header(q.Name, dns.TypeNID),
			Preference: naming.DefaultPreference,
			NodeID:     uint64(rec.NID),
		}}
	}
	for _, l := range rec.Locators {
		out = append(out, &dns.L64{Hdr: header(q.Name, dns.TypeL64), Preference: l.Preference, Locator64: uint64(l.L64)})
	}
	return out
}
