package dnsio

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	perTry  = 2 * time.Second // what one server may take
	perName = 8 * time.Second // what a question may take in all
	rounds  = 2               // how often the list of servers is gone through
)

// forward asks the upstream servers, in their order. Its answer is SERVFAIL
// when there are none or none answers.
func (s *Server) forward(q *dns.Msg) *dns.Msg {
	servers := s.Upstream()
	if len(servers) == 0 {
		return refuse(q, dns.RcodeServerFailure)
	}
	select {
	case s.flying <- struct{}{}:
		defer func() { <-s.flying }()
	default:
		return refuse(q, dns.RcodeServerFailure)
	}
	ctx, cancel := context.WithTimeout(s.closing, perName)
	defer cancel()
	var last *dns.Msg
	for range rounds {
		for _, server := range servers {
			r, err := exchange(ctx, server, q)
			if err != nil {
				continue
			}
			s.strip(r)
			// Another server may fare better than one that fails or refuses.
			if r.Rcode != dns.RcodeServerFailure && r.Rcode != dns.RcodeRefused {
				return r
			}
			last = r
		}
		if last != nil || ctx.Err() != nil {
			break
		}
	}
	if last == nil {
		last = refuse(q, dns.RcodeServerFailure)
	}
	return last
}

// exchange asks one server, over TCP when the answer does not fit a datagram.
func exchange(ctx context.Context, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	ask := q.Copy()
	ask.Id = dns.Id() // ours: the asker's may be guessed by a third
	ctx, cancel := context.WithTimeout(ctx, perTry)
	defer cancel()
	client := dns.Client{Net: "udp", Timeout: perTry}
	r, _, err := client.ExchangeContext(ctx, ask, server.String())
	if err == nil && r.Truncated {
		client.Net = "tcp"
		r, _, err = client.ExchangeContext(ctx, ask, server.String())
	}
	if err != nil {
		return nil, err
	}
	if !answers(ask, r) {
		return nil, dns.ErrId
	}
	r.Id = q.Id
	r.Question = q.Question // in the asker's own case
	return r, nil
}

// answers reports whether r has the question of ask.
func answers(ask, r *dns.Msg) bool {
	if !r.Response || len(r.Question) != 1 {
		return false
	}
	a, b := ask.Question[0], r.Question[0]
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}
