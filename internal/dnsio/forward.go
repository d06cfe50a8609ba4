package dnsio

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	perTry  = 2 * time.Second // for one server
	perName = 8 * time.Second // for a question in all
	rounds  = 2               // over the list of servers
)

// forward queries the upstream servers in their order. It returns SERVFAIL if there are
// none or none answers.
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
			// Another server may succeed where one fails or refuses.
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

// exchange queries one server, over TCP if the answer does not fit a datagram.
func exchange(ctx context.Context, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	ask := q.Copy()
	ask.Id = dns.Id() // a new random one: the client's may be predictable
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
	r.Question = q.Question // with the client's own case
	return r, nil
}

// answers reports whether r answers the question of ask.
func answers(ask, r *dns.Msg) bool {
	if !r.Response || len(r.Question) != 1 {
		return false
	}
	a, b := ask.Question[0], r.Question[0]
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}
